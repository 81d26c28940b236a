"""A dump of the state and its restoration: not to be told from the state that replaying the records makes."""

import struct
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from protocol.errors import DecodeError
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.wire import ZERO_UUID
from shim.coordinator import GroupCoordinator, Record
from shim.coordinator.state.offset_table import TableDump
from tests.examples import examples

from .driving import START, Driven, new_coordinator, parked
from .durable import group_state, reloaded
from .test_schedules import SETTINGS, Schedule

GROUPS = st.sampled_from(["g", "h", "i", ""])


def restored(dump: bytes) -> GroupCoordinator:
    coordinator = new_coordinator(SETTINGS)
    coordinator.restore(dump)
    return coordinator


def answers(coordinator: GroupCoordinator) -> list[object]:
    """Everything that can be asked of it, in the order in which it tells it."""
    listed = coordinator.list_groups()
    asked = [OffsetFetchRequestGroup(group_id=group.group_id, topics=None) for group in listed]
    return [
        listed,
        [coordinator.describe_group(group.group_id, 5) for group in listed],
        [group_state(group) for group in coordinator._state.groups.values()],
        [coordinator.offset_fetch(request) for request in asked],
        [list(coordinator._state.offsets.committed.of_group(group.group_id)) for group in listed],
        (len(coordinator.group_ids()), coordinator.offset_count, coordinator.next_deadline(), parked(coordinator)),
    ]


def assert_indistinguishable(dump: bytes, records: list[Record]) -> None:
    replayed, again = reloaded(records, SETTINGS), restored(dump)
    assert answers(again) == answers(replayed)
    assert again.dump() == dump == replayed.dump()
    for coordinator in (again, replayed):
        coordinator.loaded(START)
    assert answers(again) == answers(replayed)


class DumpedSchedule(Schedule):
    """The random schedules of members, where the dump must say what the records say, amid whatever is going on."""

    @rule()
    def dump(self) -> None:
        assert_indistinguishable(self.d.coordinator.dump(), self.d.records)

    @rule()
    def restart_from_a_dump(self) -> None:
        """The process goes on from a snapshot, as `restart` does from the records."""
        dump = self.d.coordinator.dump()
        Schedule.kill(self)
        coordinator = new_coordinator(SETTINGS, self.d.numbers)
        coordinator.restore(dump)
        coordinator.loaded(self.d.now)
        assert answers(coordinator) == answers(self.d.coordinator)
        self.d.coordinator = coordinator

    def teardown(self) -> None:
        super().teardown()
        self.dump()


DumpedSchedule.TestCase.settings = settings(max_examples=examples(10), stateful_step_count=40, deadline=None)
TestDumpedSchedule = DumpedSchedule.TestCase


@st.composite
def members(draw: st.DrawFn) -> MemberMetadata:
    return MemberMetadata(
        member_id=draw(st.sampled_from(["m", "n", "o"])),
        group_instance_id=draw(st.sampled_from([None, "i", "j"])),
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=draw(st.sampled_from([-1, 0, 60_000])),
        session_timeout=10_000,
        subscription=draw(st.binary(max_size=3)),
        assignment=draw(st.binary(max_size=3)),
        tagged=(),
    )


group_records = st.tuples(
    st.builds(GroupMetadataKey, GROUPS),
    st.none()
    | st.builds(
        GroupMetadataValue,
        protocol_type=st.sampled_from(["", "consumer"]),
        generation=st.integers(0, 3),
        protocol=st.sampled_from([None, "range"]),
        leader=st.sampled_from([None, "m", "nobody"]),
        current_state_timestamp=st.sampled_from([-1, START]),
        members=st.lists(members(), max_size=3, unique_by=lambda m: m.member_id).map(tuple),
        tagged=st.just(()),
    ),
)
offset_records = st.tuples(
    st.builds(OffsetCommitKey, GROUPS, st.sampled_from(["t", "u"]), st.sampled_from([0, 1, 2, 70_000])),
    st.none()
    | st.builds(
        OffsetCommitValue,
        offset=st.integers(-1, 9),
        leader_epoch=st.integers(-1, 3),
        metadata=st.sampled_from(["", "m", "é\udcff"]),
        commit_timestamp=st.sampled_from([-1, START]),
        expire_timestamp=st.sampled_from([-1, START]),
        topic_id=st.just(ZERO_UUID),
        tagged=st.just(()),
    ).map(lambda value: value if value.expire_timestamp == -1 else value._replace(leader_epoch=-1)),  # as it is written
)
any_records = st.lists(st.one_of(group_records, offset_records), max_size=30)


