"""Which topics there are: asked when they are not known, believed gone when all brokers say so, again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager

import pytest

from protocol.wire import ZERO_UUID
from shim.following import TopicInDoubt, Topics
from shim.runtime import OffsetsOfTopics
from shim.upstream import Topic, UpstreamError
from shim.upstream.cluster_topics import View
from tests.following.believed import QUICK, Brokers, topics_of
from tests.waiting import until

WAIT_SECONDS = 60.0
NAME = "orders"
A, B = 1, 2


class Offsets(OffsetsOfTopics):
    """For which topics there are some, and of which they were deleted."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.deleted: list[str] = []
        self.looks = 0
        self.is_loading = False
        self.may_delete = asyncio.Event()
        self.may_delete.set()

    async def in_use(self) -> set[str]:
        self.looks += 1
        return set(self.names)

    @property
    def are_all_known(self) -> bool:
        return not self.is_loading

    async def delete(self, topic: str) -> int:
        self.deleted.append(topic)
        await self.may_delete.wait()
        self.names.discard(topic)
        return 1


@asynccontextmanager
async def looking(topics: Topics, offsets: Offsets) -> AsyncIterator[None]:
    task = asyncio.create_task(topics.run(offsets))
    try:
        yield
        assert not task.done(), "it goes on for ever"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def looked(offsets: Offsets, times: int = 3) -> None:
    """So many whole looks later."""
    enough = offsets.looks + times + 1
    await until(lambda: offsets.looks >= enough)


async def confirmed(topics: Topics, brokers: Brokers, offsets: Offsets) -> None:
    """It is known which topic has the name."""
    await until(lambda: NAME in topics.partition_counts and [NAME] in brokers.asked_all)
    await looked(offsets, 1)


async def told(topics: Topics, topic_id: int, name: str = NAME) -> bool:
    """A client is about to be told that the topic is this one: whether it is."""
    strange = topics.strange({name: bytes([topic_id]) * 16})
    return not (strange and await topics.look_at(strange))


def wanted(topics: Topics) -> dict[str, object]:
    names: dict[str, object] = vars(vars(topics)["_lookup"])["_wanted"]
    return names


# -- asked for


async def test_a_topic_that_is_not_known_is_asked_for_and_known_then() -> None:
    brokers = Brokers()
    topics = topics_of(brokers)
    assert await topics.partitions_of([NAME]) == {NAME: 0}
    assert topics.partition_counts == {}
    brokers.make(NAME, partitions=3)
    assert await topics.partitions_of([NAME]) == {NAME: 3}
    assert topics.partition_counts == {NAME: 3}


async def test_partitions_that_were_added_are_seen() -> None:
    brokers = Brokers()
    topics = topics_of(brokers)
    brokers.make(NAME, partitions=3)
    await topics.partitions_of([NAME])
    brokers.make(NAME, partitions=5)
    assert await topics.partitions_of([NAME]) == {NAME: 5}
    brokers.make(NAME, partitions=4)
    await topics.look_at({NAME: ZERO_UUID})
    assert topics.partition_counts == {NAME: 5}, "who says less is behind"


async def test_a_topic_so_new_that_one_broker_has_not_heard_of_it_is_not_said_to_be_missing() -> None:
    brokers = Brokers(2)
    brokers.make(NAME, at=[1])
    assert await topics_of(brokers).partitions_of([NAME]) == {NAME: None}


@pytest.mark.parametrize("what", ["down", "unclear"])
async def test_what_nobody_can_say_is_not_said_to_be_missing(what: str) -> None:
    brokers = Brokers()
    if what == "down":
        brokers.down = {0}
    else:
        brokers.unclear = {NAME}
    assert await topics_of(brokers).partitions_of([NAME]) == {NAME: None}


async def test_a_broker_that_does_not_answer_in_time_says_nothing() -> None:
    class Silent(Brokers):
        async def one(self, names: Collection[str]) -> dict[str, Topic | None]:
            await asyncio.Event().wait()
            raise AssertionError

    topics = topics_of(Silent(), QUICK._replace(wait=0.01))
    assert await topics.partitions_of([NAME]) == {NAME: None}


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "a" * 250, "a\n"])
async def test_what_no_topic_can_be_called_is_missing_and_nobody_is_asked(name: str) -> None:
    brokers = Brokers()
    assert await topics_of(brokers).partitions_of([name]) == {name: 0}
    assert brokers.asked_one == []


