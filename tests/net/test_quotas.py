"""Kafka's quotas on connections, with a clock of the test's."""

from __future__ import annotations

import math
import random

from shim.config import INT32_MAX, Settings
from shim.net.quotas import ConnectionQuotas, ListenerQuotas, PerAddress, most_connections

ANY = PerAddress(INT32_MAX, {})


def test_who_would_be_one_too_many_waits_until_another_has_left() -> None:
    everywhere = ConnectionQuotas(Settings(max_connections=2))
    quotas = everywhere.listener(Settings(max_connections=2), ANY)
    told: list[str] = []
    for address in ("a", "b"):
        assert quotas.wait_seconds(0.0) == 0
        assert quotas.take(address, 0.0)
    assert quotas.wait_seconds(1e9) == math.inf
    everywhere.when_one_has_left(lambda: told.append("first"))
    everywhere.when_one_has_left(lambda: told.append("second"))
    quotas.give_back("a")
    assert told == ["first", "second"]
    assert quotas.wait_seconds(0.0) == 0
    quotas.give_back("b")
    assert told == ["first", "second"], "each is told once"
    assert everywhere.by_address == {}


def test_a_listener_is_full_by_itself_and_with_all_others_together() -> None:
    everywhere = ConnectionQuotas(Settings(max_connections=3))
    one = everywhere.listener(Settings(max_connections=1), ANY)
    two = everywhere.listener(Settings(max_connections=3), ANY)
    assert one.take("a", 0.0)
    assert (one.wait_seconds(0.0), two.wait_seconds(0.0)) == (math.inf, 0)
    assert two.take("a", 0.0)
    assert two.take("a", 0.0)
    one.give_back("a")
    assert one.wait_seconds(0.0) == 0
    assert one.take("b", 0.0)
    assert two.wait_seconds(0.0) == math.inf


def test_what_the_process_has_room_for_is_a_limit_too() -> None:
    quotas = ConnectionQuotas(Settings(), most=1).listener(Settings(), ANY)
    assert quotas.take("a", 0.0)
    assert quotas.wait_seconds(0.0) == math.inf


def test_an_address_has_its_own_maximum_on_all_listeners_together() -> None:
    everywhere = ConnectionQuotas(Settings())
    of = PerAddress(1, {"127.0.0.5": 2, "127.0.0.6": 0})
    one, two = everywhere.listener(Settings(), of), everywhere.listener(Settings(), of)
    assert [one.take("127.0.0.1", 0.0), two.take("127.0.0.1", 0.0)] == [True, False]
    assert [one.take("127.0.0.5", 0.0), two.take("127.0.0.5", 0.0), one.take("127.0.0.5", 0.0)] == [True, True, False]
    assert not one.take("127.0.0.6", 0.0)
    assert everywhere.whole.count == 3
    two.give_back("127.0.0.5")
    assert one.take("127.0.0.5", 0.0)


def test_so_many_in_a_second_and_then_one_at_a_time() -> None:
    quotas = ConnectionQuotas(Settings()).listener(Settings(max_connection_creation_rate=4), ANY)
    now = 100.0
    for _ in range(4):
        assert quotas.wait_seconds(now) == 0
        assert quotas.take("a", now)
    assert quotas.wait_seconds(now) == 0.25
    assert quotas.wait_seconds(now + 0.25) == 0
    assert quotas.take("a", now + 0.25)
    assert quotas.wait_seconds(now + 0.25) == 0.25
    for _ in range(4):  # silence saves up no more than a second's
        assert quotas.take("a", now + 60)
    assert quotas.wait_seconds(now + 60) == 0.25


def test_over_any_ten_seconds_no_more_come_than_the_rate_allows() -> None:
    rng = random.Random(4)
    quotas: ListenerQuotas = ConnectionQuotas(Settings(max_connection_creation_rate=7)).listener(Settings(), ANY)
    now, taken = 0.0, []
    while now < 60:
        if quotas.wait_seconds(now) == 0:
            quotas.take("a", now)
            taken.append(now)
        now += rng.expovariate(30)
    for begin in range(50):
        assert 60 < sum(begin <= at < begin + 10 for at in taken) <= 7 * 10 + 7


def test_room_for_connections_is_what_the_logs_files_leave() -> None:
    assert most_connections(math.inf, 100) == INT32_MAX
    assert most_connections(1024, 100) == (1024 - 100 - 256) // 2
    assert most_connections(300, 100) == 1


def test_other_limits_hold_for_those_to_come_and_whoever_waits_is_told() -> None:
    everywhere = ConnectionQuotas(Settings(max_connections=1), most=3)
    quotas = everywhere.listener(Settings(), PerAddress(1, {"b": 2}))
    told: list[str] = []
    assert quotas.take("a", 0.0)
    assert quotas.wait_seconds(0.0) == math.inf
    everywhere.when_one_has_left(lambda: told.append("now"))
    everywhere.take_settings(Settings(max_connections=9))
    assert told == ["now"]
    assert quotas.wait_seconds(0.0) == 0
    assert not quotas.take("a", 0.0)
    quotas.take_settings(Settings(max_connections_per_ip=2, max_connection_creation_rate=1))
    assert quotas.take("a", 0.0)
    assert quotas.wait_seconds(0.0) == 1.0
    assert quotas.take("b", 9.0)
    assert quotas.wait_seconds(1e9) == math.inf, "the process has room for three"
