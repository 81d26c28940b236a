"""Counts and durations in messages: one of a thing is not several of it."""

from __future__ import annotations

import pytest

from shim.counted import counted, lasting, some_of


@pytest.mark.parametrize(
    ("count", "what", "expected"),
    [
        (0, "group", "0 groups"),
        (1, "partition", "1 partition"),
        (2, "batch", "2 batches"),
        (1_234, "offset", "1,234 offsets"),
    ],
)
def test_counts(count: int, what: str, expected: str) -> None:
    assert counted(count, what) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, ""), (1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2 and 1 more"), (1_003, "0, 1, 2 and 1,000 more")],
)
def test_of_many_the_first_few(count: int, expected: str) -> None:
    assert some_of(range(count), most=3) == expected


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (-1, "0 s"),
        (999, "0 s"),
        (4_000, "4 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (2 * 86_400_000, "2 d"),
        (10**12, "11,574 d"),
    ],
)
def test_durations(ms: int, expected: str) -> None:
    assert lasting(ms) == expected
