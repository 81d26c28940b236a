"""Clients that want all the memory there is: whatever they do, in any order, groups take no more than the limit."""

from __future__ import annotations

from random import Random

import pytest

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from shim.coordinator import CoordinatorSettings

from .transacting import Transacting

LIMIT = 128 << 10
SETTINGS = CoordinatorSettings(group_memory_max_bytes=LIMIT, group_initial_rebalance_delay_ms=0)
REFUSALS = {
    JoinGroupResponse: ErrorCode.GROUP_MAX_SIZE_REACHED,
    SyncGroupResponse: ErrorCode.UNKNOWN_SERVER_ERROR,
    OffsetCommitResponse: ErrorCode.POLICY_VIOLATION,
    TxnOffsetCommitResponse: ErrorCode.POLICY_VIOLATION,
}


class Hostile(Transacting):
    def __init__(self, seed: int) -> None:
        super().__init__(SETTINGS)
        self.random = Random(seed)
        self.known: list[tuple[str, str, str | None]] = []  # group, member id, instance id
        self.groups = 0
        self.read_to = 0

    def group(self) -> str:
        """A new one, or one of those before."""
        if not self.groups or self.random.random() < 0.5:
            self.groups += 1
            return f"{self.groups}" + "g" * self.random.choice((0, 10, 5_000))
        return f"{self.random.randint(1, self.groups)}"

    def offer(self) -> list[tuple[str, bytes]]:
        size = self.random.choice((0, 100, 10_000))
        return [("p", bytes(size)), *((f"q{n}", b"") for n in range(self.random.choice((0, 0, 50))))]

    def one(self) -> None:
        match self.random.choice(("new", "new", "again", "sync", "commit", "transaction", "leave", "time", "delete")):
            case "new":
                group, version = self.group(), self.random.choice((3, 9))
                instance = self.random.choice((None, "i")) if version == 9 else None
                self.join(group, "", instance, version)
            case "again" if self.known:
                group, member_id, instance = self.random.choice(self.known)
                self.join(group, self.random.choice((member_id, "")) if instance else member_id, instance, 9)
            case "sync" if self.known:
                group, member_id, instance = self.random.choice(self.known)
                live = self.coordinator._state.groups.get(group)
                generation = live.generation_id if live is not None else 1
                much = {f"{member_id}": bytes(self.random.choice((0, 1_000, 50_000)))}
                self.ask_sync(member_id, generation, much, group=group, instance=instance, version=3)
            case "commit":
                self.commit(group=self.group())
            case "transaction":
                _, sent_on = self.ask_txn_commit([("orders", 0, 1)], group=self.group())
                if sent_on is not None:
                    self.read_to += 1
                    self.read(self.read_to, sent_on)
            case "leave" if self.known:
                group, member_id, instance = self.known.pop(self.random.randrange(len(self.known)))
                self.leave(member_id, group=group, version=2)
            case "time":
                self.advance(self.random.choice((0, 1_000, 20_000)))
            case "delete":
                self.delete_group(f"{self.random.randint(1, self.groups + 1)}")

    def join(self, group: str, member_id: str, instance: str | None, version: int) -> None:
        ticket = self.ask_join(
            member_id,
            group=group,
            instance=instance,
            version=version,
            protocols=self.offer(),
            protocol_type="connect",
            session=self.random.choice((10_000, 60_000)),
        )
        self.advance(0)
        answer = self.answers.get(ticket)
        if isinstance(answer, JoinGroupResponse) and answer.member_id:
            self.known.append((group, answer.member_id, instance))

    def errors_so_far(self) -> set[tuple[type, int]]:
        seen: set[tuple[type, int]] = set()
        for answer in self.answers.values():
            if isinstance(answer, JoinGroupResponse | SyncGroupResponse):
                seen.add((type(answer), answer.error_code))
            elif isinstance(answer, OffsetCommitResponse | TxnOffsetCommitResponse):
                seen |= {(type(answer), p.error_code) for topic in answer.topics for p in topic.partitions}
        return seen


@pytest.mark.parametrize("seed", range(12))
def test_groups_never_take_more_than_the_limit(seed: int) -> None:
    d = Hostile(seed)
    for _ in range(400):
        d.one()
        state = d.coordinator._state
        # Groups that commits in transactions are about to make have their room from the check on.
        to_come = sum(parked.room for parked in state.commits._parked.values())
        counted = sum(group.size for group in state.groups.values()) + to_come
        assert d.coordinator.group_bytes == counted == state.memory.used
        assert d.coordinator.group_bytes <= LIMIT
    assert set(REFUSALS.items()) <= d.errors_so_far(), "the limit was never met by some requests"
