"""Producers that commit offsets in transactions, and the cluster's transaction coordinator, which ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .consumer import Consumer

if TYPE_CHECKING:
    from .world import World

# A batch that was sent on has reached the cluster by then, or never will.
_ARRIVED_MS = 1_000
_TRANSACTION_TIMEOUT_MS = 60_000
_REQUEST_TIMEOUT_MS = 20_000


class Producer:
    """One transaction after the other, for one group; as a member of it where `consumer` is one."""

    def __init__(self, world: World, number: int, group: str, consumer: Consumer | None) -> None:
        self.world = world
        self.number = number
        self.group = group
        self.consumer = consumer
        self.epoch = 0
        self.is_over = False
        self._commits = 0
        self._turn = 0  # of the request that is waited for

    def start(self) -> None:
        self.world.events.within(8_000, self._begin)

    def _begin(self) -> None:
        if self.is_over:
            return
        self._commits = self.world.events.random.randint(1, 3)
        self._commit()

    def _commit(self) -> None:
        world, random = self.world, self.world.events.random
        who = self.consumer
        member_id, generation, instance = (who.member_id, who.generation, who.instance) if who else ("", -1, None)
        if who and who.past and world.events.chance(0.2):
            member_id, generation = random.choice(who.past)
        chosen = world.choose_partitions()
        if not chosen:
            world.events.after(1_000, self._begin)
            return
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic, partition in chosen:
            offset = world.next_offset()
            topics.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(partition, offset, -1, ""))
        request = TxnOffsetCommitRequest(
            "tx",
            self.group,
            self.number,
            self.epoch,
            generation,
            member_id,
            instance,
            tuple(TxnOffsetCommitRequestTopic(topic, tuple(each)) for topic, each in topics.items()),
        )
        self._turn += 1
        turn = self._turn
        world.send(f"producer-{self.number}", 5, request, lambda response: self._answered(turn, response))
        world.events.after(_REQUEST_TIMEOUT_MS, lambda: self._answered(turn, None))

    def _answered(self, turn: int, response: Any) -> None:
        if turn != self._turn:
            return
        self._turn += 1
        events = self.world.events
        self._commits -= 1
        if self._commits > 0 and response is not None:
            events.within(500, self._commit)
        elif events.chance(0.1):
            # It is gone; the cluster aborts its transaction, in the next epoch.
            events.after(_TRANSACTION_TIMEOUT_MS, lambda: self._end(self.epoch + 1, committed=False))
        else:
            committed = response is not None and events.chance(0.7)
            events.after(
                _ARRIVED_MS + events.random.randint(0, 15_000), lambda: self._end(self.epoch, committed=committed)
            )

    def _end(self, epoch: int, *, committed: bool) -> None:
        self.epoch = epoch
        self.world.shim.append_to_cluster((self.number, epoch, committed))
        if not self.is_over:
            self.world.events.within(8_000, self._begin)
