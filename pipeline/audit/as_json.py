"""Rows of the tables as JSON shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def row(of: Mapping[str, Any]) -> dict[str, Any]:
    """Times as ISO 8601, in UTC and milliseconds."""
    return {name: _time(value) if isinstance(value, datetime) else value for name, value in of.items()}


def _time(value: datetime) -> str:
    """PySpark gives them in this machine's zone, without saying so."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
