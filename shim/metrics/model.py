"""What a metric is, and what is read of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """A counter only grows, until the process ends; a gauge is what is so now; a histogram counts by size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """``name``: without prefix and, of a counter, without ``_total``. ``labels``: their names, in the order in which a
    sample has their values. ``help``: one line."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """As Prometheus shows it; of a histogram what comes before ``_bucket``, ``_sum`` and ``_count``."""
        return f"{PREFIX}{self.name}{'_total' if self.kind is Kind.COUNTER else ''}"


PREFIX = "offset_shim_"


class Distribution(NamedTuple):
    """``counts``: of each bucket by itself, one more than there are ``bounds``: the last is of what is above them all.
    Bounds are inclusive, as Prometheus has them."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float

    @property
    def observations(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """Of each bound, as text, how many were at or below it; the last is ``+Inf``."""
        found, so_far = [], 0
        for bound, count in zip((*map(repr, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found


class Sample(NamedTuple):
    """``labels``: the values, in the order of the metric's names."""

    labels: tuple[str, ...]
    value: float | Distribution


class Series(NamedTuple):
    """All samples of one metric; there may be none."""

    metric: Metric
    samples: Sequence[Sample]
