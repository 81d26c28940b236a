"""The metrics of several processes as one's."""

from __future__ import annotations

from shim.metrics import Distribution, Metric, Sample, Series, families
from shim.metrics.together import together


def one(metric: Metric, *samples: Sample) -> list[Series]:
    return [Series(each, samples if each is metric else ()) for each in families.ALL]


def samples(found: list[Series], metric: Metric) -> list[Sample]:
    return [sample for series in found for sample in series.samples if series.metric is metric]


def test_counts_are_added_by_their_labels() -> None:
    found = together(
        [
            one(families.CLIENT_BYTES, Sample(("in",), 3.0)),
            one(families.CLIENT_BYTES, Sample(("in",), 4.0), Sample(("out",), 1.0)),
        ]
    )
    assert samples(found, families.CLIENT_BYTES) == [Sample(("in",), 7.0), Sample(("out",), 1.0)]
    assert [series.metric for series in found] == list(families.ALL)


def test_distributions_are_added_bucket_by_bucket() -> None:
    bounds = (1.0, 2.0)
    found = together(
        [
            one(families.FLUSH_SECONDS, Sample((), Distribution(bounds, [1, 0, 2], 7.5))),
            one(families.FLUSH_SECONDS, Sample((), Distribution(bounds, [0, 5, 1], 9.0))),
        ]
    )
    assert samples(found, families.FLUSH_SECONDS) == [Sample((), Distribution(bounds, [1, 5, 3], 16.5))]


def test_what_is_true_of_all_is_as_of_the_one_that_is_worst_off() -> None:
    for metric, told in (
        (families.READY, 0.0),
        (families.UPSTREAM_REACHABLE, 0.0),
        (families.STORE_LAG, 1.0),
        (families.BUILD, 1.0),
        (families.UPSTREAM_BROKERS, 1.0),
    ):
        found = together([one(metric, Sample((), 1.0)), one(metric, Sample((), 0.0))])
        assert samples(found, metric) == [Sample((), told)], metric.name
