"""Dual commit, the real one on a real log, with a ZooKeeper in memory: many short scripts, each for one partition, in
which the shim is killed and others come at whatever moment. See :mod:`tests.migration.simulated.script`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from protocol.own.state_log import Step
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.retold import retold
from tests.migration.simulated.script import Script

SHORT = 6
RETOLD = 7
ROUNDS = 4
PARTS = 10
A_PART = 1_000

_PLAYED = pytest.mark.parametrize(
    ("step", "moves"),
    [
        pytest.param(Step.KAFKA_DUAL, False, id="the log is right"),
        pytest.param(Step.ZOOKEEPER_DUAL, False, id="ZooKeeper is right"),
        pytest.param(Step.KAFKA_DUAL, True, id="from step to step"),
    ],
)

# What a script must have seen on average, so that it shows something.
SEEN = {
    "commit": 3,
    "delete": 1,
    "consume": 3,
    "kill": 1,
    "torn": 0.1,
    "lose": 1,
    "reconnect": 0.3,
    "stall": 0.2,
    "disk": 0.1,
    "remove": 0.3,
    "amid": 2,
    "back": 1,
    "not done": 0.7,
}
SEEN_ALONE = {
    (Step.KAFKA_DUAL, False): {"transact": 0.3},
    (Step.KAFKA_DUAL, True): {"moved": 0.5},
    (Step.ZOOKEEPER_DUAL, False): {},
}


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    _in_the_loop(monkeypatch)


def _in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


def played(seed: int, folder: Path, step: Step, *, moves: bool) -> Script:
    async def until_its_end() -> Script:
        script = Script(seed, folder / str(seed), step, moves=moves)
        await script.run(ROUNDS)
        return script

    return virtual_time.run(until_its_end())


def _play(seeds: range, folder: Path, step: Step, *, moves: bool) -> None:
    counts = Counter[str]()
    for seed in seeds:
        counts += played(seed, folder, step, moves=moves).counts
    least = SEEN | SEEN_ALONE[step, moves]
    assert counts >= Counter({what: int(len(seeds) * each) for what, each in least.items()})


@_PLAYED
def test_what_was_done_last_is_left(step: Step, moves: bool, tmp_path: Path) -> None:
    _play(range(SHORT), tmp_path, step, moves=moves)


def tell(folder: Path) -> None:
    """On standard output: what happens in that script, in a process of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _in_the_loop(monkeypatch)
        print(*played(RETOLD, folder, Step.KAFKA_DUAL, moves=True).story, sep="\n")


def test_a_seed_is_the_same_script_each_time(tmp_path: Path) -> None:
    """In whatever order sets of strings are."""
    first, second = retold(__name__, tmp_path)
    assert first
    assert first == second


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@_PLAYED
def test_it_is_in_many_scripts(step: Step, moves: bool, part: int, tmp_path: Path) -> None:
    _play(range(1_000 + part * A_PART, 1_000 + (part + 1) * A_PART), tmp_path, step, moves=moves)
