"""A partition from one take-over on: whether it is still this process's, what may be told of it, and where it ends."""

from __future__ import annotations

from shim.boottime import boottime
from shim.kafka_log.lease import Lease
from shim.kafka_log.owning.outcomes import outcome
from shim.kafka_log.producing.produced import Produced
from shim.kafka_log.producing.sequence import ProducerSequence
from shim.upstream.errors import UpstreamError


class Tenure:
    """``where``: the partition, in words. ``claim``: the fence, or what was written since to say the same.
    ``served_last_claim``: under the claim of this process before that one it was served. ``has_fenced_others``: also
    who has written under other producer ids, perhaps behind the fence. ``is_read``: what it has is known, and it may be
    written. ``is_served``: that may be told, too, within the lease. ``is_over``: it is owned no more. ``end``: behind
    all that is known to be there; ``last``: what was written last, None where something stands before it that is not.
    Of CLOCK_BOOTTIME: ``fenced_at``: when all who owned it before were known to be fenced; ``heard_at``: when a write
    was last known to be acknowledged; ``sent_at``: no later than the batch under way was sent."""

    def __init__(
        self,
        number: int,
        where: str,
        sequence: ProducerSequence,
        lease: Lease,
        fence: Produced,
        *,
        served_last_claim: bool,
    ) -> None:
        self.number = number
        self.where = where
        self.sequence = sequence
        self.lease = lease
        self.fence = self.claim = fence
        self.served_last_claim = served_last_claim
        self.is_read = self.is_served = self.is_over = False
        self.end = 0
        self.is_all_known = True
        self.has_fenced_others = False
        self.last: Produced | None = None
        self.fenced_at = self.heard_at = self.sent_at = boottime()

    def check_owned(self, silent_seconds: float) -> None:
        """Raises UpstreamError where it is over, and where nothing was acknowledged for so long: then it is over from
        here on, as brokers may have forgotten who is fenced. RuntimeError while a batch is under way."""
        if self.is_over:
            raise UpstreamError(f"{self.where} is not owned")
        if self.sequence.is_under_way:
            raise RuntimeError(f"{self.where}: two calls at a time")
        if self.silent_for > silent_seconds:
            self.give_up()
            raise UpstreamError(f"{self.where} was not written for {silent_seconds:g} s, and is owned no more")

    def release(self) -> None:
        """Nothing is told of it any more; it may still be written that others need not wait."""
        self.is_served = False

    def give_up(self) -> None:
        self.is_served = False
        self.is_over = True

    @property
    def silent_for(self) -> float:
        """Seconds since a write was last known to be acknowledged."""
        return boottime() - self.heard_at

    # -- what was written and read

    def claimed(self, claim: Produced) -> None:
        """It was said again that it is this process's. It has to be read on to behind that."""
        self.claim = claim
        self.heard_at = boottime()

    def fenced_others(self) -> None:
        self.has_fenced_others, self.served_last_claim, self.fenced_at = True, False, boottime()

    @property
    def since_fence(self) -> float:
        """Seconds."""
        return boottime() - self.fenced_at

    def read_to(self, end: int) -> None:
        self.end = end
        if end == self.sequence.end and not self.has_fenced_others:
            self.last = self.claim

    def serve(self) -> None:
        """What it has is known, and who owned it before tells nothing any more."""
        self.lease.acknowledged(self.fence.sent_at)
        self.is_read = self.is_served = True

    def stamp(self, batch: bytes) -> bytes:
        """To be sent at once. Raises RuntimeError while there is another."""
        self.sent_at = boottime()
        return self.sequence.stamp(batch)

    def conclude(self, produced: Produced) -> UpstreamError | None:
        """What came of the batch that was stamped last; None where it is in the log. It is over otherwise."""
        trouble = outcome(self.where, self.sequence, produced)
        if trouble is None:
            self._wrote(produced)
        else:
            self.give_up()
        return trouble

    def _wrote(self, produced: Produced) -> None:
        self.lease.acknowledged(produced.sent_at)
        self.heard_at = boottime()
        self.is_all_known = self.is_all_known and produced.base_offset == self.end
        self.last = produced if self.is_all_known else None
        self.end = self.sequence.end

    # -- what may be told

    @property
    def may_tell(self) -> bool:
        """Whether nobody else can have written by now."""
        return self.is_served and self.lease.holds(boottime())

    def may_tell_behind(self, decided_at: float) -> bool:
        """Whether what was decided then, of CLOCK_BOOTTIME, may be told once the write that is under way is
        acknowledged. False where none is."""
        return self.is_served and self.sequence.is_under_way and self.lease.will_hold(decided_at, self.sent_at)

    def is_idle(self, seconds: float) -> bool:
        """It is served, nothing was acknowledged for so long, and nothing is under way."""
        return self.is_served and self.silent_for >= seconds and not self.sequence.is_under_way
