"""What came of a batch that was sent."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.own.position import UNKNOWN_EPOCH


class Verdict(Enum):
    """Of a batch that was sent. ``WRITTEN``: it is in all in-sync replicas. ``FENCED``: somebody else owns the
    partition (of a batch that was sent before, too, this says nothing of whether that was written). ``LOST``: the
    cluster has lost batches that it had acknowledged. ``REFUSED``: now and later. ``UNKNOWN``: the very same bytes are
    to be sent again, to whoever leads then, as brokers know what they have; once they are not, nobody knows what came
    of them.
    """

    WRITTEN = auto()
    FENCED = auto()
    LOST = auto()
    REFUSED = auto()
    UNKNOWN = auto()


_VERDICTS: Final = {
    ErrorCode.NONE: Verdict.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.LOST,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.LOST,
    # Of one batch at a time the broker knows more than the number only where others have written under it.
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.LOST,
}


def verdict_of(error_code: int) -> Verdict:
    """What a broker's answer to a batch means, one at a time being under way."""
    error = ErrorCode.for_code(error_code)
    return _VERDICTS.get(error, Verdict.UNKNOWN if error.retriable else Verdict.REFUSED)


class Produced(NamedTuple):
    """``base_offset`` and ``append_time_ms`` are of what was written, the second by the leader's clock; ``sent_at``:
    no later than it was sent first, of CLOCK_BOOTTIME; ``leader_epoch``: of who has written it, or an older one, where
    he had come to lead anew and that was not known. ``why``: the last that was said of what was not."""

    verdict: Verdict
    sent_at: float
    base_offset: int = -1
    append_time_ms: int = -1
    leader_epoch: int = UNKNOWN_EPOCH
    why: str = ""

    def moment_of(self, append_time_ms: int) -> float:
        """When the leader's clock said that, if it goes right; of CLOCK_BOOTTIME, and no later than it was."""
        return self.sent_at - (self.append_time_ms - append_time_ms) / 1000
