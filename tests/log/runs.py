"""Pairs of keys and values as the log takes what is to wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from protocol.records.record_runs import run_of
from shim.log import MayWait, RecordsToWait

Pairs = Iterable[tuple[bytes, bytes | None]]


def may_wait(topic: str, timestamp_ms: int, records: Mapping[int, Iterable[Pairs]]) -> MayWait:
    pairs = [(number, pair) for number, sets in records.items() for its in sets for pair in its]
    runs = [run_of(*pair) for _, pair in pairs]
    return MayWait(topic, timestamp_ms, RecordsToWait([number for number, _ in pairs], runs))
