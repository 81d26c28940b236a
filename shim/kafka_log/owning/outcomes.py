"""What came of a write, told to whoever wants to have something written."""

from __future__ import annotations

from shim.kafka_log.producing.produced import Produced, Verdict
from shim.kafka_log.producing.sequence import ProducerSequence
from shim.runtime.backend import OwnedElsewhere
from shim.upstream.errors import UpstreamError


class Fenced(UpstreamError, OwnedElsewhere):
    """Somebody else has taken the partition over."""


class RecordSetTooLarge(UpstreamError):
    """The topic does not take it. Nothing of the partition's was written, and it is still owned."""


def outcome(where: str, sequence: ProducerSequence, sent: Produced) -> UpstreamError | None:
    """What came of the batch under way; None where it is written."""
    if sent.verdict is not Verdict.WRITTEN:
        kind = Fenced if sent.verdict is Verdict.FENCED else UpstreamError
        return kind(f"{where}: {sent.verdict.name.lower()}: {sent.why}")
    if not sequence.written(sent.base_offset):
        return UpstreamError(f"{where}: lost: a batch stands at {sent.base_offset}, where others were acknowledged")
    return None
