"""Metrics as Prometheus reads them: its text format 0.0.4, or OpenMetrics where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from shim.metrics import Distribution, Kind, Series

OPENMETRICS: Final = "application/openmetrics-text"


class Exposed(NamedTuple):
    """``content_type``: the whole header."""

    content_type: str
    body: bytes


class _Given(Collector):
    def __init__(self, series: Iterable[Series]) -> None:
        self._series = series

    def collect(self) -> Iterator[Metric]:
        return map(_family, self._series)


def exposed(series: Sequence[Series], accept: str = "") -> Exposed:
    """For any thread: of thousands of samples it is some tens of milliseconds' work. ``accept``: the header."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(series))
    if OPENMETRICS in accept:
        return Exposed(openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest(registry))  # type: ignore[no-untyped-call]
    return Exposed(CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry))


def _family(series: Series) -> Metric:
    metric, samples = series
    name, labels = metric.full_name, metric.labels
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, metric.help, labels=labels)
        for values, value in samples:
            assert isinstance(value, Distribution), "histograms have nothing else"
            histogram.add_metric(_sound(values), value.cumulative(), sum_value=value.total)
        return histogram
    made = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = made(name, metric.help, labels=labels)
    for values, value in samples:
        assert not isinstance(value, Distribution), "of histograms alone"
        family.add_metric(_sound(values), value)
    return family


def _sound(values: Iterable[str]) -> list[str]:
    """A group may have half of a pair of surrogates in its name, which is no text to anybody else."""
    return [value.encode(errors="backslashreplace").decode() for value in values]
