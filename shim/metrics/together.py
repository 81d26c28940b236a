"""The metrics of several processes that are one shim, as one's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from shim.metrics import families
from shim.metrics.model import Distribution, Metric, Sample, Series

_Value = float | Distribution

_LEAST: Final = frozenset({families.OLDEST, families.UPSTREAM_REACHABLE, families.ZOOKEEPER_SESSION, families.READY})
_MOST: Final = frozenset(
    {
        *(families.LAG_AGE, families.NEWEST, families.UPSTREAM_BROKERS, families.STORE_LAG, families.BUILD),
        families.REBALANCE_SECONDS,
        families.START_TIME,  # of the youngest process: its counters began then
    }
)


def together(parts: Sequence[Sequence[Series]]) -> list[Series]:
    """``parts``: of each process. Everything is the sum of all, but for what is true of each."""
    by_metric = [{series.metric: series.samples for series in part} for part in parts]
    return [
        Series(metric, _merged(_how(metric), [found.get(metric, ()) for found in by_metric])) for metric in families.ALL
    ]


def _how(metric: Metric) -> Callable[[_Value, _Value], _Value]:
    if metric in _LEAST:
        return _least
    return _most if metric in _MOST else _sum


def _merged(how: Callable[[_Value, _Value], _Value], parts: Iterable[Sequence[Sample]]) -> Sequence[Sample]:
    found: dict[tuple[str, ...], _Value] = {}
    for labels, value in (sample for part in parts for sample in part):
        found[labels] = how(found[labels], value) if labels in found else value
    return [Sample(labels, value) for labels, value in found.items()]


def _sum(one: _Value, other: _Value) -> _Value:
    if isinstance(one, Distribution) and isinstance(other, Distribution):
        counts = [a + b for a, b in zip(one.counts, other.counts, strict=True)]
        return Distribution(one.bounds, counts, one.total + other.total)
    return _number(one) + _number(other)


def _least(one: _Value, other: _Value) -> _Value:
    return min(_number(one), _number(other))


def _most(one: _Value, other: _Value) -> _Value:
    return max(_number(one), _number(other))


def _number(value: _Value) -> float:
    assert not isinstance(value, Distribution), "a metric has one kind of values"
    return value