async def test_names_that_do_not_exist_are_asked_for_together_and_not_kept() -> None:
    brokers = Brokers()
    topics = topics_of(brokers)
    names = [[f"{client}-{n}" for n in range(100)] for client in range(20)]
    answers = await asyncio.gather(*(topics.partitions_of(of_client) for of_client in names))
    assert answers == [dict.fromkeys(of_client, 0) for of_client in names]
    assert len(brokers.asked_one) <= 5
    assert max(map(len, brokers.asked_one)) <= 500
    assert topics.partition_counts == {}
    assert wanted(topics) == vars(topics)["_table"].identities == {}


async def test_names_do_not_pile_up_while_the_broker_hangs() -> None:
    class Silent(Brokers):
        async def one(self, names: Collection[str]) -> dict[str, Topic | None]:
            await asyncio.Event().wait()
            raise AssertionError

    topics = topics_of(Silent(), QUICK._replace(wait=0.01))
    for number in range(15):
        names = [f"{number}-{n}" for n in range(10_000)]
        assert await topics.partitions_of(names) == dict.fromkeys(names)
    assert len(wanted(topics)) <= 110_000


async def test_what_clients_hear_of_topics_that_are_no_concern_is_not_kept() -> None:
    brokers = Brokers()
    brokers.make(NAME)
    topics = topics_of(brokers)
    assert topics.strange({NAME: bytes([B]) * 16}) == {}
    assert await topics.look_at({NAME: bytes([B]) * 16}) == set()
    assert topics.partition_counts == {}
    assert brokers.asked_each == []


async def test_a_topic_without_offsets_is_forgotten() -> None:
    brokers, offsets = Brokers(), Offsets()
    topics = topics_of(brokers)
    brokers.make(NAME)
    await topics.partitions_of([NAME])
    assert NAME in topics.partition_counts
    async with looking(topics, offsets):
        await until(lambda: topics.partition_counts == {})


# -- gone


async def test_offsets_for_a_topic_that_is_gone_are_deleted_once() -> None:
    brokers, offsets = Brokers(3), Offsets(NAME)
    brokers.make(NAME)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        asked = len(brokers.asked_all)
        brokers.delete(NAME)
        await until(lambda: NAME not in offsets.names)
        assert len(brokers.asked_all) - asked >= 2, "all brokers were asked twice"
        await looked(offsets)
    assert offsets.deleted == [NAME]
    assert topics.partition_counts == {}


async def test_offsets_for_a_topic_that_was_never_seen_stay() -> None:
    brokers, offsets = Brokers(), Offsets(NAME)
    async with looking(topics_of(brokers), offsets):
        await looked(offsets, 10)
    assert offsets.deleted == []


async def test_one_broker_without_the_topic_is_not_believed() -> None:
    brokers, offsets = Brokers(3), Offsets(NAME)
    brokers.make(NAME)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.delete(NAME, at=[0])
        await until(lambda: len(brokers.asked_all) > 100)
        assert await topics.partitions_of([NAME]) == {NAME: None}
    assert offsets.deleted == []


async def test_nothing_is_deleted_while_a_broker_does_not_answer() -> None:
    brokers, offsets = Brokers(3), Offsets(NAME)
    brokers.make(NAME)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.down = {2}
        brokers.delete(NAME)
        await until(lambda: len(brokers.asked_all) > 100)
        assert await topics.partitions_of([NAME]) == {NAME: None}
        assert offsets.deleted == []
        brokers.down = set()
        await until(lambda: offsets.deleted == [NAME])


async def test_an_empty_cache_is_not_believed_when_it_fills() -> None:
    class Starting(Brokers):
        starts = False

        async def all(self, names: Collection[str]) -> dict[str, Topic | None]:
            view = dict(await super().all(names))
            if self.starts:
                self.make(NAME)  # it is there right after all have said that it is not
            return view

    brokers, offsets = Starting(2), Offsets(NAME)
    brokers.make(NAME)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        for _ in range(5):
            brokers.starts = True
            brokers.delete(NAME)
            asked = len(brokers.asked_all)
            await until(lambda asked=asked: len(brokers.asked_all) > asked)  # type: ignore[misc]
            await until(lambda: topics.partition_counts == {NAME: 3})
    assert offsets.deleted == []