@settings(max_examples=examples(40), deadline=None)
@given(before=any_records, after=any_records)
def test_any_records_whoever_wrote_them(before: list[Record], after: list[Record]) -> None:
    dump = reloaded(before, SETTINGS).dump()
    assert_indistinguishable(dump, before)
    running, replayed = restored(dump), reloaded(before + after, SETTINGS)
    for key, value in after:
        running.replay(key, value)
    assert answers(running) == answers(replayed)


@settings(max_examples=examples(25), deadline=None)
@given(before=any_records, after=any_records, seed=st.integers(0, 2**32))
def test_a_dump_in_steps_is_of_the_moment_at_which_it_began(
    before: list[Record], after: list[Record], seed: int
) -> None:
    coordinator = reloaded(before, SETTINGS)
    whole, dump = coordinator.dump(), coordinator.begin_dump()
    rng = Random(seed)
    for key, value in after:
        if rng.random() < 0.3:
            dump.step()
        coordinator.replay(key, value)
    while dump.step():
        pass
    assert b"".join(dump.pieces()) == whole
    assert answers(coordinator) == answers(reloaded(before + after, SETTINGS))


def test_a_dump_that_is_not_at_its_end_is_not_given() -> None:
    d = Driven(SETTINGS)
    d.commit(group="a")
    d.commit(group="b")
    dump = d.coordinator.begin_dump()
    with pytest.raises(RuntimeError, match="not at its end"):
        dump.pieces()


def test_two_dumps_at_once() -> None:
    d = Driven(SETTINGS)
    d.commit(group="a")
    first = d.coordinator.begin_dump()
    before = d.coordinator.dump()
    d.commit(group="b")
    second = d.coordinator.begin_dump()
    while first.step() or second.step():
        pass
    assert b"".join(first.pieces()) == before
    assert b"".join(second.pieces()) == d.coordinator.dump()


def test_a_dump_that_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    d = Driven(SETTINGS)
    for group in "abc":
        d.commit(group=group)
    before = d.coordinator.dump()
    keep = TableDump._keep
    dumped: list[TableDump] = []

    def kept(dump: TableDump, *of_group: Any) -> None:
        dumped.append(dump)
        keep(dump, *of_group)

    monkeypatch.setattr(TableDump, "_keep", kept)
    dump = d.coordinator.begin_dump()
    assert dump.step()
    dump.give_up()
    dumped.clear()
    d.commit(group="a")
    d.coordinator.begin_dump()
    assert dumped == [], "what was given up is not finished"
    assert not dump.step()
    with pytest.raises(RuntimeError, match="not at its end"):
        dump.pieces()
    assert d.coordinator.dump() == before


def test_a_dump_that_two_processes_make_is_the_same() -> None:
    d = Driven(SETTINGS)
    d.stable(2)
    d.commit(group="simple")
    assert d.coordinator.dump() == d.coordinator.dump() == reloaded(d.records).dump()


def damaged(raw: bytes, **changes: object) -> bytes:
    magic, version, groups = struct.unpack_from("<4sHI", raw)
    head = {"magic": magic, "version": version, "groups": groups, **changes}
    return struct.pack("<4sHI", head["magic"], head["version"], head["groups"]) + raw[10:]


def test_nonsense_is_refused() -> None:
    d = Driven(SETTINGS)
    d.stable(1)
    d.commit(group="simple")
    raw = d.coordinator.dump()
    twice = damaged(raw, groups=3)[:10] + b"\1\0\0\0g\0\0\0\0" + raw[10:]
    unknown = new_coordinator().dump() + b""
    for nonsense, reason in (
        (damaged(raw, magic=b"OFTB"), "no dump of version 4"),
        (damaged(raw, version=1), "no dump of version 4"),
        (damaged(raw, groups=0), "bytes wanted"),
        (raw + b"\0", "too many"),
        (twice, "a group twice"),
        (unknown[: unknown.index(b"OFTB")] + raw[raw.index(b"OFTB") :], "offsets of a group that is not there"),
    ):
        with pytest.raises(DecodeError, match=reason):
            restored(nonsense)
    for size in range(len(raw)):
        with pytest.raises(DecodeError):
            restored(raw[:size])
