"""Until when an owner may tell what it has without asking: some time after a write of its own was acknowledged.

Nobody writes behind a batch of the owner's that was acknowledged but those who come after it in the log. So what was
right when the batch was *sent* is right until somebody has fenced it, and whoever does tells nothing before the leases
of all owners before him have ended: by his own clock, from when his fence was acknowledged. Only rates of clocks are
compared, never times of two machines. Times are seconds of CLOCK_BOOTTIME, which runs on through a suspend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

LONGEST_SECONDS: Final = 10.0
"""That anybody may have. Compaction leaves the records of the last minute alone (``min.compaction.lag.ms``), so that of
everybody whose lease may not have ended there is one."""

_RATE: Final = 1.05
"""A clock may be that much faster than another."""


class Lease:
    """Of one partition; ``seconds`` 0: nothing is told without a write."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = float("-inf")

    def acknowledged(self, sent_at: float) -> None:
        """A batch that was sent then, for the first time if it was sent again, is in all in-sync replicas."""
        self._until = max(self._until, sent_at + self.seconds)

    def holds(self, now: float) -> bool:
        return now < self._until

    def will_hold(self, decided_at: float, sent_at: float) -> bool:
        """Whether what was decided then is right, once a batch is acknowledged that was sent at ``sent_at``."""
        return decided_at < sent_at + self.seconds


class Claim(NamedTuple):
    """An ``Owner`` record that was read. ``is_own``: of this process."""

    lease_seconds: float
    released: bool
    is_own: bool = False


def waiting_seconds(former: Sequence[Claim], *, served_last_claim: bool) -> float:
    """How long to wait from when the fence was acknowledged. ``former``: those below it, in the order of the log.
    ``served_last_claim``: where the last one is this process's, it has served the partition under it.

    Not the last one's lease alone: that one may have died before it had waited for the one before it, and when it wrote
    is known by other machines' clocks only.
    """
    if not former or former[-1].released or (former[-1].is_own and served_last_claim):
        return 0.0
    return _RATE * max(each.lease_seconds for each in former)