async def test_nothing_is_deleted_of_topics_that_nothing_can_be_said_of() -> None:
    brokers, offsets = Brokers(), Offsets(NAME)
    brokers.make(NAME)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.unclear = {NAME}  # TOPIC_AUTHORIZATION_FAILED
        brokers.delete(NAME)
        await looked(offsets, 20)
    assert offsets.deleted == []


async def test_what_no_topic_can_be_called_is_left_alone() -> None:
    brokers, offsets = Brokers(), Offsets("a b")
    async with looking(topics_of(brokers), offsets):
        await looked(offsets, 5)
    assert offsets.deleted == []


async def test_many_topics_are_asked_for_in_parts() -> None:
    brokers = Brokers()
    offsets = Offsets(*(f"t{n}" for n in range(1_200)))
    names = sorted(offsets.names)
    for name in names:
        brokers.make(name)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await until(lambda: len(topics.partition_counts) == 1_200)
        for name in names[::2]:
            brokers.delete(name)
        await until(lambda: len(offsets.deleted) == 600)
        await looked(offsets)
    assert len(offsets.names) == 600
    assert max(map(len, [*brokers.asked_one, *brokers.asked_all])) <= 500


# -- made anew


async def test_what_was_committed_for_the_old_topic_is_deleted_before_anything_is_for_the_new_one() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        offsets.may_delete.clear()
        brokers.make(NAME, B, partitions=7)
        assert await told(topics, B)
        assert topics.partition_counts == {}, "no commit is let through"
        assert topics.blocked([NAME, "other"]) == topics.blocked(None) == [NAME]
        commit = asyncio.create_task(topics.partitions_of([NAME]))
        fetch = asyncio.create_task(topics.certain([NAME]))
        await until(lambda: offsets.deleted == [NAME])
        assert not commit.done()
        assert not fetch.done()
        offsets.may_delete.set()
        assert await commit == {NAME: 7}
        await fetch
        offsets.names.add(NAME)
        await looked(offsets)
        assert topics.blocked(None) == []
    assert offsets.deleted == [NAME], "what was committed for the new one stays"


async def test_a_look_sees_another_id_too() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])
        await until(lambda: topics.partition_counts == {NAME: 3})


async def test_one_of_a_partition_that_is_read_back_for_a_while_is_not_forgotten() -> None:
    brokers, offsets = Brokers(), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        offsets.is_loading, offsets.names = True, set()
        await looked(offsets)
        offsets.is_loading, offsets.names = False, {NAME}
        brokers.make(NAME, B)
        await until(lambda: not offsets.names)
        assert offsets.deleted == [NAME]


async def test_a_topic_that_is_gone_at_the_first_look_and_another_one_at_the_second() -> None:
    brokers, offsets = Brokers(), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        asked = len(brokers.asked_all)
        brokers.delete(NAME)
        await until(lambda: len(brokers.asked_all) > asked)
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])


async def test_offsets_are_neither_served_nor_taken_from_when_another_topic_is_found_where_there_was_none() -> None:
    """Nobody was told of it yet, so nobody but who settles the doubt has seen the other id."""
    brokers, offsets = Brokers(), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        asked = len(brokers.asked_all)
        offsets.may_delete.clear()
        brokers.delete(NAME)
        await until(lambda: len(brokers.asked_all) > asked)
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])
        assert topics.blocked([NAME]) == [NAME]
        brokers.down = {0}
        with pytest.raises(TopicInDoubt):
            await topics.partitions_of([NAME])
        offsets.may_delete.set()
        await topics.certain([NAME])


