"""StatsD lines and datagrams, without a network."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.metrics import Histogram, Kind, Metric, Sample, Series
from shim.metrics.statsd import DATAGRAM_BYTES, DIALECTS, Deltas, datagrams

COUNTER = Metric("hits", Kind.COUNTER, "", ("who",))
GAUGE = Metric("level", Kind.GAUGE, "")
SIZES = Metric("sizes", Kind.HISTOGRAM, "", ("api",))


def lines(deltas: Deltas, *series: Series) -> list[str]:
    return list(deltas.lines(series))


@pytest.mark.parametrize(
    ("dialect", "first"),
    [("statsd", "offset_shim.hits.a_b_c_:2|c"), ("dogstatsd", "offset_shim.hits:2|c|#who:a.b:c_")],
)
def test_labels(dialect: str, first: str) -> None:
    assert lines(Deltas(DIALECTS[dialect]), Series(COUNTER, [Sample(("a.b:c|",), 2)])) == [first]


def test_a_counter_that_has_not_moved_is_not_told_again() -> None:
    deltas = Deltas(DIALECTS["dogstatsd"])
    for value, told in ((3, ["offset_shim.hits:3|c|#who:a"]), (3, []), (3.5, ["offset_shim.hits:0.5|c|#who:a"])):
        assert lines(deltas, Series(COUNTER, [Sample(("a",), value)])) == told


def test_gauges() -> None:
    """With a sign it would be added to what was there."""
    deltas = Deltas(DIALECTS["statsd"])
    told = [lines(deltas, Series(GAUGE, [Sample((), value)])) for value in (7, 7, -1.5, 1e-7, 2e20)]
    assert told == [
        ["offset_shim.level:7|g"],
        ["offset_shim.level:7|g"],
        ["offset_shim.level:0|g", "offset_shim.level:-1.5|g"],
        ["offset_shim.level:0.0000001|g"],
        ["offset_shim.level:200000000000000000000|g"],
    ]


def test_a_histogram_is_counters() -> None:
    histogram, deltas = Histogram((1.0, 2.0)), Deltas(DIALECTS["dogstatsd"])
    for value, expected in (
        (2.0, ["count:1|c|#api:x", "sum:2|c|#api:x", "bucket:1|c|#api:x,le:2.0", "bucket:1|c|#api:x,le:+Inf"]),
        (2.5, ["count:1|c|#api:x", "sum:2.5|c|#api:x", "bucket:1|c|#api:x,le:+Inf"]),
    ):
        histogram.observe(value)
        told = lines(deltas, Series(SIZES, [Sample(("x",), histogram.read())]))
        assert [line.removeprefix("offset_shim.sizes.") for line in told] == expected


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e6)), max_size=5), max_size=20))
def test_what_is_told_adds_up(steps: list[list[tuple[str, float]]]) -> None:
    deltas, totals, told = Deltas(DIALECTS["dogstatsd"]), defaultdict[str, float](float), defaultdict[str, float](float)
    for step in steps:
        for who, more in step:
            totals[who] += more
        for line in lines(deltas, Series(COUNTER, [Sample((who,), value) for who, value in totals.items()])):
            value, _, tag = line.removeprefix("offset_shim.hits:").split("|")
            told[tag.removeprefix("#who:")] += float(value)
    for who, total in totals.items():
        assert told[who] == pytest.approx(total, abs=1e-6)


@given(st.lists(st.text(st.characters(exclude_characters="\n"), min_size=1, max_size=60)))
def test_datagrams_have_all_lines_and_are_no_longer_than_they_may_be(texts: list[str]) -> None:
    made = list(datagrams(texts, 100))
    assert all(0 < len(each) <= 100 for each in made)
    fitting = [encoded for text in texts if len(encoded := text.encode(errors="backslashreplace")) <= 100]
    assert [line for each in made for line in each.split(b"\n")] == fitting
    assert all(len(one) + 1 + len(after.split(b"\n")[0]) > 100 for one, after in pairwise(made))


def test_they_fit_into_a_packet() -> None:
    made = list(datagrams(f"offset_shim.level_{number}:1|g" for number in range(1000)))
    assert max(map(len, made)) <= DATAGRAM_BYTES
