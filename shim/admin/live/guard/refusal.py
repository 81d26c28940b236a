"""What whoever is turned away is told."""

from __future__ import annotations

from typing import NamedTuple


class TurnedAway(NamedTuple):
    """``status``: of HTTP; ``reason``: one line."""

    status: int
    reason: str