async def test_what_only_a_client_was_told_is_neither_believed_nor_passed_on() -> None:
    """Another id than any broker shows to the shim, again and again: commits go on as before."""
    brokers, offsets = Brokers(3), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        for _ in range(20):
            assert not await told(topics, B)
            assert topics.partition_counts == {NAME: 3}
            assert not topics.any_in_doubt
        brokers.down = {0, 1, 2}
        assert not await told(topics, B), "nobody can say so: the client is to ask again"
        assert topics.partition_counts == {NAME: 3}
        brokers.down = set()
        brokers.unclear = {NAME}  # the shim may not see it any more
        assert await told(topics, B)
        await looked(offsets)
    assert offsets.deleted == []


async def test_while_a_topic_is_in_doubt_an_id_that_only_a_client_was_told_does_not_lengthen_it() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.make(NAME, B)
        assert await told(topics, B)
        async with asyncio.timeout(WAIT_SECONDS):
            while topics.any_in_doubt:
                assert not await told(topics, 3)
        assert topics.partition_counts == {NAME: 3}
    assert offsets.deleted == [NAME]


async def test_what_is_known_already_is_passed_on_at_once() -> None:
    brokers = Brokers()
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    await topics.partitions_of([NAME])
    assert topics.strange({NAME: bytes([A]) * 16, "other": bytes([B]) * 16}) == {}


async def test_while_the_brokers_do_not_agree_clients_are_to_ask_again() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers, QUICK._replace(wait=0.02, doubt=60.0))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.make(NAME, B, at=[0])
        assert await told(topics, B)
        with pytest.raises(TopicInDoubt):
            await topics.partitions_of([NAME])
        with pytest.raises(TopicInDoubt):
            await topics.certain([NAME])
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])


@pytest.mark.parametrize("why", ["they do not agree", "too few answer"])
async def test_while_the_brokers_cannot_say_the_former_topics_offsets_are_neither_served_nor_deleted(
    why: str, caplog: pytest.LogCaptureFixture
) -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers, QUICK._replace(wait=0.02))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        if why == "too few answer":
            brokers.down = {0}
        brokers.make(NAME, B, at=[1])
        assert await told(topics, B)
        await until(lambda: "neither served nor taken" in caplog.text)
        await looked(offsets, 5)
        assert topics.blocked([NAME]) == [NAME]
        assert offsets.deleted == []
        with pytest.raises(TopicInDoubt):
            await topics.certain([NAME])
        brokers.down = set()
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])
        await until(lambda: topics.partition_counts == {NAME: 3})
    assert caplog.text.count("neither served nor taken") == 1


async def test_most_brokers_can_say_that_a_topic_is_another_one_but_not_that_there_is_none() -> None:
    brokers, offsets = Brokers(3), Offsets(NAME, "other")
    brokers.make(NAME, A)
    brokers.make("other", A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await until(lambda: topics.partition_counts.keys() == {NAME, "other"} and brokers.asked_all)
        await looked(offsets, 1)
        brokers.down = {2}
        brokers.make(NAME, B)
        brokers.delete("other")
        await until(lambda: offsets.deleted == [NAME])
        await looked(offsets, 5)
        assert offsets.deleted == [NAME]
        brokers.down = set()
        await until(lambda: offsets.deleted == [NAME, "other"])


async def test_an_id_is_confirmed_by_most_brokers_and_it_is_told_when_it_cannot_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    brokers, offsets = Brokers(3), Offsets(NAME)
    brokers.make(NAME, A)
    brokers.down = {1, 2}
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await until(lambda: "made anew would not be noticed" in caplog.text)
        brokers.down = {2}
        await confirmed(topics, brokers, offsets)
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])


async def test_a_client_that_is_told_of_no_ids_is_told_of_the_topic_when_its_id_is_known_here() -> None:
    """By one broker that knows; the others are behind, or down."""
    brokers, offsets = Brokers(4), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers, QUICK._replace(doubt=60.0))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.down = {2}
        brokers.make(NAME, B, at=[3])
        await topics.look_at({NAME: ZERO_UUID, "no concern": ZERO_UUID})
        assert brokers.asked_each == [[NAME]]
        assert topics.blocked(None) == [NAME]
        await topics.look_at({"no concern": ZERO_UUID})
        assert brokers.asked_each == [[NAME]]


async def test_an_id_that_not_all_brokers_have_said_is_no_reason_when_it_changes() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A, at=[0])  # behind, at the start
    brokers.make(NAME, B, at=[1])
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await until(lambda: topics.partition_counts == {NAME: 3})
        await looked(offsets)
        brokers.make(NAME, B)
        await looked(offsets, 5)
    assert offsets.deleted == []


