"""A shim as the admin interface sees it, which is as far as the test says."""

from __future__ import annotations

from collections.abc import Sequence

from shim.admin.live.grouping import Groups
from shim.admin.live.watching import NotReady
from shim.metrics import Series
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved


class Watching:
    """``migration``: None while it starts."""

    def __init__(
        self, migration: Moved | None, groups: Grouped | None = None, series: Sequence[Series] | None = ()
    ) -> None:
        self._migration = migration
        self._groups = groups or Grouped(migration or Moved())
        self.series = series
        self.lacks: list[str] = []

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

    def missing(self) -> Sequence[str]:
        return self.lacks

    async def metrics(self) -> Sequence[Series]:
        if self.series is None:
            raise NotReady("the shim starts: the log is not open yet")
        return self.series
