"""The lag of groups over time: so many samples of so many groups, the oldest forgotten first."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping
from typing import Final

MOST_SAMPLES: Final = 240
MOST_SERIES: Final = 1_000

_UNKNOWN: Final = -1

Sample = tuple[int, int | None]
"""When (ms since the epoch), and the lag in records, or None where it could not be told."""


class LagSeries:
    """All series have the same times, so that a sample is eight bytes: 2 MB when it is full."""

    def __init__(self, most_series: int = MOST_SERIES, most_samples: int = MOST_SAMPLES) -> None:
        self._most_series = most_series
        self._times: deque[int] = deque(maxlen=most_samples)
        self._series: dict[str, array[int]] = {}  # the newest at the end; one that began later is shorter

    def add(self, time_ms: int, lags: Mapping[str, int | None]) -> None:
        """A sample of each of ``lags``. Of another group it is that nobody knows, and one of which nothing is known
        any more is forgotten. Where there are too many groups, the first ones are kept."""
        self._times.append(time_ms)
        for group, series in self._series.items():
            series.append(_sample(lags.get(group)))
            if len(series) > len(self._times):
                del series[0]
        self._series = {group: series for group, series in self._series.items() if any(each >= 0 for each in series)}
        for group, lag in lags.items():
            if group not in self._series and lag is not None and len(self._series) < self._most_series:
                self._series[group] = array("q", (lag,))

    def of(self, group: str) -> list[Sample]:
        """The oldest first; empty where there are none."""
        series = self._series.get(group, array("q"))
        times = list(self._times)[len(self._times) - len(series) :]
        return [(time, None if lag == _UNKNOWN else lag) for time, lag in zip(times, series, strict=True)]

    def __len__(self) -> int:
        return len(self._series)


def _sample(lag: int | None) -> int:
    return _UNKNOWN if lag is None else lag