async def test_brokers_too_old_for_ids_say_only_whether_it_exists() -> None:
    brokers, offsets = Brokers(), Offsets(NAME)
    brokers.views[0][NAME] = Topic(ZERO_UUID, 3)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await until(lambda: topics.partition_counts == {NAME: 3})
        await looked(offsets)
        assert offsets.deleted == []
        brokers.delete(NAME)
        await until(lambda: offsets.deleted == [NAME])


async def test_nothing_is_committed_for_what_may_be_another_topic_though_nobody_can_say_more() -> None:
    """Its offsets are about to be deleted as the former one's."""
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers, QUICK._replace(wait=0.02, doubt=60.0))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.make(NAME, B, at=[1])
        assert await told(topics, B)
        brokers.unclear = {NAME}
        with pytest.raises(TopicInDoubt):
            await topics.partitions_of([NAME])


async def test_a_topic_that_is_not_there_hides_nothing_of_another_one_that_is_asked_for_with_it() -> None:
    """Whether it is there too few brokers can say; that the other one is made anew one has said."""
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers, QUICK._replace(wait=0.05, doubt=60.0))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.down = {1}
        brokers.delete(NAME)
        await until(lambda: NAME not in topics.partition_counts)
        brokers.make(NAME, B)
        with pytest.raises(TopicInDoubt):
            await topics.partitions_of([NAME, "nowhere"])
        brokers.down = set()
        await until(lambda: offsets.deleted == [NAME])


# -- all of it


@pytest.mark.parametrize("seed", range(60))
async def test_no_commit_for_a_topic_that_exists_is_ever_deleted(seed: int) -> None:
    """Topics come and go, brokers are behind, or do not answer, and clients commit for what they were told of."""
    rng = random.Random(seed)
    brokers = Brokers(3)
    names = ["a", "b"]
    history: dict[str, list[int]] = {name: [0] for name in names}  # 0: there is none
    heard = {name: [0, 0, 0] for name in names}
    stored: dict[str, list[int]] = {name: [] for name in names}
    wrong: list[str] = []
    ids = iter(range(1, 200))
    pace = QUICK._replace(wait=0.02)
    topics = topics_of(brokers, pace)

    def hear(name: str, number: int) -> None:
        heard[name][number] = min(heard[name][number] + 1, len(history[name]) - 1)
        topic_id = history[name][heard[name][number]]
        if topic_id:
            brokers.make(name, topic_id, at=[number])
        else:
            brokers.delete(name, at=[number])

    class Stored(OffsetsOfTopics):
        def __init__(self) -> None: ...

        are_all_known = True

        async def in_use(self) -> set[str]:
            return {name for name in names if stored[name]}

        async def delete(self, topic: str) -> int:
            for _ in range(3):
                lost = [topic_id for topic_id in stored[topic] if topic_id == history[topic][-1]]
                if lost:
                    wrong.append(f"{topic}: {lost} of {history[topic]}")
                stored[topic] = []
                await asyncio.sleep(0)
            return 1

    async def commit() -> None:
        name = rng.choice(names)
        seen = brokers.views[rng.randrange(3)].get(name)
        if seen is None or not await told(topics, seen.topic_id[0], name):
            return
        try:
            if name not in topics.partition_counts and (await topics.partitions_of([name]))[name] == 0:
                return
        except TopicInDoubt:
            return
        stored[name].append(seen.topic_id[0])

    commits: list[Awaitable[None]] = []
    task = asyncio.create_task(topics.run(Stored()))
    for _ in range(300):
        match rng.randrange(8):
            case 0:
                name = rng.choice(names)
                history[name].append(0 if history[name][-1] else next(ids))
            case 1 | 2 | 3:
                hear(rng.choice(names), rng.randrange(3))
            case 4:
                brokers.down = {rng.randrange(3)} if rng.random() < 0.3 else set()
            case 5 | 6:
                commits.append(asyncio.create_task(commit()))
            case 7:
                await asyncio.sleep(rng.choice([0, 0.001, 0.005]))
        await asyncio.sleep(0)
    brokers.down = set()
    for name in names:
        if history[name][-1]:
            history[name].append(0)
        for number in range(3):
            for _ in history[name]:
                hear(name, number)
    await asyncio.gather(*commits)
    seen_once = {*topics.partition_counts, *(topics.blocked(None))}
    await until(lambda: not any(stored[name] for name in seen_once))
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert wrong == []


