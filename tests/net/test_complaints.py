"""Lines that clients cause: one is written, the others are counted, and memory is bounded."""

from __future__ import annotations

import logging

import pytest

from shim.config import HostPort
from shim.net.complaints import ADDRESSES, REASONS, WINDOW_SECONDS, Complaints

log = logging.getLogger(__name__)


class Told:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self._caplog = caplog
        self.complaints = Complaints(log, lambda: self.now)

    def lines(self, host: str, *reasons: str) -> list[str]:
        self._caplog.clear()
        for port, reason in enumerate(reasons, start=1):
            self.complaints.closed(HostPort(host, port), reason)
        return list(self._caplog.messages)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_a_reason_has_one_line_a_minute_and_then_the_count(told: Told) -> None:
    assert told.lines("10.0.0.1", *["a TLS hello"] * 1000) == ["client 10.0.0.1:1: connection closed: a TLS hello"]
    told.now = WINDOW_SECONDS - 1
    assert told.lines("10.0.0.1", "a TLS hello") == []
    told.now = WINDOW_SECONDS
    assert told.lines("10.0.0.1", "a TLS hello", "a TLS hello") == [
        "client 10.0.0.1:1: connection closed: a TLS hello (1000 more of these from there since the last line)"
    ]
    told.now = 2 * WINDOW_SECONDS
    assert told.lines("10.0.0.1", "a TLS hello")[0].endswith("(1 more of these from there since the last line)")
    told.now = 3 * WINDOW_SECONDS
    assert told.lines("10.0.0.1", "a TLS hello") == ["client 10.0.0.1:1: connection closed: a TLS hello"]


def test_a_count_is_of_one_reason(told: Told) -> None:
    assert len(told.lines("10.0.0.1", "a", "a", "a", "b")) == 2
    told.now = WINDOW_SECONDS
    (b, a) = told.lines("10.0.0.1", "b", "a")
    assert b.endswith(": b")
    assert a.endswith(": a (2 more of these from there since the last line)")


def test_another_reason_and_another_address_have_their_own(told: Told) -> None:
    assert len(told.lines("10.0.0.1", "a", "b", "a")) == 2
    assert len(told.lines("10.0.0.2", "a")) == 1


def test_reasons_that_are_always_new_are_few_lines(told: Told) -> None:
    assert len(told.lines("10.0.0.1", *(f"a request of {size} bytes" for size in range(1000)))) == REASONS


def test_addresses_that_are_always_new_are_few_lines_and_little_memory(told: Told) -> None:
    lines = [line for i in range(10 * ADDRESSES) for line in told.lines(f"10.0.{i >> 8}.{i & 255}", "a TLS hello")]
    assert len(lines) == ADDRESSES + 1
    assert len(told.complaints._windows) <= ADDRESSES + 1
    told.now = WINDOW_SECONDS
    assert len(told.lines("10.1.0.1", "a TLS hello")) == 1
    assert len(told.complaints._windows) <= 2
