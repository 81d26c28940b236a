"""What is read in the cluster's own `__consumer_offsets`, and becomes part of this log.

A transactional batch makes offsets pending, a control batch settles them; each is taken over with how far the cluster's
log has been read by that, so that it happens once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.history_log import Who
from protocol.own.position import Position, Producer
from shim.coordinator.decision import UTF8_MAX, Decision
from shim.coordinator.outcome import TransactionBatch, TransactionEnd
from shim.coordinator.requests.in_zookeeper import before_commit, note_way_back
from shim.coordinator.requests.txn_offset_commit import answer_parked
from shim.coordinator.state.partition_state import PartitionState

NOBODY: Final = 2**63 - 1
"""A producer id that no cluster gives out: a position by itself is said by an end of its transaction."""

_UNKNOWN: Final = Who(-1, "", None, "", "")


class FollowedBatch(NamedTuple):
    """Offsets that a producer commits in a transaction. ``position``: behind that batch."""

    producer_id: int
    producer_epoch: int
    position: Position
    records: Sequence[tuple[OffsetCommitKey, OffsetCommitValue]]


class LostTransaction(NamedTuple):
    """The cluster has lost what this producer's transaction began with, in that partition of its log."""

    producer: Producer


class Reset(NamedTuple):
    """The cluster's log is the one that was read up to ``position`` only: it is read again from there on."""

    position: Position


def follow(decision: Decision, read: FollowedBatch | TransactionEnd | LostTransaction | Reset | Position) -> None:
    """Take over what was read in the cluster's `__consumer_offsets`: in its order, from `followed` on. What is not
    in this partition is the caller's to leave out. A position alone says that there was nothing else up to there.
    """
    match read:
        case FollowedBatch():
            follow_batch(decision, read)
        case TransactionEnd():
            follow_end(decision, read)
        case LostTransaction():
            follow_lost(decision, read)
        case Reset():
            follow_reset(decision, read)
        case Position():
            follow_position(decision, read)


def follow_batch(decision: Decision, batch: FollowedBatch) -> None:
    """The offsets are pending from now on; who has sent them is answered, once they are durable."""
    state = decision.state
    if not batch.records or _was_taken_over(decision, batch.position):
        return
    begun = state.offsets.transactions.begun(Producer(batch.position.partition, batch.producer_id))
    taken = TransactionBatch(batch.producer_id, batch.producer_epoch, batch.position, begun)
    decision.write_pending(taken, batch.records)
    written = dict(batch.records)
    for group in {key.group for key in written}:
        of_group = {key: value for key, value in written.items() if key.group == group}
        of_producer = state.commits.of(batch.producer_id, batch.producer_epoch, group)
        may_be = [parked for parked in of_producer if parked.wrote(of_group, batch.position)]
        # The cluster may have taken a part of what was sent on; but not where another one has sent just that.
        exactly = [parked for parked in may_be if of_group.keys() == set(parked.keys)]
        for parked in exactly or may_be:
            state.commits.read(parked)
            state.committers.setdefault(taken.producer, {})[group] = parked.committer
            if parked.told:
                answer_parked(decision, parked)


def follow_end(decision: Decision, end: TransactionEnd) -> None:
    """What of the producer is pending is committed, or dropped.

    The marker is written wherever the log has a batch that it ends, also where tombstones have taken all that was
    pending: compaction goes no further than to the first transaction that is open. Nothing is written otherwise.
    """
    if _was_taken_over(decision, end.position):
        return
    committers = decision.state.committers.pop(end.producer, {})
    if not decision.state.offsets.transactions.is_open(end.producer):
        return
    pending: dict[str, list[tuple[str, int]]] = {}
    for key in decision.state.offsets.transactions.pending.get(end.producer, ()):
        if key.group in decision.state.with_stores:
            pending.setdefault(key.group, []).append((key.topic, key.partition))
    before = {group_id: before_commit(decision.state, group_id, its) for group_id, its in pending.items()}
    settled = decision.end_transaction(end)
    for group_id, its in before.items():
        note_way_back(decision, group_id, its)
    if decision.state.settings.offsets_history_retention_minutes > 0:
        # Who has committed is repeated for every offset, and may be a hundred times as long as that.
        room = decision.state.settings.commit_max_bytes
        for key, value, _ in settled:
            if value is None:
                continue
            committer = committers.get(key.group, _UNKNOWN)
            room -= _size(committer)
            decision.remember(key, value, committer if room >= 0 else _UNKNOWN)


def end_left_open(decision: Decision, producer: Producer) -> None:
    """Nothing of that transaction is pending, and its marker may never be read again: so it ends here.

    What the producer may yet add to it begins another one in this log, which the marker ends. Of no use to anybody is
    the producer's epoch, and it is not kept.
    """
    transactions = decision.state.offsets.transactions
    if transactions.is_left_open(producer):
        position = transactions.positions[producer.followed]
        decision.end_transaction(TransactionEnd(producer.producer_id, 0, position, committed=False))


def follow_position(decision: Decision, position: Position) -> None:
    """The cluster's log has been read up to there, and what was read is no concern."""
    if not _was_taken_over(decision, position):
        decision.end_transaction(TransactionEnd(NOBODY, 0, position, committed=False))


def steps_of_reset(state: PartitionState, position: Position) -> list[LostTransaction | Reset]:
    """What is to be taken over, each by itself, and in this order: with the position the reset is done. A crash before
    leaves the old position, and it is found again that the cluster's log has changed.
    """
    lost = state.offsets.transactions.lost_behind(position)
    return [*(LostTransaction(producer) for producer in lost), Reset(position)]


def follow_lost(decision: Decision, lost: LostTransaction) -> None:
    """What the cluster has lost it will not commit. The producer's next marker may be one of another transaction, so
    nothing of this one may be pending by then.
    """
    followed, producer_id = lost.producer
    state = decision.state
    state.committers.pop(lost.producer, None)
    state.commits.lost(producer_id)
    position = state.offsets.transactions.positions[followed]
    decision.end_transaction(TransactionEnd(producer_id, 0, position, committed=False))


def follow_reset(decision: Decision, reset: Reset) -> None:
    """The position goes back."""
    if reset.position != decision.state.offsets.transactions.positions.get(reset.position.partition):
        decision.end_transaction(TransactionEnd(NOBODY, 0, reset.position, committed=False))


def _was_taken_over(decision: Decision, position: Position) -> bool:
    known = decision.state.offsets.transactions.positions.get(position.partition)
    return known is not None and position.next_offset <= known.next_offset


def _size(who: Who) -> int:
    """At most so many bytes does it take in a record of the history."""
    named = (who.client_id, who.client_host, who.principal, who.member_id, who.group_instance_id or "")
    return UTF8_MAX * sum(map(len, named))
