"""Metrics as StatsD datagrams, pure. Counters go out as what was added since the last time, gauges as they are.

StatsD knows no labels: their values become parts of the name. DogStatsD has them as tags. A histogram is counters:
``.count``, ``.sum`` and ``.bucket``, which says how many were at or below its bound (``le``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from shim.metrics.model import PREFIX, Distribution, Kind, Metric, Series

DATAGRAM_BYTES: Final = 1432
"""What fits into one packet of most networks, headers included (https://github.com/statsd/statsd, metric_types.md)."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_\-+]")
_NOT_IN_TAGS: Final = re.compile(r"[,|#\n\r]")
_DIGITS: Final = 9

Labels = Sequence[tuple[str, str]]
Dialect = Callable[[str, str, str, Labels], str]
"""A line of (name, value, type, labels)."""


def _statsd(name: str, value: str, kind: str, labels: Labels) -> str:
    return f"{'.'.join((name, *(_NOT_IN_NAMES.sub('_', text) or '_' for _, text in labels)))}:{value}|{kind}"


def _dogstatsd(name: str, value: str, kind: str, labels: Labels) -> str:
    tags = ",".join(f"{label}:{_NOT_IN_TAGS.sub('_', text)}" for label, text in labels)
    return f"{name}:{value}|{kind}|#{tags}" if tags else f"{name}:{value}|{kind}"


DIALECTS: Final[Mapping[str, Dialect]] = {"statsd": _statsd, "dogstatsd": _dogstatsd}


class Deltas:
    """Remembers what was told of each counter."""

    def __init__(self, dialect: Dialect) -> None:
        self._line = dialect
        self._told: dict[tuple[str, Labels], float] = {}

    def lines(self, series: Iterable[Series]) -> Iterator[str]:
        """What there is to tell now; of a counter that has not moved nothing."""
        for metric, samples in series:
            name = PREFIX.removesuffix("_") + "." + metric.name
            for values, value in samples:
                labels = tuple(zip(metric.labels, values, strict=True))
                if isinstance(value, Distribution):
                    yield from self._distribution(name, labels, value)
                elif metric.kind is Kind.COUNTER:
                    yield from self._counter(name, labels, value)
                else:
                    yield from self._gauge(metric, name, labels, value)

    def _distribution(self, name: str, labels: Labels, value: Distribution) -> Iterator[str]:
        yield from self._counter(f"{name}.count", labels, value.observations)
        yield from self._counter(f"{name}.sum", labels, value.total)
        for bound, count in value.cumulative():
            yield from self._counter(f"{name}.bucket", (*labels, ("le", bound)), count)

    def _counter(self, name: str, labels: Labels, value: float) -> Iterator[str]:
        told = self._told.get((name, labels), 0)
        added = round(value - told, _DIGITS)
        if added:
            self._told[name, labels] = told + added  # what was rounded off is told with what comes
            yield self._line(name, _number(added), "c", labels)

    def _gauge(self, metric: Metric, name: str, labels: Labels, value: float) -> Iterator[str]:
        if value < 0:  # with a sign it would be an addition to what it was
            yield self._line(name, "0", "g", labels)
        yield self._line(name, _number(value), "g", labels)


def _number(value: float) -> str:
    """Without an exponent, which StatsD does not read."""
    if float(value).is_integer():
        return str(int(value))
    return f"{value:.{_DIGITS}f}".rstrip("0")


def datagrams(lines: Iterable[str], most_bytes: int = DATAGRAM_BYTES) -> Iterator[bytes]:
    """As many lines in each as it may have bytes; a line that is longer than that is left out: a group and a topic may
    have names of any length, and half a name is another's."""
    gathered: list[bytes] = []
    size = -1
    for line in lines:
        encoded = line.encode(errors="backslashreplace")
        if len(encoded) > most_bytes:
            continue
        if size + 1 + len(encoded) > most_bytes:
            yield b"\n".join(gathered)
            gathered, size = [], -1
        gathered.append(encoded)
        size += 1 + len(encoded)
    if gathered:
        yield b"\n".join(gathered)
