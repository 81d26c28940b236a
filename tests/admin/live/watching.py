"""A shim as the admin interface sees it, which is as far as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shim.admin.live.asked.groups import Groups
from shim.admin.live.asked.overview import BrokerAt, ClientsOf, ListenerAt, Overview, VersionUsed
from shim.admin.live.asked.shim import NotReady
from shim.metrics import Series
from shim.relocation.words import CannotMove, LogPlaces, PartitionPlace, Relocates, Side
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved

OVERVIEW: Final = Overview(
    version="1.2.3",
    started_ms=1_700_000_000_000,
    cluster_id="c-1",
    reachable=True,
    brokers=[BrokerAt(1, "kafka-1", 9092, 19094)],
    listeners=[ListenerAt("PLAINTEXT", "PLAINTEXT", "127.0.0.1:19092", "127.0.0.1:19092")],
    partitions=50,
    owned=50,
    loaded=49,
    others=[],
    zookeeper=None,
    log="local",
    log_moves=False,
)

_HOST: Final = "10.0.0.4"
CLIENTS: Final = [
    ClientsOf(
        *(None, None, "old-etl", _HOST, "", 2, 7, 1_700_000_000_000, "0.8.2"),
        [VersionUsed("Produce", 0, True), VersionUsed("Metadata", 0, False)],
    ),
    ClientsOf(
        *("apache-kafka-java", "4.3.1", "billing", _HOST, "User:alice", 3, 3, 1_700_000_000_000, None),
        [VersionUsed("Fetch", 15, False)],
    ),
]


class Relocated:
    """Of a log that is being moved; see :class:`shim.relocation.words.Relocates`."""

    def __init__(self) -> None:
        self.found = LogPlaces([PartitionPlace(0, "local"), PartitionPlace(1, "moving", "of late")], Side.KAFKA, 1)

    def places(self) -> LogPlaces:
        return self.found

    async def changed(self, changes: int, seconds: float) -> LogPlaces:
        return self.found

    async def begin(self, to: Side) -> LogPlaces:
        if to is not self.found.to:
            raise CannotMove(f"partitions are being moved to {self.found.to}")
        return self.found


class Watching:
    """``migration``: None while it starts."""

    def __init__(
        self, migration: Moved | None, groups: Grouped | None = None, series: Sequence[Series] | None = ()
    ) -> None:
        self._migration = migration
        self._groups = groups or Grouped(migration or Moved())
        self.series = series
        self.relocates: Relocates | None = Relocated()
        self.lacks: list[str] = []
        self.seen: Sequence[ClientsOf] = CLIENTS
        self.whole = OVERVIEW

    @property
    def migration(self) -> Moved:
        if self._migration is None:
            raise NotReady("the shim starts: 3 of 4 partitions\nare not loaded")
        return self._migration

    @property
    def groups(self) -> Groups:
        if self._migration is None:
            raise NotReady("the shim starts")
        return self._groups

    @property
    def relocation(self) -> Relocates | None:
        if self._migration is None:
            raise NotReady("the shim starts")
        return self.relocates

    def overview(self) -> Overview:
        return self.whole

    def clients(self) -> Sequence[ClientsOf]:
        if self._migration is None:
            raise NotReady("the shim starts")
        return self.seen

    def missing(self) -> Sequence[str]:
        return self.lacks

    async def metrics(self) -> Sequence[Series]:
        if self.series is None:
            raise NotReady("the shim starts: the log is not open yet")
        return self.series
