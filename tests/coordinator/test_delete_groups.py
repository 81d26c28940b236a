"""DeleteGroups: which groups may go, and that all of them goes."""

import pytest

from protocol.errors import ErrorCode as E
from protocol.messages.leave_group import MemberIdentity
from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey
from shim.coordinator import CoordinatorSettings

from .driving import CALLER, Driven
from .durable import assert_same, reloaded

OFFSETS = [("orders", 0, 5), ("orders", 3, 6), ("payments", 1, 7)]


def test_an_empty_group_goes_with_all_its_offsets_the_group_last() -> None:
    d = Driven()
    (member_id,), generation = d.stable()
    d.commit(member_id, generation, OFFSETS)
    d.leave(member_id)
    before = len(d.records)
    assert d.delete_group() == E.NONE
    assert d.records[before:] == [
        *((OffsetCommitKey("g", topic, partition), None) for topic, partition, _ in OFFSETS),
        (GroupMetadataKey("g"), None),
    ]
    assert d.offsets() == {}
    assert d.state() == "Dead"
    assert d.coordinator.list_groups() == ()
    assert d.coordinator.offset_count == 0
    assert_same(d.coordinator, reloaded(d.records))


def test_a_simple_group_goes_and_others_stay() -> None:
    d = Driven()
    d.commit(offsets=OFFSETS)
    d.commit(offsets=OFFSETS, group="h")
    d.commit(offsets=OFFSETS, group="")  # an old simple consumer's
    assert d.delete_group() == E.NONE
    assert d.delete_group("") == E.NONE
    assert [group.group_id for group in d.coordinator.list_groups()] == ["h"]
    assert len(d.offsets("h")) == len(OFFSETS)
    assert_same(d.coordinator, reloaded(d.records))


def test_what_is_not_there_is_not_found() -> None:
    d = Driven()
    assert d.delete_group() == d.delete_group("") == E.GROUP_ID_NOT_FOUND
    d.commit()
    assert [d.delete_group(), d.delete_group()] == [E.NONE, E.GROUP_ID_NOT_FOUND]
    assert d.records[-1] == (GroupMetadataKey("g"), None)


def test_a_group_with_members_stays_in_every_state() -> None:
    d = Driven()
    member_id, join = d.member()
    assert (d.state(), d.delete_group()) == ("PreparingRebalance", E.NON_EMPTY_GROUP)
    d.advance(3_000)
    generation = d.joined(join).generation_id
    assert (d.state(), d.delete_group()) == ("CompletingRebalance", E.NON_EMPTY_GROUP)
    d.ask_sync(member_id, generation, {})
    d.commit(member_id, generation)
    written = len(d.records)
    assert (d.state(), d.delete_group()) == ("Stable", E.NON_EMPTY_GROUP)
    assert len(d.records) == written
    assert d.offsets() == {("orders", 0): 5}
    assert d.heartbeat(member_id, generation) == E.NONE


def test_a_group_whose_members_all_left_amid_a_rebalance_is_empty_when_that_is_over() -> None:
    d = Driven()
    member_id, _ = d.member()
    d.leave(member_id)
    assert (d.state(), d.delete_group()) == ("PreparingRebalance", E.NON_EMPTY_GROUP)
    d.advance(3_000)
    assert (d.state(), d.delete_group()) == ("Empty", E.NONE)


def test_a_group_that_a_member_is_about_to_join_goes_and_the_member_starts_anew() -> None:
    d = Driven()
    member_id = d.joined(d.ask_join()).member_id
    assert d.delete_group() == E.NONE
    assert d.coordinator.next_deadline() is None
    assert d.joined(d.ask_join(member_id)).error_code == E.UNKNOWN_MEMBER_ID
    assert d.stable()[1] == 1


def test_a_group_of_the_same_name_begins_from_nothing() -> None:
    d = Driven()
    (member_id,), generation = d.stable()
    d.commit(member_id, generation)
    d.leave(MemberIdentity(member_id))
    assert d.delete_group() == E.NONE
    assert d.commit_error(member_id, generation, version=9) == E.GROUP_ID_NOT_FOUND
    (other,), again = d.stable()
    assert (again, d.offsets()) == (1, {})
    assert d.commit_error(member_id, again) == E.UNKNOWN_MEMBER_ID
    assert d.commit_error(other, again) == E.NONE
    assert_same(d.coordinator, reloaded(d.records))


@pytest.mark.parametrize("topics", [1, 7])
def test_more_than_one_batch(topics: int) -> None:
    """What a crash leaves of the batches is the group with some of its offsets, until the last batch is there."""
    settings = CoordinatorSettings(commit_max_bytes=1_000)
    d = Driven(settings)
    for n in range(210):
        d.commit(offsets=[(f"orders-{n % topics}", n // topics, n)])
    before = len(d.records)
    had = d.offsets()
    ticket = d.ticket()
    outcome = d.coordinator.delete_group(d.now, CALLER, "g", ticket)
    assert d.offsets() == {}
    ends = [*outcome.cuts, len(outcome.records)]
    assert len(ends) > 5
    assert sorted({0, *ends}) == [0, *ends]
    sizes = [end - first for first, end in zip([0, *ends], ends, strict=False)]
    assert max(sizes) * 60 < 1_500
    for end in ends[:-1]:
        left = Driven(settings)
        left.coordinator = reloaded([*d.records[:before], *outcome.records[:end]], settings)
        gone = {(key.topic, key.partition) for key, _ in outcome.records[:end] if isinstance(key, OffsetCommitKey)}
        assert len(gone) == end
        assert left.offsets() == {at: offset for at, offset in had.items() if at not in gone}
        assert left.state() == "Empty"
        assert left.delete_group() == E.NONE
        assert left.coordinator.offset_count == len(left.coordinator.group_ids()) == 0
    whole = reloaded([*d.records[:before], *outcome.records], settings)
    assert whole.offset_count == len(whole.group_ids()) == 0
    assert_same(d.coordinator, whole)
