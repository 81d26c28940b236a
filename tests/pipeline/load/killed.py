"""A load that is killed, again and again, at random moments."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil

from tests.waiting import wait_until

_SAID: Final = 2_000  # characters of what a load said, in an error
_BATCHES: Final = 3
_TIMEOUT_S: Final = 600.0


class LoadProcess:
    """`offset-pipeline load` as a process of its own; what it says is in ``said``."""

    def __init__(self, options: list[str], said: Path) -> None:
        self._said = said
        with said.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.main", "load", *options],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def __enter__(self) -> LoadProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill([psutil.Process(self._process.pid), *self._children()] if self.runs else [])
        self._process.wait()

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def ended(self) -> int:
        return self._process.wait(_TIMEOUT_S)

    def said(self) -> str:
        return self._said.read_text(errors="replace")[-_SAID:]

    def driver(self) -> list[psutil.Process]:
        """The program that commits, and the JVM below it."""
        return [psutil.Process(self._process.pid), *(each for each in self._children() if not _is_executor(each))]

    def executors(self) -> list[psutil.Process]:
        return [each for each in self._children() if _is_executor(each)]

    def wait_begun(self, table: Path) -> bool:
        """Until it writes; False where it ended before."""
        before = set(table.rglob("*"))
        wait_until(lambda: not self.runs or set(table.rglob("*")) != before, self.said, _TIMEOUT_S)
        return self.runs

    def wait_batches(self, table: Path, batches: int) -> None:
        """Until there are so many, or it has ended."""
        wait_until(lambda: not self.runs or batches_of(table) >= batches, self.said, _TIMEOUT_S)

    def kill(self, processes: list[psutil.Process]) -> None:
        for each in processes:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(processes, _TIMEOUT_S)

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def batches_of(table: Path) -> int:
    return len([*table.glob("_delta_log/*.json"), *table.glob("batch=*")])


def _is_executor(process: psutil.Process) -> bool:
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def killed_loads(
    options: list[str], table: Path, said: Path, chance: random.Random, kills: int, longest_s: float
) -> list[str]:
    """Starts loads and kills each, in one of its first batches, up to ``longest_s`` after it began to write or after a
    batch, until there were ``kills``. Of each kill: the program, its JVM, both, or an executor."""
    killed: list[str] = []
    while len(killed) < kills:
        with LoadProcess(options, said) as running:
            if not running.wait_begun(table):
                raise AssertionError(f"it ended before kill {len(killed) + 1}: {running.ended()}\n{running.said()}")
            running.wait_batches(table, batches_of(table) + chance.randrange(_BATCHES))
            time.sleep(chance.uniform(0, longest_s))  # anywhere in a batch
            program, *jvm = running.driver()
            targets = {"program": [program], "jvm": jvm, "driver": [program, *jvm]}
            if executors := running.executors():
                targets["executor"] = [chance.choice(executors)]
            what = sorted(targets)[len(killed) % len(targets)]  # each of them, and not only perhaps
            if not running.runs:
                raise AssertionError(f"it was done before kill {len(killed) + 1}:\n{running.said()}")
            running.kill(targets[what])
            killed.append(what)
            if what == "executor":
                continue_to = running.driver()  # the job outlives its executor; it is killed a moment later
                time.sleep(chance.uniform(0, longest_s))  # likewise
                running.kill(continue_to)
    return killed


def load_to_the_end(options: list[str], said: Path) -> None:
    with LoadProcess(options, said) as last:
        status = last.ended()
        assert status == 0, last.said()
