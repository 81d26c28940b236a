"""Whoever tells what he knows within his lease tells the newest, whoever takes over, dies and comes again."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from shim.kafka_log.lease import LONGEST_SECONDS, Claim, Lease, waiting_seconds

EVENTS = 800


class Written(NamedTuple):
    """``claim``: whose, by what process, how long its lease is, and whether it is given up; None of an offset."""

    at: float
    value: int
    claim: tuple[int, float, bool] | None = None


class UnderWay(NamedTuple):
    """A write: when it was sent, whether it was in the log at once (or when it is acknowledged), and what waits for it:
    when it was decided, and the newest value that it knew, and that there was."""

    sent_at: float
    is_written: bool
    decided: list[tuple[float, int, int]]


class Log:
    """One partition: what is appended is acknowledged at once. The brokers' clock is the world's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[Written] = []

    @property
    def newest(self) -> int:
        return max((each.value for each in self.written), default=0)

    def append(self, value: int, claim: tuple[int, float, bool] | None = None) -> None:
        self.written.append(Written(self.now, value, claim))


class Process:
    """One incarnation after the other; a clock that is up to 2 % wrong."""

    def __init__(self, number: int, log: Log, rng: random.Random) -> None:
        self._log = log
        self._rng = rng
        self._rate = rng.uniform(0.98, 1.02)
        self._number = number
        self._lives = 0
        self.begin()

    def begin(self) -> None:
        self._lives += 1
        self._incarnation = self._number * 1000 + self._lives
        self._seconds = self._rng.choice([0.0, 0.5, 3.0, LONGEST_SECONDS])
        self._lease = Lease(self._seconds)
        self._fence: int | None = None
        self._serves_at: float | None = None
        self._served = False
        self._value = 0
        self._under_way: UnderWay | None = None

    @property
    def _clock(self) -> float:
        return self._log.now * self._rate

    def take_over(self) -> None:
        resumed, self._served = self._served, False
        former = [
            Claim(seconds, released, incarnation == self._incarnation)
            for each in self._log.written
            if each.claim is not None
            for incarnation, seconds, released in [each.claim]
        ]
        self._value, self._under_way = self._log.newest, None
        self._log.append(0, (self._incarnation, self._seconds, False))
        self._fence = len(self._log.written)
        self._lease = Lease(self._seconds)
        self._lease.acknowledged(self._clock)
        self._serves_at = self._clock + waiting_seconds(former, served_last_claim=resumed)

    def _wait_for(self, write: UnderWay) -> None:
        """Something is decided meanwhile, or it is acknowledged, and what waits for it is told; or refused."""
        if self._rng.random() < 0.6:
            write.decided.append((self._clock, self._value, self._log.newest))
            return
        self._under_way = None
        if not write.is_written:
            if self.is_fenced:
                self._serves_at = self._fence = None
                return
            self._log.append(self._value)
        self._lease.acknowledged(write.sent_at)
        for decided_at, value, newest in write.decided:
            if self._lease.will_hold(decided_at, write.sent_at):
                assert value >= newest, "something old was told"

    @property
    def is_fenced(self) -> bool:
        own = self._fence
        return own is None or any(each.claim and each.claim[0] != self._incarnation for each in self._log.written[own:])

    def serve(self) -> None:
        if self._serves_at is None or self._clock < self._serves_at:
            return
        if self._under_way is not None:
            self._wait_for(self._under_way)
            return
        self._served = True
        if self._lease.holds(self._clock):
            assert self._value == self._log.newest, "something old was told"
        if self.is_fenced:
            if self._rng.random() < 0.2:  # its next write tells it
                self._serves_at = self._fence = None
            return
        kind = self._rng.random()
        if kind < 0.3:
            self._value += 1
            self._under_way = UnderWay(self._clock, self._rng.random() < 0.5, [])
            if self._under_way.is_written:
                self._log.append(self._value)
        elif kind < 0.6:
            self._value += 1
            self._log.append(self._value)
            self._lease.acknowledged(self._clock - self._rng.choice([0.0, 0.2]))
        elif kind < 0.65:
            self._log.append(0, (self._incarnation, self._seconds, True))
            self._serves_at, self._served, self._lease = None, False, Lease(self._seconds)


@pytest.mark.parametrize("seed", range(200))
def test_nothing_old_is_told(seed: int) -> None:
    rng = random.Random(seed)
    log = Log()
    processes = [Process(number, log, rng) for number in range(3)]
    for _ in range(EVENTS):
        log.now += rng.choice([0.01, 0.1, 0.7, 2.0, 2.0, rng.choice([5.0, 70.0])])
        one = rng.choice(processes)
        kind = rng.random()
        if kind < 0.08:
            one.take_over()
        elif kind < 0.1:
            one.begin()
        else:
            one.serve()
    assert log.newest > 0


def test_those_that_died_in_between_are_waited_for() -> None:
    claims = [Claim(5.0, False), Claim(1.0, False)]
    assert waiting_seconds(claims, served_last_claim=False) == pytest.approx(5.25)


def test_who_has_released_is_not_waited_for() -> None:
    assert waiting_seconds([Claim(5.0, False), Claim(5.0, True)], served_last_claim=False) == 0
    assert waiting_seconds([], served_last_claim=False) == 0


def test_only_who_has_served_goes_on_at_once() -> None:
    claims = [Claim(5.0, False), Claim(1.0, False, is_own=True)]
    assert waiting_seconds(claims, served_last_claim=True) == 0
    assert waiting_seconds(claims, served_last_claim=False) == pytest.approx(5.25)


def test_a_lease_begins_when_what_was_acknowledged_was_sent() -> None:
    lease = Lease(1.0)
    assert not lease.holds(0.0)
    lease.acknowledged(5.0)
    lease.acknowledged(4.0)
    assert lease.holds(5.9)
    assert not lease.holds(6.0)


def test_what_is_decided_while_a_batch_is_under_way() -> None:
    """Without a lease, what was decided before it was sent."""
    assert Lease(1.0).will_hold(5.9, sent_at=5.0)
    assert not Lease(1.0).will_hold(6.0, sent_at=5.0)
    assert Lease(0.0).will_hold(4.9, sent_at=5.0)
    assert not Lease(0.0).will_hold(5.0, sent_at=5.0)
