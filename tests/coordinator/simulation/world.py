"""Everybody who talks to the shim, and what befalls them: disorder for a while, then calm, then silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseGroup
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.own.conditional_commit import expecting
from shim.coordinator import CoordinatorSettings, TransactionBatch, TransactionEnd
from tests.coordinator.driving import START, parked

from .consumer import Consumer, commit_of
from .events import Events
from .producer import Producer
from .shim import Call, DeleteGroup, Faults, Fetch, Followed, Request, Shim
from .witness import Witness, hold

MINUTE_MS = 60_000
RETENTION_MINUTES = 2
SETTINGS = CoordinatorSettings(
    group_max_size=6, group_initial_rebalance_delay_ms=3_000, offsets_retention_minutes=RETENTION_MINUTES
)
TOPICS = ("orders", "payments", "refunds")
GROUPS = ("busy", "static", "idle", "simple")


class World:
    """Of one seed."""

    def __init__(self, seed: int) -> None:
        self.events = Events(seed, START)
        self.witness = Witness(RETENTION_MINUTES * MINUTE_MS, SETTINGS.group_max_size)
        self.partitions = dict(zip(TOPICS, (4, 3, 2), strict=True))
        self.cluster: list[Followed] = []
        self.shim = Shim(self.events, SETTINGS, self.witness, self.cluster)
        self.consumers: list[Consumer] = []
        self.producers: list[Producer] = []
        self._offset = 0
        self._names = 0
        self._sent: list[Call] = []
        self.in_disorder = True

    def next_offset(self) -> int:
        """No two commits are of one offset: what is read tells which of them it was."""
        self._offset += 1
        return self._offset

    # -- the network

    def send(self, who: str, version: int, request: Request, heard: Callable[[Any], None]) -> None:
        call = Call(who, version, request, heard)
        self._sent = [*self._sent[-200:], call]
        self._arrive(call)

    def _arrive(self, call: Call) -> None:
        if self.in_disorder and self.events.chance(0.005):
            return  # lost, and nobody notices: the client asks again
        self.events.within(20, lambda: self._submit(call))

    def _submit(self, call: Call) -> None:
        if isinstance(call.request, OffsetCommitRequest | TxnOffsetCommitRequest) and any(
            topic.name in self.shim.topics_in_doubt for topic in call.request.topics
        ):
            self.events.after(500, lambda: call.heard(None))
            return
        self.shim.submit(call)

    def repeat_something(self) -> None:
        """A request comes a second time, from long ago perhaps; whoever sent it does not hear of it."""
        if self._sent:
            old = self.events.random.choice(self._sent)
            if not isinstance(old.request, TxnOffsetCommitRequest):
                self._arrive(Call(old.who, old.version, old.request, lambda _: None))

    # -- who is there

    def consumer(self, group: str, *, instance: str | None = None, version: int | None = None) -> Consumer:
        random = self.events.random
        self._names += 1
        consumer = Consumer(
            self,
            f"consumer-{self._names}",
            group,
            instance=instance,
            version=version if version is not None else 9 if instance else random.choice((0, 2, 3, 4, 6, 9, 9)),
            topics=self._some_topics(group),
            session_ms=random.choice((6_000, 10_000, 30_000)),
            idles=group == "idle",
        )
        self.consumers.append(consumer)
        self.events.within(5_000, consumer.start)
        return consumer

    def _some_topics(self, group: str) -> tuple[str, ...]:
        if group != "busy":
            # In the static group since a member that comes back with other topics makes no rebalance, as in Kafka.
            return TOPICS
        return tuple(self.events.random.sample(TOPICS, self.events.random.randint(1, 3)))

    def choose_partitions(self) -> list[tuple[str, int]]:
        there = [
            (topic, partition)
            for topic, count in self.partitions.items()
            if topic not in self.shim.topics_in_doubt
            for partition in range(count)
        ]
        return self.events.random.sample(there, self.events.random.randint(1, 3)) if len(there) > 3 else []

    def commit_request(
        self, group: str, chosen: list[str], generation: int, member_id: str, instance: str | None
    ) -> OffsetCommitRequest | None:
        return commit_of(group, {at: self.next_offset() for at in chosen}, generation, member_id, instance)

    def living(self, group: str | None = None) -> list[Consumer]:
        return [each for each in self.consumers if not each.is_over and group in (None, each.group)]

    # -- tools

    def _somewhere(self) -> tuple[str, str, int]:
        group = self.events.random.choice(GROUPS)
        topic = self.events.random.choice(TOPICS)
        return group, topic, self.events.random.randrange(self.partitions[topic])

    def commit_from_outside(self) -> None:
        group, topic, partition = self._somewhere()
        if self.events.chance(0.5):
            group = "simple"
        self.send("tool", 8, commit_of(group, {f"{topic}-{partition}": self.next_offset()}, -1, "", None), _nothing)

    def fetch(self) -> None:
        group, topic, partition = self._somewhere()
        topics = (OffsetFetchRequestTopics(topic, partition_indexes=(partition,)),) if self.events.chance(0.7) else None
        wanted = OffsetFetchRequestGroup(group, topics=topics)
        self.send("tool", 8, Fetch(wanted, self.events.chance(0.5)), _nothing)

    def commit_if(self) -> None:
        """Two read, and set what they have read to what they want: one of them can."""
        _, topic, partition = self._somewhere()
        wanted = OffsetFetchRequestGroup(
            "simple", topics=(OffsetFetchRequestTopics(topic, partition_indexes=(partition,)),)
        )

        def read(response: Any) -> None:
            if not isinstance(response, OffsetFetchResponseGroup) or response.error_code:
                return
            if not response.topics[0].partitions[0].error_code:
                expected = response.topics[0].partitions[0].committed_offset
                request = commit_of("simple", {f"{topic}-{partition}": self.next_offset()}, -1, "", None)
                (of_topic,) = request.topics
                conditional = expecting(of_topic.partitions[0], expected)
                request = request._replace(topics=(of_topic._replace(partitions=(conditional,)),))
                call = Call("tool", 8, request, _nothing)
                call.note = {(topic, partition): expected}
                self._arrive(call)

        for _ in range(2):
            self.send("tool", 8, Fetch(wanted, require_stable=self.events.chance(0.5)), read)

    def delete_offset(self) -> None:
        group, topic, partition = self._somewhere()
        asked = OffsetDeleteRequestTopic(topic, (OffsetDeleteRequestPartition(partition),))
        self.send("tool", 0, OffsetDeleteRequest(group, (asked,)), _nothing)

    def delete_group(self) -> None:
        self.send("tool", 2, DeleteGroup(self.events.random.choice(GROUPS)), _nothing)

    def remove_static_member(self) -> None:
        member = MemberIdentity("", self.events.random.choice(("i", "j")))
        self.send("tool", 5, LeaveGroupRequest(group_id="static", members=(member,)), _nothing)

    def delete_topic(self) -> None:
        topic = self.events.random.choice(TOPICS)
        if topic not in self.shim.topics_in_doubt:
            self.shim.delete_topic(topic)

    # -- what befalls consumers

    def _one(self, do: Callable[[Consumer], None]) -> None:
        living = self.living()
        if living:
            do(self.events.random.choice(living))

    def another_consumer(self) -> None:
        group = self.events.random.choice(GROUPS[:3])
        if len(self.living(group)) < SETTINGS.group_max_size:
            instance = self.events.random.choice((None, "i", "j")) if group == "static" else None
            self.consumer(group, instance=instance)

    def kill_consumer(self) -> None:
        self._one(lambda each: each.die())

    def let_leave(self) -> None:
        self._one(lambda each: each.leave())

    def pause_consumer(self) -> None:
        self._one(lambda each: each.pause(self.events.random.choice((2_000, 15_000, 50_000))))

    def let_say_something_old(self) -> None:
        self._one(lambda each: each.says_something_old())

    def let_rejoin(self) -> None:
        self._one(lambda each: each.rejoin())

    def change_topics(self) -> None:
        self._one(lambda each: each.change_topics(self._some_topics(each.group)))

    def empty_a_group(self) -> None:
        for each in self.living(self.events.random.choice(GROUPS[:2])):
            each.leave()

    # -- what befalls the shim

    def crash(self) -> None:
        self.shim.crash(self.events.random.choice((10, 1_000, 20_000)))

    def look_for_expired_offsets(self) -> None:
        self.shim.look_for_expired_offsets()

    # -- the course of it

    def disorder(self, ms: int) -> None:
        """Everything happens, for so long."""
        self.shim.start(0)
        for _ in range(3):
            self.consumer("busy")
        for instance in ("i", "j", None):
            self.consumer("static", instance=instance)
        for _ in range(2):
            self.consumer("idle")
        for number, group in enumerate(("simple", "simple", "busy", "static"), 1):
            members = self.living(group)
            self.producers.append(Producer(self, number, group, members[0] if members else None))
            self.producers[-1].start()
        for happening, mean_ms in HAPPENINGS.items():
            self._again_and_again(happening, mean_ms)
        self.events.run(ms)

    def _again_and_again(self, happening: Callable[[World], None], mean_ms: int) -> None:
        def once() -> None:
            if self.in_disorder:
                happening(self)
                self._again_and_again(happening, mean_ms)

        self.events.after(1 + int(self.events.random.expovariate(1 / mean_ms)), once)

    def calm(self) -> None:
        """Nothing goes wrong any more: before long every group is at work, each partition in one hand."""
        self.in_disorder = False
        self.shim.faults = Faults(0, 0, 0)
        for group in GROUPS[:3]:
            while len(self.living(group)) < 2:
                self.consumer(group, version=9)
        self.events.run(3 * MINUTE_MS)
        for group in GROUPS[:3]:
            living = self.living(group)
            read = {f"{t}-{p}" for each in living for t in each.topics for p in range(self.partitions[t])}
            held = sorted(partition for each in living if each.is_member for partition in each.owns)
            hold(held == sorted(read), "LIVE", f"{group} reads {held} and should read {sorted(read)}")
            hold(len({each.generation for each in living}) == 1, "LIVE", f"{group} is in several generations")

    def idle(self) -> None:
        """Members that commit nothing keep their offsets, for twice as long as those of others stay."""
        kept = {key: offset for key, offset in self.witness.table.offsets.items() if key.group == "idle"}
        for _ in range(2 * RETENTION_MINUTES):
            self.events.run(MINUTE_MS)
            self.shim.look_for_expired_offsets()
        self.events.run(1_000)
        left = {key: offset for key, offset in self.witness.table.offsets.items() if key.group == "idle"}
        hold(left == kept, "EXPIRY", f"{kept.keys() - left.keys()} of members that live")

    def silence(self) -> None:
        """All clients are gone; what they have left goes, too, and nothing is left over."""
        for producer in self.producers:
            producer.is_over = True
        for consumer in self.living():
            consumer.die()
        self.events.run(10 * MINUTE_MS)
        for _ in range(2):
            self.shim.look_for_expired_offsets()
            self.events.run(MINUTE_MS)
        coordinator = self.shim.coordinator
        assert coordinator is not None
        hold(parked(coordinator) == [] and not self.shim.waiting, "ANSWERS", "somebody waits for ever")
        hold(coordinator.next_deadline() is None, "ANSWERS", "something is still due")
        hold(len(coordinator.group_ids()) == 0, "EXPIRY", f"{[*coordinator.group_ids()]} are left")
        hold(coordinator.offset_count == 0, "EXPIRY", f"{coordinator.offset_count} offsets are left")
        hold(
            coordinator.group_bytes == self.shim.memory.used == 0, "EXPIRY", f"{coordinator.group_bytes} bytes are left"
        )
        self._is_the_clusters_log_taken_over()

    def _is_the_clusters_log_taken_over(self) -> None:
        taken = [batch.transaction for batch in self.shim.log if batch.transaction is not None]
        batches = [each.position.next_offset for each in taken if isinstance(each, TransactionBatch)]
        there = [at for at, entry in enumerate(self.cluster, 1) if isinstance(entry, TxnOffsetCommitRequest)]
        hold(batches == there, "LOG", f"batches {there} of the cluster, {batches} taken over")
        for each in taken:
            if isinstance(each, TransactionEnd) and each.position.next_offset:
                entry = self.cluster[each.position.next_offset - 1]
                hold(entry == (each.producer_id, each.producer_epoch, each.committed), "LOG", f"{entry} became {each}")


def _nothing(_: Any) -> None:
    pass


SECOND_MS = 1_000

HAPPENINGS: dict[Callable[[World], None], int] = {
    World.repeat_something: 4 * SECOND_MS,
    World.commit_from_outside: 3 * SECOND_MS,
    World.commit_if: 5 * SECOND_MS,
    World.fetch: 1 * SECOND_MS,
    World.delete_offset: 20 * SECOND_MS,
    World.delete_group: 60 * SECOND_MS,
    World.delete_topic: 90 * SECOND_MS,
    World.remove_static_member: 90 * SECOND_MS,
    World.another_consumer: 20 * SECOND_MS,
    World.kill_consumer: 45 * SECOND_MS,
    World.let_leave: 60 * SECOND_MS,
    World.pause_consumer: 25 * SECOND_MS,
    World.let_say_something_old: 4 * SECOND_MS,
    World.let_rejoin: 30 * SECOND_MS,
    World.change_topics: 60 * SECOND_MS,
    World.empty_a_group: 150 * SECOND_MS,
    World.crash: 60 * SECOND_MS,
    World.look_for_expired_offsets: 20 * SECOND_MS,
}


def run(seed: int, disorder_ms: int = 10 * MINUTE_MS) -> Witness:
    """One world from its beginning to its end. Raises :class:`Broken`."""
    world = World(seed)
    world.disorder(disorder_ms)
    world.calm()
    world.idle()
    world.silence()
    return world.witness
