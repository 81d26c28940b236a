"""What is known of a partition that is owned, without a broker."""

from __future__ import annotations

import pytest

from protocol.records.batches import Record, encode_records
from shim.kafka_log.lease import Lease
from shim.kafka_log.owning import tenure
from shim.kafka_log.owning.producing import Produced
from shim.kafka_log.owning.sequence import ProducerSequence, Verdict
from shim.kafka_log.owning.tenure import Tenure
from shim.upstream.errors import UpstreamError

BATCH = encode_records([Record(b"k", b"v", (), 0, 0)])


def begun() -> Tenure:
    """Its fence is the batch at offset 4."""
    return Tenure(0, "t-0", ProducerSequence(7, 0), Lease(0.0), Produced(Verdict.WRITTEN, 0.0, 4), resumes=False)


def test_behind_what_somebody_else_has_written_nobody_knows_the_last_batch() -> None:
    """An owner under another producer id, whom the fence does not keep off at once: what it wrote was not replayed."""
    its = begun()
    its.end = 5

    def writes(base_offset: int) -> Produced | None:
        its.stamp(BATCH)
        assert its.sequence.written(base_offset)
        its.wrote(Produced(Verdict.WRITTEN, 0.0, base_offset))
        return its.last

    first = writes(5)
    assert first is not None
    assert first.base_offset == 5
    assert writes(6) is not None
    assert writes(8) is None
    assert writes(9) is None, "until it is read again"


def test_one_that_is_over_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    its = begun()
    its.serve()
    now = its.heard_at
    monkeypatch.setattr(tenure, "boottime", lambda: now + 60.0)
    its.check(60.0)
    assert its.is_idle(60.0)
    with pytest.raises(UpstreamError, match=r"^t-0 was not written for 59 s, and is owned no more$"):
        its.check(59.0)
    with pytest.raises(UpstreamError, match=r"^t-0 is not owned$"):
        its.check(60.0)
    assert not its.is_idle(60.0)


def test_whose_id_nobody_gets_any_more_is_fenced_later_than_others() -> None:
    """And may have written behind the fence: nobody knows what this process's last batch is."""
    its = begun()
    its.sequence.stamp(BATCH)
    assert its.sequence.written(4)
    its.read_to(5)
    assert its.last is its.fence
    other = begun()
    other.resumes = True
    other.sequence.stamp(BATCH)
    assert other.sequence.written(4)
    fenced_at = other.fenced_at
    other.fenced_others()
    assert other.fenced_at >= fenced_at
    assert not other.resumes
    other.read_to(5)
    assert other.last is None
