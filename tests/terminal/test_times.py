"""Moments as options, of `offset-shim` and of `offset-pipeline` alike."""

from __future__ import annotations

import click
import pytest

from shim.terminal.times import parse_time


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1767225600000", 1_767_225_600_000),
        ("253402300799999", 253_402_300_799_999),
        ("2026-01-01", 1_767_225_600_000),
        ("2026-01-01T00:00:00.001Z", 1_767_225_600_001),
        ("2026-01-01T01:00+01:00", 1_767_225_600_000),
        ("1969-12-31T23:59:59", -1_000),
    ],
)
def test_moments(text: str, ms: int) -> None:
    assert parse_time(text) == ms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1767225600", "is it seconds, or a date?"),
        ("20260301", "is it seconds, or a date?"),
        ("-1", "is it seconds, or a date?"),
        ("1767225600000000", "or nanoseconds?"),
        ("9" * 5_000, "or nanoseconds?"),
        ("1_767_225_600_000", "neither in ISO 8601"),
        (" 1767225600000", "neither in ISO 8601"),
        ("\u0661767225600000", "neither in ISO 8601"),
        ("yesterday", "neither in ISO 8601"),
        ("", "neither in ISO 8601"),
    ],
)
def test_what_is_none(text: str, why: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        parse_time(text)
    line = refused.value.message
    assert why in line
    assert "\n" not in line
    assert len(line) < 250
