"""How far the shim has come, and what it lacks, for whoever asks at the admin port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from protocol.errors import ErrorCode
from shim.admin.live.asked.overview import ClientsOf, Overview
from shim.admin.live.asked.shim import NotReady
from shim.counted import counted
from shim.groups.groups import Groups
from shim.metrics import Series
from shim.migration.migration import Migration
from shim.relocation.relocation import Relocation
from shim.runtime import Runtime
from shim.runtime.unserved import how_many, unserved
from shim.serve.clients import clients_of
from shim.serve.measuring import Measuring
from shim.serve.overview import Whole
from shim.upstream import Cluster

_NOT_OPEN: Final = "the log is not open yet"
_NOT_OVER: Final = "the start is not over yet"
_HELD_BACK: Final = "loaded, and not served before the start is over"


class Health:
    """See :class:`shim.admin.live.asked.shim.Shim`. Told by whoever starts the shim. For the event loop."""

    def __init__(self) -> None:
        self._parts: tuple[Runtime, Cluster] | None = None
        self._measuring: Measuring | None = None
        self._whole: Whole | None = None
        self._started: tuple[Migration, Groups, Relocation | None] | None = None

    def opened(self, runtime: Runtime, cluster: Cluster, whole: Whole, measuring: Measuring) -> None:
        """The log is open; nothing need be loaded."""
        self._parts = runtime, cluster
        self._whole = whole
        self._measuring = measuring

    def started(self, migration: Migration, groups: Groups, relocation: Relocation | None) -> None:
        """All is there."""
        self._started = migration, groups, relocation

    @property
    def migration(self) -> Migration:
        return self._all()[0]

    @property
    def groups(self) -> Groups:
        return self._all()[1]

    @property
    def relocation(self) -> Relocation | None:
        return self._all()[2]

    def _all(self) -> tuple[Migration, Groups, Relocation | None]:
        if self._started is None:
            raise NotReady(f"the shim starts: {self._waited_for()}")
        return self._started

    def _waited_for(self) -> str:
        """For who may look at groups: addresses of brokers are nothing for everybody who asks what is missing."""
        trouble = "" if self._parts is None else self._parts[1].trouble
        return f"no broker of the cluster can be reached: {trouble}" if trouble else "; ".join(self.missing())

    def overview(self) -> Overview:
        if self._whole is None:
            raise NotReady(f"the shim starts: {_NOT_OPEN}")
        return self._whole.overview()

    def clients(self) -> Sequence[ClientsOf]:
        if self._measuring is None:
            raise NotReady(f"the shim starts: {_NOT_OPEN}")
        return clients_of(self._measuring.clients)

    async def metrics(self) -> Sequence[Series]:
        if self._measuring is None:
            raise NotReady(f"the shim starts: {_NOT_OPEN}")
        return await self._measuring.look(ready=not self.missing())

    def missing(self) -> list[str]:
        if self._parts is None:
            return [_NOT_OPEN]
        runtime, cluster = self._parts
        lines = []
        if not cluster.reachable:  # first, as a start waits for them
            lines.append("no broker of the cluster can be reached" + ("" if cluster.looked_up else " yet"))
        lines += unserved(runtime.unavailable - self._moved_now(runtime), runtime.num_partitions)
        if runtime.held_back:
            lines.append(how_many(runtime.held_back, runtime.num_partitions, _HELD_BACK))
        if runtime.owned is None:
            lines.append("it is not known yet which partitions are this shim's")
        if runtime.failing:
            lines.append(f"the last write of {counted(runtime.failing, 'partition')} failed")
        if runtime.disk_hangs:
            lines.append("writes to the log do not come back, from its disk or the brokers that lead its topics")
        if self._started is None:
            lines.append(_NOT_OVER)
        return lines

    def _moved_now(self, runtime: Runtime) -> Counter[ErrorCode]:
        """A partition that is being moved to the log's other place comes back by itself, and whoever asks for another
        one is served: no reason to send nobody here."""
        relocation = None if self._started is None else self._started[2]
        if relocation is None or (number := relocation.under_way) is None:
            return Counter()
        return Counter({runtime.why_not(number): 1})
