"""Whose groups are, for tests in which it is always the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from protocol.own.state_log import Step
from shim.migration.hands.placements import Placements, Whose
from shim.migration.stores import Stores


class _Always:
    def __init__(self, whose: Whose) -> None:
        self._whose = whose

    def of(self, group_id: str) -> Whose:
        return self._whose

    def steps_of(self, group_ids: Iterable[str]) -> dict[str, Step | None]:
        """None goes to another one."""
        return {}

    def is_served(self, group_id: str) -> bool:
        return self._whose is Whose.SERVED

    def surely_here(self, group_ids: Iterable[str]) -> bool:
        return True

    def gathering(self, group_id: str) -> Any:
        return None


class _NowhereElse:
    has_zookeeper = False


NOWHERE_ELSE: Final = cast(Stores, _NowhereElse())
"""No place keeps offsets but the log."""

EVERYTHING_SERVED: Final = cast(Placements, _Always(Whose.SERVED))
