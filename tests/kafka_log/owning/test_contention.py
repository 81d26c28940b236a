"""Processes that own a partition in turn, stopped, killed and held up at random, with brokers that hang meanwhile: no
write that was acknowledged is lost, and nothing is told that is older than one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from shim.demo.parts import Cluster
from shim.demo.parts.process import spawn
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.waiting import wait_until

CONFIG: Final = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2"}
LEASE_MS: Final = 1_000
PROCESSES: Final = 3
PATIENCE_S: Final = 120.0


class Said(NamedTuple):
    """``kind``: owns, wrote or told. Seconds of the machine's CLOCK_BOOTTIME."""

    kind: str
    value: int
    begun: float
    ended: float


class Contender:
    """Started anew each time that it was killed."""

    def __init__(self, folder: Path, number: int, cluster: Cluster, topic: str) -> None:
        self._path = folder / f"said-{number}"
        self._log = folder / f"log-{number}"
        self._command = [sys.executable, "-m", "tests.kafka_log.owning.contender", cluster.bootstrap_servers, topic]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self._path.open("ab") as said, self._log.open("ab") as log:
            self._process = spawn([*self._command, str(LEASE_MS)], stdout=said, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def said(self) -> list[Said]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        found = []
        for line in lines:
            try:
                kind, value, begun, *ended = json.loads(line)
            except ValueError:
                continue  # it was killed in the middle of it
            found.append(Said(kind, value, begun, ended[0] if ended else begun))
        return found


def check(said: list[Said]) -> None:
    """As a register has to behave: what is told, or gone on from, is as new as all that was acknowledged before that
    was asked for; and no value is acknowledged twice. Who says that he owns it may have been fenced by then, and does
    not know it yet."""
    wrote = sorted((each for each in said if each.kind == "wrote"), key=lambda each: each.ended)
    values = [each.value for each in wrote]
    assert len(values) == len(set(values)), "two have written the same"
    newest, left = 0, iter(wrote)
    upcoming = next(left, None)
    for each in sorted((each for each in said if each.kind != "owns"), key=lambda each: each.begun):
        while upcoming is not None and upcoming.ended < each.begun:
            newest = max(newest, upcoming.value)
            upcoming = next(left, None)
        assert each.value >= newest, f"{each}, when {newest} was acknowledged"


def wait_for(contenders: list[Contender], kind: str, more: int) -> None:
    """Until somebody has said that so many times more."""

    def count() -> int:
        return sum(each.kind == kind for contender in contenders for each in contender.said())

    due = count() + more
    wait_until(lambda: count() >= due, f"nobody says {kind}", PATIENCE_S)


@pytest.mark.parametrize("faults", [3, pytest.param(100, marks=pytest.mark.soak)])
def test_owners_in_turn(cluster: Cluster, make_topic: TopicFactory, tmp_path: Path, faults: int) -> None:
    rng = random.Random(faults)
    topic = make_topic(config=CONFIG)
    contenders = [Contender(tmp_path, number, cluster, topic) for number in range(PROCESSES)]
    with ExitStack() as ending:
        for contender in contenders:
            ending.callback(contender.kill)
            contender.start()
        wait_for(contenders, "wrote", 10)
        for number in range(faults):
            contender = rng.choice(contenders)
            match (
                rng.choice(["kill", "hold up", "hold up", "broker"])
                if number > 2
                else ("kill", "hold up", "broker")[number]
            ):
                case "kill":
                    contender.kill()
                    wait_for(contenders, "told", 1)
                    contender.start()
                case "hold up":
                    with hung(contender.pid):
                        wait_for([each for each in contenders if each is not contender], "owns", 1)
                        wait_for([each for each in contenders if each is not contender], "wrote", 2)
                case "broker":
                    pid = rng.choice([each for each in cluster.brokers if not each.is_controller]).pid
                    with hung(pid):
                        wait_for(contenders, "wrote", 2)
            wait_for(contenders, "wrote", 5)
    check([each for contender in contenders for each in contender.said()])


def test_the_check_finds_what_it_is_for() -> None:
    check([Said("wrote", 1, 0, 1), Said("told", 1, 1.5, 1.6), Said("wrote", 2, 1.4, 2), Said("owns", 1, 3, 3)])
    with pytest.raises(AssertionError, match="when 2 was acknowledged"):
        check([Said("wrote", 1, 0, 1), Said("wrote", 2, 1, 2), Said("told", 1, 2.5, 2.6)])
    with pytest.raises(AssertionError, match="the same"):
        check([Said("wrote", 1, 0, 1), Said("wrote", 1, 1, 2)])
