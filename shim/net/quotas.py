"""How many connections there may be: Kafka's quotas on connections, pure.

As in Kafka's broker (4.3; KIP-402, KIP-612): where ``max.connections`` are there, or they come faster than
``max.connection.creation.rate``, nobody is accepted for the time being, so that clients wait in the system's backlog.
A client whose address has ``max.connections.per.ip`` is accepted and closed at once. The first two hold for the whole
shim and again for each listener; the third for the whole shim.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from shim.config import INT32_MAX, Settings

# Descriptors that a connection may take: its own, and its way to the broker.
DESCRIPTORS_EACH: Final = 2
# Descriptors that are neither the log's segments nor connections: the log's other files, compaction, the shim's own
# connections, ports.
OTHER_DESCRIPTORS: Final = 256


def open_files_allowed() -> float:
    """To this process, from now on as many as its hard limit says; infinity: no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # a hard limit beyond the system's own (fs.nr_open)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return math.inf if soft == resource.RLIM_INFINITY else soft


def most_connections(open_files: float, log_files: int) -> int:
    """How many connections there is room for with so many open files (infinity: no limit), beside the log's.

    One more would not only be refused itself: the log could not open its next segment.
    """
    if math.isinf(open_files):
        return INT32_MAX
    room = (open_files - log_files - OTHER_DESCRIPTORS) // DESCRIPTORS_EACH
    return int(min(max(1, room), INT32_MAX))


class Quota:
    """Of the whole shim, or of one listener: how many at a time, and how many a second.

    The rate is that of a bucket that is full after a second of silence. Times are in seconds, of any monotonic clock.
    """

    __slots__ = ("_at", "_credit", "_most", "_rate", "count")

    def __init__(self, most: int, rate: int) -> None:
        self.count = 0
        self._most = most
        self._rate = rate
        self._credit = float(rate)
        self._at = -math.inf

    def change(self, most: int, rate: int) -> None:
        """Of those to come: who is there stays."""
        self._most = most
        self._rate = rate

    @property
    def is_full(self) -> bool:
        return self.count >= self._most

    def wait_seconds(self, now: float) -> float:
        """Until the next one may be taken; infinity: until another has left."""
        if self.is_full:
            return math.inf
        return max(0.0, 1.0 - self._credit_at(now)) / self._rate

    def take(self, now: float) -> None:
        self._credit, self._at = self._credit_at(now) - 1.0, now
        self.count += 1

    def _credit_at(self, now: float) -> float:
        return min(float(self._rate), self._credit + (now - self._at) * self._rate)


class PerAddress(NamedTuple):
    """How many connections one address may have; ``overrides``: of some others than of most."""

    most: int
    overrides: Mapping[str, int]

    def of(self, address: str) -> int:
        return self.overrides.get(address, self.most)


class ConnectionQuotas:
    """Of the whole shim."""

    def __init__(self, settings: Settings, *, most: int = INT32_MAX) -> None:
        """``most``: as many as the process has room for, whatever the settings say."""
        self._room = most
        self.whole = Quota(min(most, settings.max_connections), settings.max_connection_creation_rate)
        self.by_address: dict[str, int] = {}
        self.created = self.refused = 0
        """Connections that were accepted, and those that were closed at once for their address."""
        self._waiting: dict[Callable[[], None], None] = {}

    def take_settings(self, settings: Settings) -> None:
        """Whoever waits for room looks again."""
        self.whole.change(min(self._room, settings.max_connections), settings.max_connection_creation_rate)
        self.left()

    def listener(self, settings: Settings, per_address: PerAddress) -> ListenerQuotas:
        """For one with these settings."""
        return ListenerQuotas(self, settings, per_address)

    def when_one_has_left(self, tell: Callable[[], None]) -> None:
        """Once, at the next one that leaves; in the order in which they asked."""
        self._waiting[tell] = None

    def no_matter(self, tell: Callable[[], None]) -> None:
        """It need not be told any more."""
        self._waiting.pop(tell, None)

    def left(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for tell in waiting:
            tell()


class ListenerQuotas:
    """Of one listener, all its ports together; with those of the whole shim over it."""

    def __init__(self, everywhere: ConnectionQuotas, settings: Settings, per_address: PerAddress) -> None:
        self.everywhere = everywhere
        self._per_address = per_address
        self._own = Quota(settings.max_connections, settings.max_connection_creation_rate)

    def take_settings(self, settings: Settings) -> None:
        """But for the addresses that have a number of their own."""
        self._own.change(settings.max_connections, settings.max_connection_creation_rate)
        self._per_address = self._per_address._replace(most=settings.max_connections_per_ip)
        self.everywhere.left()

    def wait_seconds(self, now: float) -> float:
        """Until the next connection may be accepted; infinity: until another has left."""
        return max(self.everywhere.whole.wait_seconds(now), self._own.wait_seconds(now))

    def take(self, address: str, now: float) -> bool:
        """Count one that was accepted; False: its address has as many as it may, and it is not counted."""
        there = self.everywhere.by_address.get(address, 0)
        if there >= self._per_address.of(address):
            self.everywhere.refused += 1
            return False
        self.everywhere.created += 1
        self.everywhere.by_address[address] = there + 1
        self.everywhere.whole.take(now)
        self._own.take(now)
        return True

    def most_of(self, address: str) -> int:
        return self._per_address.of(address)

    def give_back(self, address: str) -> None:
        """One that was counted has left."""
        by_address = self.everywhere.by_address
        by_address[address] -= 1
        if not by_address[address]:
            del by_address[address]
        self.everywhere.whole.count -= 1
        self._own.count -= 1
        self.everywhere.left()
