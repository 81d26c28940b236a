"""What is known of a partition that is owned, without a broker."""

from __future__ import annotations

import pytest

from protocol.records.batches import Record, encode_records
from shim.kafka_log.lease import Lease
from shim.kafka_log.owning import tenure
from shim.kafka_log.owning.outcomes import Fenced
from shim.kafka_log.owning.tenure import Tenure
from shim.kafka_log.producing.produced import Produced, Verdict
from shim.kafka_log.producing.sequence import ProducerSequence
from shim.upstream.errors import UpstreamError

BATCH = encode_records([Record(b"k", b"v", (), 0, 0)])


def begun(lease_seconds: float = 0.0, sent_at: float = 0.0) -> Tenure:
    """Its fence is the batch at offset 4, and was sent then."""
    fence = Produced(Verdict.WRITTEN, sent_at, 4)
    return Tenure(0, "t-0", ProducerSequence(7, 0), Lease(lease_seconds), fence, served_last_claim=False)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(tenure, "boottime", lambda: made.now)
    return made


def test_behind_what_somebody_else_has_written_nobody_knows_the_last_batch() -> None:
    """An owner under another producer id, whom the fence does not keep off at once: what it wrote was not replayed."""
    its = begun()
    its.end = 5

    def writes(base_offset: int) -> Produced | None:
        its.stamp(BATCH)
        assert its.conclude(Produced(Verdict.WRITTEN, 0.0, base_offset)) is None
        return its.last

    first = writes(5)
    assert first is not None
    assert first.base_offset == 5
    assert writes(6) is not None
    assert writes(8) is None
    assert writes(9) is None, "until it is read again"


def test_one_that_is_over_stays_so(clock: Clock) -> None:
    its = begun()
    its.serve()
    clock.now += 60.0
    its.check_owned(60.0)
    assert its.is_idle(60.0)
    with pytest.raises(UpstreamError, match=r"^t-0 was not written for 59 s, and is owned no more$"):
        its.check_owned(59.0)
    with pytest.raises(UpstreamError, match=r"^t-0 is not owned$"):
        its.check_owned(60.0)
    assert not its.is_idle(60.0)


def test_whose_id_nobody_gets_any_more_is_fenced_later_than_others(clock: Clock) -> None:
    """And may have written behind the fence: nobody knows what this process's last batch is."""
    its = begun()
    its.sequence.stamp(BATCH)
    assert its.sequence.written(4)
    its.read_to(5)
    assert its.last is its.fence
    other = begun()
    other.served_last_claim = True
    other.sequence.stamp(BATCH)
    assert other.sequence.written(4)
    clock.now += 2.0
    other.fenced_others()
    clock.now += 1.0
    assert other.since_fence == 1.0
    assert not other.served_last_claim
    other.read_to(5)
    assert other.last is None


def test_the_lease_begins_when_the_fence_was_sent_and_counts_once_it_is_served(clock: Clock) -> None:
    its = begun(lease_seconds=10.0, sent_at=100.0)
    clock.now = 109.0
    its.lease.acknowledged(100.0)
    assert not its.may_tell, "it has not been read"
    its = begun(lease_seconds=10.0, sent_at=100.0)
    its.serve()
    assert its.may_tell
    clock.now = 110.0
    assert not its.may_tell


def test_the_lease_goes_on_from_when_a_write_was_sent(clock: Clock) -> None:
    its = begun(lease_seconds=10.0, sent_at=100.0)
    its.serve()
    clock.now = 111.0
    its.stamp(BATCH)
    clock.now = 120.0
    assert its.conclude(Produced(Verdict.WRITTEN, 111.0, 5)) is None
    assert its.may_tell
    assert its.silent_for == 0.0
    clock.now = 121.0
    assert its.silent_for == 1.0
    assert not its.may_tell


def test_what_may_be_told_behind_the_write_under_way(clock: Clock) -> None:
    its = begun(lease_seconds=10.0, sent_at=100.0)
    its.serve()
    assert not its.may_tell_behind(101.0), "none is"
    clock.now = 111.0
    its.stamp(BATCH)
    assert its.may_tell_behind(120.9)
    assert not its.may_tell_behind(121.0)
    its.give_up()
    assert not its.may_tell_behind(112.0)


def test_who_says_again_that_it_is_its_own_is_heard_and_fences_nobody(clock: Clock) -> None:
    its = begun()
    clock.now += 30.0
    its.claimed(its.fence)
    assert (its.silent_for, its.since_fence) == (0.0, 30.0)


@pytest.mark.parametrize("verdict", [Verdict.FENCED, Verdict.LOST, Verdict.REFUSED, Verdict.UNKNOWN])
def test_what_is_not_known_to_be_written_ends_it(verdict: Verdict) -> None:
    its = begun()
    its.serve()
    its.stamp(BATCH)
    trouble = its.conclude(Produced(verdict, 100.0))
    assert isinstance(trouble, Fenced) == (verdict is Verdict.FENCED)
    assert trouble is not None
    assert its.is_over
    assert not its.is_served
