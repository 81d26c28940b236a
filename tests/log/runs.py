"""Pairs of keys and values as the log takes what is to wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from protocol.records.record_runs import run_of
from shim.log import MayWait

Pairs = Iterable[tuple[bytes, bytes | None]]


def may_wait(topic: str, timestamp_ms: int, records: Mapping[int, Sequence[Pairs]]) -> MayWait:
    """Each sequence of pairs by itself, as that of one decision is."""
    runs = [(number, [run_of(*pair) for pair in pairs]) for number, its in records.items() for pairs in its]
    return MayWait(topic, timestamp_ms, runs)
