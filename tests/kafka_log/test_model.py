"""Any decisions, any compaction: what a topic's records make of a fresh coordinator is what had decided them."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.record_sets import LoggedRecord
from protocol.own.state_log import Hands, Step, WrittenValue
from shim.coordinator import CoordinatorSettings
from tests.examples import examples
from tests.kafka_log.deciding import Deciding, Key, known

GROUPS = st.sampled_from(["g", "g", "h"])
PLACES = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 1))
KEYS: st.SearchStrategy[Key] = st.builds(lambda group, place: (group, *place), GROUPS, PLACES)
PRODUCERS = st.sampled_from([1, 2, 3])
FOLLOWED = st.sampled_from([3, 3, 3, 4])
OFFSETS = st.integers(0, 2**40)
PASSED = "passed through"
SETTINGS = CoordinatorSettings(offsets_retention_minutes=1, commit_max_bytes=1000)


class AnyDecisions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.d = Deciding(SETTINGS, most_bytes=200)
        self.compacted = self.restarted = self.lacks_tombstones = False

    # -- offsets and groups

    @rule(group=GROUPS, place=PLACES, offset=OFFSETS, metadata=st.sampled_from(["", "m"]))
    def commit(self, group: str, place: tuple[str, int], offset: int, metadata: str) -> None:
        self.d.commit(offsets=[(*place, offset)], group=group, metadata=metadata)

    @rule(group=GROUPS, topic=st.sampled_from(["a", "b"]), offset=OFFSETS)
    def commit_plainly(self, group: str, topic: str, offset: int) -> None:
        self.d.commit_rows(group, topic, [0, 1, 2], offset)

    @rule(group=GROUPS, place=PLACES)
    def delete_offset(self, group: str, place: tuple[str, int]) -> None:
        self.d.delete_offsets((place[0], [place[1]]), group=group)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        self.d.delete_group(group)

    @rule(topic=st.sampled_from(["a", "b"]))
    def delete_topic(self, topic: str) -> None:
        deletion, more = self.d.coordinator.delete_topic_offsets(topic), True
        while more:
            ticket = self.d.ticket()
            self.d.take(deletion.step(self.d.now, ticket))
            more = self.d.answers[ticket].more  # type: ignore[union-attr]

    @rule(group=GROUPS, place=PLACES, offset=st.integers(-1, 5))
    def carry(self, group: str, place: tuple[str, int], offset: int) -> None:
        self.d.take(self.d.coordinator.carry(self.d.now, group, {place: offset}, self.d.ticket()))

    @rule(group=GROUPS)
    def members(self, group: str) -> None:
        self.d.ask_join(group=group, version=3)

    @rule(ms=st.sampled_from([5, 5_000, 100_000]))
    def time_passes(self, ms: int) -> None:
        self.d.advance(ms)
        self.d.check_retention()

    # -- transactions

    @rule(producer=PRODUCERS, keys=st.lists(KEYS, min_size=1, max_size=4), offset=OFFSETS, followed=FOLLOWED)
    def begin(self, producer: int, keys: list[Key], offset: int, followed: int) -> None:
        self.d.begin(producer, *keys, offset=offset, followed=followed)

    @rule(producers=st.permutations([1, 2, 3]), keys=st.lists(KEYS, min_size=1, max_size=2), offset=OFFSETS)
    def begin_side_by_side(self, producers: list[int], keys: list[Key], offset: int) -> None:
        for producer in producers:
            self.d.begin(producer, *keys, offset=offset + producer)

    @rule(which=st.integers(0, 5), committed=st.sampled_from([True, True, False]))
    def end_one_that_is_open(self, which: int, committed: bool) -> None:
        there = sorted(self.d.coordinator._state.offsets.transactions.pending)
        for followed, producer in there[which % len(there) :][:1] if there else ():
            self.d.end(producer, committed=committed, followed=followed)

    @rule(producer=PRODUCERS, committed=st.booleans(), followed=FOLLOWED)
    def end(self, producer: int, committed: bool, followed: int) -> None:
        self.d.end(producer, committed=committed, followed=followed)

    @rule(followed=FOLLOWED, on=st.integers(1, 9))
    def position(self, followed: int, on: int) -> None:
        at = self.d.coordinator.followed.get(followed)
        if at is not None:
            self.d.read_at[followed] = at._replace(next_offset=at.next_offset + on)
            self.d.follow(self.d.read_at[followed])

    @rule(followed=FOLLOWED, lost=st.integers(1, 4))
    def the_cluster_loses_its_end(self, followed: int, lost: int) -> None:
        at = self.d.coordinator.followed.get(followed)
        if at is not None:
            left = at.agreed(at.leader_epoch - 1, max(0, at.next_offset - lost))
            for step in self.d.coordinator.steps_of_reset(left):
                self.d.follow(step)
            self.d.read_at[followed] = left

    @rule()
    def end_left_open(self) -> None:
        for producer in self.d.coordinator.left_open():
            self.d.take(self.d.coordinator.end_left_open(self.d.now, producer))

    # -- the shim's own state

    @rule(hands=st.sampled_from(Hands), step=st.sampled_from(Step))
    def take_in_hand(self, hands: Hands, step: Step) -> None:
        now, ticket = self.d.now, self.d.ticket()
        self.d.take(self.d.coordinator.take_in_hand(now, PASSED, hands, "why", ticket, step))

    @rule(place=PLACES, offset=OFFSETS)
    def adopt(self, place: tuple[str, int], offset: int) -> None:
        offsets = [(OffsetCommitKey(PASSED, *place), OffsetCommitValue(offset))]
        self.d.take(self.d.coordinator.adopt(self.d.now, PASSED, offsets, None, self.d.ticket()))

    @rule()
    def abandon(self) -> None:
        self.d.take(self.d.coordinator.abandon(self.d.now, PASSED, self.d.ticket()))

    @rule(group=GROUPS, place=PLACES, value=st.none() | OFFSETS.map(lambda offset: WrittenValue(offset, 1)))
    def note_written(self, group: str, place: tuple[str, int], value: WrittenValue | None) -> None:
        self.d.take(self.d.coordinator.note_written(self.d.now, group, {place: value}, self.d.ticket()))

    # -- the topic

    @rule(part=st.floats(0, 1), goes=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**16))
    def compact(self, part: float, goes: float, seed: int) -> None:
        rng = Random(seed)

        def is_gone(_tombstone: LoggedRecord) -> bool:
            gone = rng.random() < goes
            self.lacks_tombstones |= gone
            return gone

        self.d.topic.compact(round(part * self.d.topic.ends[-1]), is_gone)
        self.compacted = True

    @rule()
    def restart(self) -> None:
        self.d.load(self.d.topic.replayed())
        self.restarted = True

    @invariant()
    def the_topic_says_it_all(self) -> None:
        compacted = self.compacted or self.restarted
        expected = known(self.d.coordinator, compacted=compacted)
        replayed = self.d.topic.replayed()
        assert known(replayed, compacted=compacted) == expected
        if not self.lacks_tombstones:  # which stay for as long as a transaction may be open
            for group, *place in self.d.overruled_in_cluster():
                assert tuple(place) in replayed.overruled(group)
                assert tuple(place) in self.d.coordinator.overruled(group)
        if not compacted:  # and nothing more
            for group in ("g", "h"):
                assert replayed.overruled(group).keys() <= self.d.coordinator.overruled(group).keys()
        if not self.restarted:  # what it was loaded from has no transactions that are left open, and the local log has
            local = self.d.from_local()
            assert local.dump() == self.d.coordinator.dump()
            assert known(local, compacted=compacted) == expected


AnyDecisions.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)
TestAnyDecisions = AnyDecisions.TestCase
