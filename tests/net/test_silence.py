from __future__ import annotations

from shim.net.silence import LOOKS, Silence, pause_seconds


def test_a_connection_is_idle_from_the_look_on_that_saw_its_last_byte() -> None:
    silence = Silence(0.0)
    assert silence.idle_seconds(5.0, active=True, unsent=0) == 0
    assert silence.idle_seconds(7.0, active=False, unsent=0) == 2
    assert silence.idle_seconds(8.0, active=True, unsent=0) == 0
    assert silence.idle_seconds(9.0, active=False, unsent=0) == 1


def test_a_client_that_reads_slowly_is_not_idle_and_one_that_does_not_is() -> None:
    silence = Silence(0.0)
    assert silence.idle_seconds(1.0, active=False, unsent=500) == 0
    assert silence.idle_seconds(2.0, active=False, unsent=499) == 0
    assert silence.idle_seconds(5.0, active=False, unsent=499) == 3


def test_a_request_is_late_only_if_it_is_the_same_one() -> None:
    silence, one, other = Silence(0.0), object(), object()
    assert silence.unfinished_seconds(1.0, one) == 0
    assert silence.unfinished_seconds(4.0, one) == 3
    assert silence.unfinished_seconds(5.0, other) == 0
    assert silence.unfinished_seconds(6.0, None) == 0
    assert silence.unfinished_seconds(9.0, None) == 0
    assert silence.unfinished_seconds(10.0, other) == 0
    assert silence.unfinished_seconds(12.0, other) == 2


def test_looks_are_as_frequent_as_the_shorter_time_needs() -> None:
    assert pause_seconds(600.0, 30.0) * LOOKS == 30.0
    assert pause_seconds(2.0, 30.0) * LOOKS == 2.0
