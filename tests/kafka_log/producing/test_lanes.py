"""What waits for one leader goes out together as far as it fits, and as it was tried as often."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shim.config import HostPort
from shim.kafka_log.producing import lanes
from shim.kafka_log.producing.calls import Batch, Call
from shim.kafka_log.producing.lanes import Lane

SECONDS = 10.0


def call_of(batches: Mapping[int, bytes]) -> list[Batch]:
    return Call(SECONDS, lambda _: {}).begin(batches)


def lane_with(*batches: Batch) -> Lane:
    lane = Lane(HostPort("10.0.0.1", 9092))
    lane.waiting += batches
    return lane


async def test_what_fits_goes_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_REQUEST_BYTES", 4)
    large, small, other, same, last = *call_of({0: b"123", 1: b"12", 2: b"1"}), *call_of({2: b"", 3: b""})
    lane = lane_with(large, small, other, same, last)
    now = large.sent_at
    assert lane.take(now) == ({0: large, 2: other, 3: last}, [])
    assert lane.take(now) == ({1: small, 2: same}, [])
    assert lane.take(now) == ({}, [])


async def test_one_that_is_too_large_goes_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_REQUEST_BYTES", 4)
    large, empty = call_of({0: b"12345", 1: b""})
    lane = lane_with(large, empty)
    assert lane.take(large.sent_at) == ({0: large}, [])
    assert lane.take(large.sent_at) == ({1: empty}, [])


async def test_what_was_tried_more_often_goes_by_itself() -> None:
    first, again, second = call_of({0: b"", 1: b"", 2: b""})
    again.attempt = 1
    lane = lane_with(first, again, second)
    assert lane.take(first.sent_at) == ({0: first, 2: second}, [])
    assert lane.take(first.sent_at) == ({1: again}, [])


async def test_what_has_no_time_left_is_not_sent_and_what_nobody_awaits_is_left_out() -> None:
    overdue, given_up = *call_of({0: b""}), *call_of({1: b""})
    given_up.call.left.clear()
    lane = lane_with(overdue, given_up)
    assert lane.take(overdue.until) == ({}, [overdue])


async def test_what_leaves_says_why_it_was_not_sent() -> None:
    left, given_up, other = *call_of({0: b""}), *call_of({1: b""}), *call_of({2: b""})
    given_up.call.left.clear()
    lane = lane_with(left, given_up)
    assert lane.leave("it hangs") == [left]
    assert left.unknown.why == "it hangs"
    lane.waiting.append(other)
    assert lane.leave() == [other]
    assert (other.unknown.why, lane.waiting) == ("not sent yet", [])
