"""TxnOffsetCommit, and what becomes of it when the cluster's log is read."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.offsets_log import OffsetCommitKey
from protocol.own.position import Position
from shim.coordinator import CoordinatorSettings, TransactionBatch, TransactionEnd
from shim.coordinator.state import parked_commits

from .driving import new_coordinator
from .transacting import FOLLOWED, KafkaRule, Transacting, Written, replayed

UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT


def at_position(next_offset: int) -> dict[int, Position]:
    return {FOLLOWED: Position(FOLLOWED, next_offset)}


def committed(d: Transacting, offset: int, *, at: int, producer: int = 1, epoch: int = 0) -> None:
    """A whole TxnOffsetCommit of that offset, read at that place."""
    ticket, sent_on = d.ask_txn_commit([("orders", 0, offset)], producer=producer, epoch=epoch)
    assert sent_on is not None
    d.read(at, sent_on)
    d.tell(ticket, sent_on)
    assert d.errors(ticket) == {0}


class TestChecks:
    def test_it_is_sent_on_without_the_member(self) -> None:
        d = Transacting()
        (member,), generation = d.stable(1)
        _, sent_on = d.ask_txn_commit([("orders", 0, 5)], member=member, generation=generation, epoch=3)
        assert sent_on is not None
        assert (sent_on.generation_id, sent_on.member_id, sent_on.group_instance_id) == (-1, "", None)
        assert (sent_on.producer_id, sent_on.producer_epoch, sent_on.transactional_id) == (1, 3, "tx")

    @pytest.mark.parametrize(
        ("member", "generation", "instance", "error"),
        [
            ("stranger", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("stranger", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("its own", 0, None, ErrorCode.ILLEGAL_GENERATION),
            ("its own", 2, None, ErrorCode.ILLEGAL_GENERATION),
            ("its own", -1, None, ErrorCode.ILLEGAL_GENERATION),
            ("its own", 1, "i", ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_who_is_no_member_of_the_generation(
        self, member: str, generation: int, instance: str | None, error: ErrorCode
    ) -> None:
        d = Transacting()
        (own,), _ = d.stable(1)
        member = own if member == "its own" else member
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)], member=member, generation=generation, instance=instance)
        assert sent_on is None
        assert d.errors(ticket) == {error}
        assert d.fetch_stable("orders", 0) == -1

    def test_a_producer_that_names_no_member_is_let_in(self) -> None:
        d = Transacting()
        d.stable(1)
        assert d.ask_txn_commit([("orders", 0, 5)])[1] is not None

    def test_an_unknown_group(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)], generation=1, member="m")
        assert (sent_on, d.errors(ticket)) == (None, {ErrorCode.ILLEGAL_GENERATION})
        assert d.ask_txn_commit([("orders", 0, 5)])[1] is not None
        assert d.coordinator.list_groups() == ()

    def test_an_empty_group_id(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)], group="")
        assert (sent_on, d.errors(ticket)) == (None, {ErrorCode.INVALID_GROUP_ID})

    def test_a_rebalance_does_not_matter(self) -> None:
        d = Transacting()
        (leader, _), generation = d.stable(2)
        d.ask_join(leader)
        assert d.state() == "PreparingRebalance"
        assert d.ask_txn_commit([("orders", 0, 5)], member=leader, generation=generation)[1] is not None

    def test_metadata_that_is_too_large_is_not_sent_on(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)], metadata="x" * 4097)
        assert (sent_on, d.errors(ticket)) == (None, {ErrorCode.OFFSET_METADATA_TOO_LARGE})

    def test_it_does_not_renew_the_session(self) -> None:
        d = Transacting()
        (member,), generation = d.stable(1, session=10_000)
        d.now += 5_000
        d.ask_txn_commit([("orders", 0, 5)], member=member, generation=generation)
        d.advance(5_000)
        assert d.state() == "Empty"


class TestTheWay:
    def test_unstable_from_the_check_to_the_marker(self) -> None:
        d = Transacting()
        d.commit_error("", -1, [("orders", 0, 1)])
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_on is not None
        assert (d.fetch_stable("orders", 0), d.fetch("orders", 0).committed_offset) == (UNSTABLE, 1)
        d.read(11, sent_on)
        assert ticket not in d.answers, "the cluster has not said yes"
        d.tell(ticket, sent_on)
        assert d.errors(ticket) == {0}
        assert (d.fetch_stable("orders", 0), d.fetch("orders", 0).committed_offset) == (UNSTABLE, 1)
        d.read(12, (1, 0, True))
        assert (d.fetch_stable("orders", 0), d.fetch("orders", 0).committed_offset) == (5, 5)

    def test_the_yes_alone_is_not_enough(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_on is not None
        d.tell(ticket, sent_on)
        assert ticket not in d.answers
        d.read(11, sent_on)
        assert d.errors(ticket) == {0}

    def test_an_abort_leaves_the_old_offset(self) -> None:
        d = Transacting()
        d.commit_error("", -1, [("orders", 0, 1)])
        committed(d, 5, at=11)
        d.read(12, (1, 1, False))
        assert d.fetch_stable("orders", 0) == 1

    def test_what_the_cluster_refuses_is_stable_again(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5), ("orders", 1, 6)])
        assert sent_on is not None
        d.tell(ticket, sent_on, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert d.errors(ticket) == {ErrorCode.INVALID_PRODUCER_EPOCH}
        assert d.fetch_stable("orders", 0) == -1

    def test_what_is_given_up_is_stable_again_and_read_all_the_same(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_on is not None
        d.give_up(ticket)
        assert d.errors(ticket) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert d.coordinator.next_deadline() is None
        d.give_up(ticket)
        d.tell(ticket, sent_on)
        assert d.fetch_stable("orders", 0) == -1
        d.read(11, sent_on)
        assert d.fetch_stable("orders", 0) == UNSTABLE

    def test_the_batch_of_one_does_not_answer_another_one_that_commits_more(self) -> None:
        d = Transacting()
        more, sent_more = d.ask_txn_commit([("orders", 0, 5), ("orders", 1, 7)])
        less, sent_less = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_more is not None
        assert sent_less is not None
        d.tell(more, sent_more)
        d.tell(less, sent_less)
        d.read(11, sent_less)
        assert d.errors(less) == {0}
        assert more not in d.answers
        assert d.fetch_stable("orders", 1) == UNSTABLE
        d.read(12, sent_more)
        assert d.errors(more) == {0}

    def test_of_one_of_two_the_cluster_has_taken_a_part_only(self) -> None:
        d = Transacting()
        more, sent_more = d.ask_txn_commit([("orders", 0, 5), ("orders", 1, 7)])
        less, sent_less = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_more is not None
        assert sent_less is not None
        d.read(11, sent_less)
        d.read(12, sent_less)  # of the other one
        d.tell(less, sent_less)
        d.tell(more, sent_more)
        assert d.errors(less) == d.errors(more) == {0}

    def test_one_marker_settles_one_transaction(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        d.read(12, (1, 0, False))
        committed(d, 6, at=13)
        d.read(14, (1, 0, True))
        assert d.fetch_stable("orders", 0) == 6

    def test_what_was_read_is_not_taken_again(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        d.read(12, (1, 0, True))
        d.commit_error("", -1, [("orders", 0, 2)])
        written = list(d.written)
        for at, entry in ((11, d.ask_txn_commit([("orders", 0, 5)])[1]), (12, (1, 0, True))):
            assert entry is not None
            d.read(at, entry)
        assert d.written == written
        assert d.fetch("orders", 0).committed_offset == 2

    def test_two_partitions_of_the_cluster_do_not_settle_each_other(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        outcome = d.coordinator.follow(d.now, Position(9, 100))
        d.take(outcome)
        assert dict(d.coordinator.followed) == {FOLLOWED: Position(FOLLOWED, 11), 9: Position(9, 100)}
        assert d.fetch_stable("orders", 0) == UNSTABLE

    def test_a_later_commit_wins(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        d.commit_error("", -1, [("orders", 0, 2)])
        assert d.fetch_stable("orders", 0) == UNSTABLE
        d.read(12, (1, 0, True))
        assert d.fetch_stable("orders", 0) == 2

    def test_of_two_producers_the_one_that_wrote_last_wins(self) -> None:
        d = Transacting()
        committed(d, 5, at=11, producer=1)
        committed(d, 6, at=12, producer=2)
        d.read(13, (2, 0, True))
        d.read(14, (1, 0, True))
        assert d.fetch_stable("orders", 0) == 6

    def test_deleting_takes_what_is_pending(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        assert d.delete_offset_errors(("orders", [0])) == [[0]]
        assert d.fetch_stable("orders", 0) == -1
        d.read(12, (1, 0, True))
        assert d.fetch_stable("orders", 0) == -1

    def test_a_deleted_group_stays_deleted(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        assert d.delete_group() == 0
        d.read(12, (1, 0, True))
        assert d.coordinator.list_groups() == ()

    def test_a_fetch_of_all_shows_committed_ones_only(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        everything = OffsetFetchRequestGroup(group_id="g", topics=None)
        assert d.coordinator.offset_fetch(everything, require_stable=True).topics == ()

    def test_expiry_passes_over_what_is_pending(self) -> None:
        d = Transacting()
        d.commit_error("", -1, [("orders", 0, 1), ("orders", 1, 1)])
        committed(d, 5, at=11)
        d.now += 8 * 24 * 3_600_000
        d.check_retention()
        assert (d.fetch("orders", 0).committed_offset, d.fetch("orders", 1).committed_offset) == (1, -1)
        d.read(12, (1, 0, False))
        d.check_retention()
        assert d.coordinator.list_groups() == ()

    def test_metadata_is_the_brokers(self) -> None:
        """Of what is no UTF-8 a broker writes U+FFFD."""
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)], metadata="\udcff\udcfe")
        assert sent_on is not None
        d.tell(ticket, sent_on)
        (topic,) = sent_on.topics
        written = topic.partitions[0]._replace(committed_metadata="\ufffd\ufffd")
        d.read(11, sent_on._replace(topics=(topic._replace(partitions=(written,)),)))
        assert d.errors(ticket) == {0}
        d.read(12, (1, 0, True))
        assert d.fetch("orders", 0).metadata == "\ufffd\ufffd"


class TestOverdue:
    """`offsets.commit.timeout.ms` is 5 s: the cluster has twice that to answer, and then once that to have it read."""

    def asked(self, d: Transacting, **how: Any) -> tuple[int, TxnOffsetCommitRequest]:
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)], **how)
        assert sent_on is not None
        return ticket, sent_on

    def is_overdue(self, d: Transacting, ticket: int, in_ms: int) -> None:
        d.advance(in_ms - 1)
        assert ticket not in d.answers
        assert (d.fetch_stable("orders", 0), d.coordinator.overdue_commits) == (UNSTABLE, 0)
        d.advance(1)
        assert d.errors(ticket) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert d.coordinator.overdue_commits == 1
        assert d.coordinator.next_deadline() is None

    def test_the_cluster_does_not_answer(self) -> None:
        d = Transacting()
        ticket, _ = self.asked(d)
        self.is_overdue(d, ticket, 10_000)
        assert d.fetch_stable("orders", 0) == -1
        assert d.coordinator.was_given_up(1, "g")

    def test_it_is_read_but_the_cluster_does_not_answer(self) -> None:
        d = Transacting()
        ticket, sent_on = self.asked(d)
        d.read(11, sent_on)
        self.is_overdue(d, ticket, 10_000)
        assert d.fetch_stable("orders", 0) == UNSTABLE
        assert not d.coordinator.was_given_up(1, "g")

    @pytest.mark.parametrize("answered_after", [0, 2_000, 9_999])
    def test_it_is_not_read_in_time(self, answered_after: int) -> None:
        d = Transacting()
        ticket, sent_on = self.asked(d)
        d.advance(answered_after)
        d.tell(ticket, sent_on)
        self.is_overdue(d, ticket, 5_000)
        assert d.coordinator.was_given_up(1, "g")
        d.read(11, sent_on)
        assert d.fetch_stable("orders", 0) == UNSTABLE

    def test_each_for_itself(self) -> None:
        d = Transacting(CoordinatorSettings(offsets_commit_timeout_ms=100))
        first, _ = self.asked(d)
        d.advance(50)
        second, sent_on = self.asked(d, group="h", producer=2)
        d.advance(100)
        d.tell(second, sent_on)
        d.advance(50)
        assert first in d.answers
        assert second not in d.answers
        d.read(11, sent_on)
        assert d.errors(second) == {0}
        d.advance(1_000)
        assert d.coordinator.overdue_commits == 1

    @pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH])
    def test_what_was_answered_has_no_deadline(self, error: ErrorCode) -> None:
        d = Transacting()
        ticket, sent_on = self.asked(d)
        assert d.coordinator.next_deadline() == d.now + 10_000
        if not error:
            d.read(11, sent_on)
        d.tell(ticket, sent_on, error)
        assert d.errors(ticket) == {error}
        assert d.coordinator.next_deadline() is None

    def test_what_is_refused_here_has_none(self) -> None:
        d = Transacting()
        d.ask_txn_commit([("orders", 0, 5)], generation=7)
        assert d.coordinator.next_deadline() is None

    def test_room_for_its_group_is_free_again(self) -> None:
        d = Transacting()
        self.asked(d)
        assert d.coordinator.group_bytes > 0
        d.advance(10_000)
        assert d.coordinator.group_bytes == 0


class TestGivenUp:
    """A commit that was answered with an error before it was read may have been written all the same."""

    def given_up(self, d: Transacting) -> TxnOffsetCommitRequest:
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_on is not None
        d.give_up(ticket)
        return sent_on

    def test_its_batch_does_not_answer_the_same_commit_of_the_next_transaction(self) -> None:
        d = Transacting()
        first = self.given_up(d)
        assert d.coordinator.was_given_up(1, "g")
        ticket, second = d.ask_txn_commit([("orders", 0, 5)], not_before=Position(FOLLOWED, 11))
        assert second is not None
        d.tell(ticket, second)
        d.read(10, first)
        assert ticket not in d.answers
        d.read(11, (1, 0, False))
        assert d.fetch_stable("orders", 0) == UNSTABLE
        d.read(12, second)
        assert d.errors(ticket) == {0}
        assert not d.coordinator.was_given_up(1, "g")

    def test_nobody_else_has_to_look_where_the_log_ends(self) -> None:
        d = Transacting()
        assert not d.coordinator.was_given_up(1, "g")
        self.given_up(d)
        assert [d.coordinator.was_given_up(*who) for who in ((1, "g"), (2, "g"), (1, "h"))] == [True, False, False]

    def test_what_the_broker_refuses_may_be_written_too(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_on is not None
        d.tell(ticket, sent_on, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert d.coordinator.was_given_up(1, "g")

    def test_beyond_a_number_all_have_to_look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parked_commits, "_MOST_GIVEN_UP", 1)
        d = Transacting()
        self.given_up(d)
        assert not d.coordinator.was_given_up(2, "g")
        for producer in (1, 3):
            ticket, _ = d.ask_txn_commit([("orders", 0, 5)], producer=producer)
            d.give_up(ticket)
        assert d.coordinator.was_given_up(2, "g")


class TestReset:
    """The cluster's log is the one that was read up to a position only."""

    def reset(self, d: Transacting, position: Position, steps: int | None = None) -> None:
        for step in d.coordinator.steps_of_reset(position)[:steps]:
            d.take(d.coordinator.follow(d.now, step))

    def test_what_began_before_stays_pending_with_all_that_was_added(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        committed(d, 6, at=13)
        self.reset(d, Position(FOLLOWED, 12))
        assert d.fetch_stable("orders", 0) == UNSTABLE
        d.read(13, (1, 0, True))
        assert d.fetch_stable("orders", 0) == 6, "it is the same transaction, and it is committed"

    def test_what_began_behind_is_dropped(self) -> None:
        d = Transacting()
        committed(d, 1, at=10)
        d.read(11, (1, 0, True))
        committed(d, 5, at=13)
        self.reset(d, Position(FOLLOWED, 12))
        assert d.fetch_stable("orders", 0) == 1
        d.read(13, (1, 0, True))
        assert d.fetch_stable("orders", 0) == 1

    def test_of_another_topic_and_another_epoch_nothing_is_left(self) -> None:
        for position in (Position(FOLLOWED, 20, 3, 0, b"2" * 16), Position(FOLLOWED, 20, 2, 0, b"1" * 16)):
            d = Transacting()
            d.read_at = Position(FOLLOWED, 0, 3, 0, b"1" * 16)
            committed(d, 5, at=11)
            self.reset(d, position)
            assert d.fetch_stable("orders", 0) == -1

    def test_in_another_partition_nothing_happens(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        self.reset(d, Position(9, 3))
        assert d.fetch_stable("orders", 0) == UNSTABLE

    def test_what_was_read_and_is_lost_is_not_answered_with_yes(self) -> None:
        d = Transacting()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 5)])
        assert sent_on is not None
        d.read(11, sent_on)
        self.reset(d, Position(FOLLOWED, 10))
        d.tell(ticket, sent_on)
        assert ticket not in d.answers
        d.read(11, sent_on)
        assert d.errors(ticket) == {0}

    @pytest.mark.parametrize("steps", range(4))
    def test_a_crash_in_between(self, steps: int) -> None:
        d = Transacting()
        committed(d, 5, at=11, producer=1)
        committed(d, 6, at=12, producer=2)
        committed(d, 7, at=13, producer=3)
        self.reset(d, Position(FOLLOWED, 11), steps)
        d.restart()
        if steps < 3:
            assert dict(d.coordinator.followed) == at_position(13), "so that it is found out again"
            self.reset(d, Position(FOLLOWED, 11))
            d.restart()
        assert dict(d.coordinator.followed) == at_position(11)
        d.read(12, (2, 0, True))
        d.read(13, (3, 0, True))
        assert d.fetch_stable("orders", 0) == UNSTABLE
        d.read(14, (1, 0, True))
        assert d.fetch_stable("orders", 0) == 5

    def test_a_dump_has_where_transactions_began(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        committed(d, 6, at=13)
        d.delete_offset_errors(("orders", [0]))
        committed(d, 7, at=14, producer=2)
        restored = new_coordinator()
        restored.restore(d.coordinator.dump())
        assert restored.dump() == d.coordinator.dump() == replayed(d.written).dump()
        d.coordinator = restored
        self.reset(d, Position(FOLLOWED, 12))
        assert [transaction.producer_id for _, transaction in d.written[-2:] if transaction] == [2, 2**63 - 1]


def delete_group(d: Transacting) -> None:
    assert d.delete_group("g") == 0


def delete_offset(d: Transacting) -> None:
    assert d.delete_offset_errors(("orders", [0])) == [[0]]


def delete_topic(d: Transacting) -> None:
    deletion = d.coordinator.delete_topic_offsets("orders")
    d.take(deletion.step(d.now, d.ticket()))


@pytest.mark.parametrize("delete", [delete_group, delete_offset, delete_topic])
class TestDeletedWhilePending:
    """The log has a batch of the transaction, so it gets its end: compaction goes no further than to an open one."""

    @pytest.mark.parametrize("committing", [True, False])
    @pytest.mark.parametrize("restarting", ["not", "from the log", "from a snapshot"])
    def test_the_marker_is_written_and_settles_nothing(
        self, delete: Callable[[Transacting], None], committing: bool, restarting: str
    ) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        delete(d)
        if restarting == "from the log":
            d.restart()
        elif restarting == "from a snapshot":
            dump = d.coordinator.dump()
            d.coordinator = new_coordinator()
            d.coordinator.restore(dump)
            assert d.coordinator.dump() == dump == replayed(d.written).dump()
        written = len(d.written)
        d.read(12, (1, 0, committing))
        ((records, transaction),) = d.written[written:]
        assert isinstance(transaction, TransactionEnd)
        assert (records, transaction.producer_id, transaction.committed) == ((), 1, committing)
        assert transaction.position == Position(FOLLOWED, 12)
        assert (d.fetch_stable("orders", 0), d.history) == (-1, [])
        d.read(13, (1, 0, committing))
        assert len(d.written) == written + 1, "once"

    def test_where_the_marker_was_passed_over_it_is_ended_when_it_is_loaded(
        self, delete: Callable[[Transacting], None]
    ) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        assert d.coordinator.left_open() == []
        delete(d)
        (producer,) = d.coordinator.left_open()
        assert producer == (FOLLOWED, 1)
        d.restart()
        assert d.coordinator.left_open() == [producer]
        d.take(d.coordinator.end_left_open(d.now, producer))
        assert d.written[-1] == Written((), TransactionEnd(1, 0, Position(FOLLOWED, 11), committed=False))
        assert d.coordinator.left_open() == []
        written = len(d.written)
        d.take(d.coordinator.end_left_open(d.now, producer))
        assert len(d.written) == written
        # The producer goes on in the same transaction, and commits it.
        committed(d, 6, at=12)
        assert d.fetch_stable("orders", 0) == UNSTABLE
        d.restart()
        d.take(d.coordinator.end_left_open(d.now, producer))
        d.read(13, (1, 0, True))
        assert d.fetch_stable("orders", 0) == 6
        d.restart()
        assert (d.fetch_stable("orders", 0), d.coordinator.left_open()) == (6, [])


class TestRecovery:
    def test_offsets_wait_until_the_clusters_log_was_read(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        d.coordinator = replayed(d.written)
        d.coordinator.loaded(d.now)
        assert d.coordinator.is_behind
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 6)])
        assert sent_on is None
        assert d.errors(ticket) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert d.commit_error("", -1, [("orders", 0, 6)]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        d.coordinator.caught_up(FOLLOWED)
        assert d.fetch_stable("orders", 0) == UNSTABLE

    def test_pending_survives(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        d.restart()
        assert (d.fetch_stable("orders", 0), dict(d.coordinator.followed)) == (UNSTABLE, at_position(11))
        d.read(12, (1, 0, True))
        d.restart()
        assert (d.fetch_stable("orders", 0), dict(d.coordinator.followed)) == (5, at_position(12))

    def test_a_position_alone(self) -> None:
        d = Transacting()
        d.take(d.coordinator.follow(d.now, Position(FOLLOWED, 77)))
        d.take(d.coordinator.follow(d.now, Position(FOLLOWED, 76)))
        assert len(d.written) == 1
        d.restart()
        assert dict(d.coordinator.followed) == at_position(77)

    def test_a_snapshot_has_it_all(self) -> None:
        d = Transacting()
        committed(d, 5, at=11)
        committed(d, 6, at=12, producer=2)
        d.commit_error("", -1, [("orders", 0, 2)])
        committed(d, 7, at=13, producer=3)
        d.read(14, (3, 0, True))
        restored = new_coordinator()
        restored.restore(d.coordinator.dump())
        assert restored.dump() == d.coordinator.dump() == replayed(d.written).dump()


@pytest.mark.parametrize("seed", range(60))
def test_any_schedule_is_as_kafka_replays_it(seed: int) -> None:
    """Producers, members, followers and crashes in any order: what is served is what Kafka's rule makes of the log, and
    the log has each batch and marker of the cluster's once."""
    rng = random.Random(seed)
    d = Transacting()
    cluster: list[TxnOffsetCommitRequest | tuple[int, int, bool]] = []
    is_open: dict[int, bool] = dict.fromkeys((1, 2, 3), False)
    read = durable = 0
    d.take(d.coordinator.follow(d.now, Position(FOLLOWED, 0)))
    keys = [OffsetCommitKey("g", topic, partition) for topic in ("a", "b") for partition in (0, 1)]

    def follow() -> None:
        nonlocal read
        if read < len(cluster):
            read += 1
            d.read(read, cluster[read - 1])

    for number in range(rng.choice((20, 60, 200))):
        producer = rng.choice(list(is_open))
        match rng.choice(("begin", "begin", "end", "follow", "follow", "commit", "delete", "flush", "crash", "dump")):
            case "begin":
                chosen = [(k.topic, k.partition, number) for k in rng.sample(keys, rng.randrange(1, 4))]
                ticket, sent_on = d.ask_txn_commit(chosen, producer=producer)
                assert sent_on is not None
                if rng.random() < 0.9:
                    cluster.append(sent_on)
                    is_open[producer] = True
                    d.tell(ticket, sent_on)
            case "end" if is_open[producer]:
                cluster.append((producer, rng.randrange(2), rng.random() < 0.6))
                is_open[producer] = False
            case "follow":
                follow()
            case "commit":
                key = rng.choice(keys)
                d.commit_error("", -1, [(key.topic, key.partition, number)])
            case "delete":
                key = rng.choice(keys)
                d.delete_offset_errors((key.topic, [key.partition]))
            case "flush":
                durable = len(d.written)
            case "crash":
                d.restart(lost=rng.randrange(len(d.written) - durable + 1))
                durable = len(d.written)
                read = d.coordinator.followed[FOLLOWED].next_offset if d.coordinator.followed else 0
            case "dump":
                restored = new_coordinator()
                restored.restore(d.coordinator.dump())
                assert restored.dump() == d.coordinator.dump()
                again = replayed(d.written)
                for each_of_both in (restored, again):  # a start may have done so
                    each_of_both._state.offsets.overruled.forget_offsets()
                assert restored.dump() == again.dump()
        expected = KafkaRule(d.written)
        for key in keys:
            assert d.fetch(key.topic, key.partition).committed_offset == expected.offsets.get(key, (0, -1))[1]
            if key in expected.unstable():
                assert d.fetch_stable(key.topic, key.partition) == UNSTABLE
    while read < len(cluster):
        follow()
    taken = [each.transaction for each in d.written if each.transaction is not None]
    batches = [each for each in taken if isinstance(each, TransactionBatch)]
    assert [each.position.next_offset for each in batches] == [
        at for at, entry in enumerate(cluster, 1) if isinstance(entry, TxnOffsetCommitRequest)
    ]
    positions = [each.position.next_offset for each in taken]
    assert positions == sorted(set(positions))
    for each in taken:
        if isinstance(each, TransactionEnd) and each.position.next_offset:
            assert cluster[each.position.next_offset - 1] == (each.producer_id, each.producer_epoch, each.committed)
    d.restart()
    for key in keys:
        unstable = any(is_open.values()) and key in KafkaRule(d.written).unstable()
        assert (d.fetch_stable(key.topic, key.partition) == UNSTABLE) == unstable


def test_the_history_has_what_was_committed_and_by_whom() -> None:
    d = Transacting()
    (member,), generation = d.stable(1)
    _, sent_on = d.ask_txn_commit([("orders", 0, 5)], member=member, generation=generation)
    assert sent_on is not None
    d.read(11, sent_on)
    assert d.history == []
    d.read(12, (1, 0, True))
    ((key, value),) = d.history
    assert (key.group, key.topic, key.partition, value.offset) == ("g", "orders", 0, 5)
    assert (value.member_id, value.generation_id, value.client_id) == (member, generation, "client")
    committed(d, 6, at=13)
    d.restart()
    d.read(14, (1, 0, True))
    assert (d.history[-1][1].offset, d.history[-1][1].member_id) == (6, "")


def test_who_commits_is_left_out_of_the_history_where_it_takes_too_much() -> None:
    """It is repeated for every offset, so that few bytes of a request make very many there; the offsets stay in it."""
    d = Transacting(CoordinatorSettings(commit_max_bytes=100_000))
    (member,), generation = d.stable(1)
    _, sent_on = d.ask_txn_commit([("orders", n, n) for n in range(10_000)], member=member, generation=generation)
    assert sent_on is not None
    d.read(11, sent_on)
    d.read(12, (1, 0, True))
    assert sorted(value.offset for _, value in d.history) == list(range(10_000))
    told = [value for _, value in d.history if value.member_id]
    assert 1_000 < len(told) < 2_000
    assert sum(len(value.member_id) + len(value.client_id) + len(value.client_host) for value in told) < 100_000
