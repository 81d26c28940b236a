"""What is said of two places' offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.audit.verdicts import JUDGED, NOT_KNOWN, Judged, Offsets, Rules, compare, judge, lag, why_left_out
from pipeline.audit.words import LOG, PLACES, UPSTREAM, ZOOKEEPER, Verdict

E, B, A, M, O, V, U = Verdict  # noqa: E741  # a column each, below
ALL = Rules(PLACES)
OFFSETS = st.none() | st.integers(0, 2**63 - 1)
SMALL = st.none() | st.integers(0, 4)
THREE = st.builds(Offsets, SMALL, SMALL, SMALL)
STEPS = st.sampled_from([*JUDGED, "a later one"])

OPPOSITE = {E: E, B: A, A: B, M: O, O: M, None: None}


@pytest.mark.parametrize(
    ("place", "other", "verdict"),
    [(5, 5, E), (0, 0, E), (4, 5, B), (6, 5, A), (None, 0, M), (0, None, O), (None, None, None)],
)
def test_one_offset_held_against_another(place: int | None, other: int | None, verdict: Verdict | None) -> None:
    assert compare(place, other) is verdict


@given(OFFSETS, OFFSETS)
def test_the_other_way_round_it_is_the_opposite(some: int | None, other: int | None) -> None:
    assert compare(other, some) == OPPOSITE[compare(some, other)]


@pytest.mark.parametrize(
    ("step", "zookeeper_log", "upstream_log", "zookeeper_upstream"),
    [
        ("zookeeper", B, A, None),
        ("zookeeper+dual", B, A, None),
        ("kafka+dual", B, A, None),
        ("kafka", None, A, None),
        ("upstream+dual", None, A, None),
        ("upstream", None, A, None),
        (NOT_KNOWN, None, None, B),
        (None, B, A, None),
        ("a later one", B, A, None),
    ],
)
def test_a_place_that_the_step_does_not_keep_is_not_judged(
    step: str | None, zookeeper_log: Verdict | None, upstream_log: Verdict | None, zookeeper_upstream: Verdict | None
) -> None:
    assert judge(ALL, step, Offsets(4, 5, 6)) == Judged(zookeeper_log, upstream_log, zookeeper_upstream)


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        (Offsets(7, None, None), Judged(O, None, None)),
        (Offsets(None, None, 7), Judged(None, O, None)),
        (Offsets(7, None, 7), Judged(O, O, E)),
        (Offsets(7, None, 8), Judged(O, O, B)),
        (Offsets(None, 7, None), Judged(M, M, None)),
        (Offsets(None, None, None), Judged(None, None, None)),
    ],
)
def test_where_the_steps_are_not_known_what_is_not_in_the_log_is_compared_without_it(
    offsets: Offsets, expected: Judged
) -> None:
    assert judge(ALL, None, offsets) == expected


@pytest.mark.parametrize("offsets", [Offsets(7, None, None), Offsets(None, 7, 7)])
def test_a_group_that_the_shim_does_not_serve_need_not_be_in_both(offsets: Offsets) -> None:
    assert judge(ALL, NOT_KNOWN, offsets) == Judged(None, None, None)


@pytest.mark.parametrize(
    ("before", "now", "upstream_log"),
    [
        (Offsets(None, 6, 5), Offsets(None, 6, 6), E),  # it has followed
        (Offsets(None, 6, 5), Offsets(None, 6, 5), B),  # it stands
        (Offsets(None, 6, 5), Offsets(None, 9, 7), V),  # it follows
        (Offsets(None, 6, 5), Offsets(None, 9, 5), B),  # the log moves, and nothing follows
        (Offsets(None, 6, 1), Offsets(None, 9, 3), B),  # it follows, too far behind to have met it
        (Offsets(None, 5, 5), Offsets(None, 9, 5), V),  # they were alike, and the log has moved since
        (Offsets(None, 9, 9), Offsets(None, 2, 9), V),  # a rewind that is on its way
        (Offsets(None, None, None), Offsets(None, 2, None), V),  # new
        (Offsets(None, 2, None), Offsets(None, 2, None), M),
        (Offsets(None, 9, 2), Offsets(None, 9, 3), B),
        (Offsets(None, 2, 9), Offsets(None, 3, 9), A),
    ],
)
def test_what_moves_between_two_looks_is_a_difference_only_where_it_cannot_have_met(
    before: Offsets, now: Offsets, upstream_log: Verdict
) -> None:
    assert judge(ALL, "kafka", now, before).upstream_log is upstream_log


@given(STEPS, THREE)
def test_what_has_not_moved_is_judged_as_at_the_first_look(step: str | None, offsets: Offsets) -> None:
    assert judge(ALL, step, offsets, offsets) == judge(ALL, step, offsets)


@given(STEPS, THREE, THREE)
def test_a_second_look_makes_no_difference_out_of_what_is_alike(
    step: str | None, before: Offsets, now: Offsets
) -> None:
    for first, second in zip(judge(ALL, step, now), judge(ALL, step, now, before), strict=True):
        assert second in (first, V)
        assert (second is E) == (first is E)


@given(STEPS, THREE)
def test_a_place_that_was_not_read_has_no_verdict(step: str | None, offsets: Offsets) -> None:
    found = judge(Rules(["log", "upstream"]), step, offsets)
    assert (found.zookeeper_log, found.zookeeper_upstream) == (None, None)
    assert found.upstream_log == judge(ALL, step, offsets).upstream_log


@pytest.mark.parametrize(
    ("step", "upstream_log"),
    [("kafka", None), ("kafka+dual", None), ("zookeeper", None), (None, None), ("upstream+dual", A), ("upstream", A)],
)
def test_without_the_mirror_the_cluster_has_only_what_the_step_says(
    step: str | None, upstream_log: Verdict | None
) -> None:
    assert judge(Rules(PLACES, mirror=False), step, Offsets(4, 5, 6)).upstream_log is upstream_log


def test_what_could_not_be_read_is_neither_equal_nor_missing() -> None:
    assert judge(ALL, "kafka+dual", Offsets(None, 5, 5), unreadable=[ZOOKEEPER]) == Judged(U, E, None)
    assert judge(ALL, "kafka", Offsets(5, 5, None), unreadable=[UPSTREAM]) == Judged(None, U, None)


@pytest.mark.parametrize(
    ("offsets", "log_end", "expected"),
    [
        (Offsets(1, 2, 3), 10, 8),
        (Offsets(1, None, 3), 10, 7),
        (Offsets(1, None, None), 10, 9),
        (Offsets(None, 12, None), 10, -2),
        (Offsets(1, 2, 3), None, None),
        (Offsets(None, None, None), 10, None),
    ],
)
def test_lag(offsets: Offsets, log_end: int | None, expected: int | None) -> None:
    assert lag(offsets, log_end) == expected


@pytest.mark.parametrize(
    ("rules", "step", "places", "why"),
    [
        (ALL, "kafka", [], "no place has an offset of it"),
        (ALL, "kafka", [ZOOKEEPER], "only zookeeper has it, which is not compared at step kafka"),
        (ALL, NOT_KNOWN, [UPSTREAM], "only the cluster has it, and the shim does not know the group"),
        (ALL, NOT_KNOWN, [LOG, UPSTREAM], "only the cluster has it, and the shim does not know the group"),
        (
            Rules([LOG, UPSTREAM], mirror=False),
            None,
            [UPSTREAM, LOG],
            "only log and upstream have it, which is not compared with --no-mirror",
        ),
    ],
)
def test_why_it_is_left_out(rules: Rules, step: str | None, places: list[str], why: str) -> None:
    committed = Offsets(*(5 if place in places else None for place in PLACES))
    assert judge(rules, step, committed) == Judged(None, None, None)
    assert why_left_out(rules, step, places) == why


@given(st.builds(Rules, st.just(PLACES), st.booleans()), STEPS, THREE)
def test_what_is_left_out_has_its_reason_for_it(rules: Rules, step: str | None, committed: Offsets) -> None:
    """No reason names a step that nobody has asked for."""
    if judge(rules, step, committed) == Judged(None, None, None):
        why = why_left_out(rules, step, [place for place in PLACES if committed.of(place) is not None])
        assert "step None" not in why