async def test_a_topic_that_somebody_sees_between_is_not_believed_gone() -> None:
    class SeenByAClient(Brokers):
        async def all(self, names: Collection[str]) -> dict[str, Topic | None]:
            view = dict(await super().all(names))
            if view == {NAME: None}:
                await topics.look_at({NAME: bytes([A]) * 16})
            return view

        async def each(self, names: Collection[str]) -> list[View | None]:
            return [{NAME: Topic(bytes([A]) * 16, 3)}]

    brokers, offsets = SeenByAClient(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.delete(NAME)
        await until(lambda: len(brokers.asked_all) > 20)
    assert offsets.deleted == []


async def test_a_third_topic_under_the_name_while_offsets_of_the_first_are_deleted() -> None:
    third = 3
    brokers, offsets = Brokers(), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        offsets.may_delete.clear()
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])
        brokers.make(NAME, third)
        assert await told(topics, third)
        offsets.may_delete.set()
        await until(lambda: topics.partition_counts == {NAME: 3})
        before = list(offsets.deleted)
        offsets.names.add(NAME)  # a commit for the third
        await looked(offsets)
        assert offsets.deleted == before


async def test_while_offsets_are_deleted_none_is_committed_even_when_nobody_can_say() -> None:
    brokers, offsets = Brokers(), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        offsets.may_delete.clear()
        brokers.delete(NAME)
        await until(lambda: offsets.deleted == [NAME])
        brokers.down = {0}
        with pytest.raises(TopicInDoubt):
            await topics.partitions_of([NAME])
        offsets.may_delete.set()
        await until(lambda: not topics.blocked(None))
        assert await topics.partitions_of([NAME]) == {NAME: None}


# -- before offsets are given away


async def test_what_was_committed_for_the_old_topic_has_gone_when_it_is_said_to_be_certain() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    assert await topics.uncertain([NAME]) == []
    brokers.make(NAME, B)
    async with looking(topics, offsets):
        assert await topics.uncertain([NAME]) == []
        assert offsets.names == set()


async def test_so_it_has_of_one_that_is_gone() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME)
    topics = topics_of(brokers)
    await topics.uncertain([NAME])
    brokers.delete(NAME)
    async with looking(topics, offsets):
        assert await topics.uncertain([NAME]) == []
        assert offsets.names == set()


async def test_it_is_not_certain_while_the_offsets_are_being_deleted() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    offsets.may_delete.clear()
    brokers.make(NAME, A)
    topics = topics_of(brokers)
    await topics.uncertain([NAME])
    brokers.make(NAME, B)
    async with looking(topics, offsets):
        assert await topics.uncertain([NAME, "others"]) == [NAME]


@pytest.mark.parametrize("there", [True, False], ids=["another one", "none"])
async def test_it_is_not_while_the_brokers_do_not_agree(there: bool) -> None:
    brokers = Brokers(3)
    brokers.make(NAME, A)
    topics = topics_of(brokers, QUICK._replace(doubt=60.0))
    async with looking(topics, Offsets(NAME)):
        await topics.uncertain([NAME])
        brokers.delete(NAME, at=[2])
        if there:
            brokers.make(NAME, B, at=[2])
        assert await topics.uncertain([NAME]) == [NAME]


async def test_what_was_never_seen_is_not_in_doubt() -> None:
    """Nor what nobody may tell the shim of: what it gives away of that is refused where it is given."""
    brokers = Brokers(2)
    brokers.unclear = {"secret"}
    assert await topics_of(brokers).uncertain([NAME, "secret", "not a topic"]) == []


async def test_nothing_is_certain_where_too_few_brokers_answer() -> None:
    brokers = Brokers(2)
    brokers.make(NAME)
    brokers.down = {1}
    with pytest.raises(UpstreamError):
        await topics_of(brokers).uncertain([NAME])
