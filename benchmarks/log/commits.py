"""Durable commits a second, through the runtime onto a real disk; bytes a commit.

Each committer is a group that commits one offset, waits for the answer, and commits the next. There is no network, and
no request is decoded: what is measured is decision, records, write, flush and answer. With the history and without
take turns, so that both have the same machine; the best round counts.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.coordinator import Caller, GroupCoordinator, Outcome
from shim.disk_log import DiskBackend, open_log
from shim.runtime import Clock, Runtime, Ticket

COMMITTERS: Final = (1, 8, 64, 512)
CALLER: Final = Caller("consumer-billing-7", "/10.20.30.40")


class Round(NamedTuple):
    commits_a_second: float
    bytes_of_offsets: float
    bytes_of_history: float


class Committer:
    """A ticket that is used again: told of one commit, it sends the next."""

    def __init__(self, runtime: Runtime, number: int) -> None:
        self.group = f"billing-invoices-{number}"
        self.done = 0
        self.stopped = asyncio.get_running_loop().create_future()
        self.until = 0.0
        self._runtime = runtime
        self._partition = runtime.partition_of(self.group)

    def answer(self, _: Any) -> None:
        self.done += 1
        if time.perf_counter() < self.until:
            asyncio.get_running_loop().call_soon(self.commit)
        else:
            self.stopped.set_result(None)

    def fail(self, error: ErrorCode) -> None:
        raise RuntimeError(f"a commit failed: {error.name}")

    def commit(self) -> None:
        partitions = (OffsetCommitRequestPartition(self.done % 100, self.done, 3),)
        request = OffsetCommitRequest(
            self.group, topics=(OffsetCommitRequestTopic("orders-by-customer", partitions=partitions),)
        )

        def decide(coordinator: GroupCoordinator, now: int, ticket: Ticket) -> Outcome:
            return coordinator.offset_commit(now, CALLER, 8, request, ticket)

        self._runtime.submit(self._partition, decide, self)


async def one_round(directory: Path | None, committers: int, seconds: float, history: bool) -> Round:
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        settings = Settings(offsets_history_retention_minutes=10_080 if history else 0)
        data_dir = Path(folder) / "data"
        offsets_log = open_log(data_dir, settings)
        runtime = Runtime(DiskBackend(offsets_log, settings, Clock()), settings, Clock())
        runtime.admit()
        await runtime.load()
        writing = asyncio.create_task(runtime.run())
        everybody = [Committer(runtime, number) for number in range(committers)]
        begun = time.perf_counter()
        for committer in everybody:
            committer.until = begun + seconds
            committer.commit()
        await asyncio.gather(*(committer.stopped for committer in everybody))
        took = time.perf_counter() - begun
        runtime.stop()
        await writing
        await runtime.close(60)
        done = sum(committer.done for committer in everybody)
        sizes = [
            sum(path.stat().st_size for path in data_dir.glob(f"{topic}-*/*.log")) / done
            for topic in (OFFSETS_TOPIC, HISTORY_TOPIC)
        ]
        return Round(done / took, *sizes)


async def measure(directory: Path | None, seconds: float, rounds: int) -> None:
    print(f"{'committers':>10}{'commits/s':>12}{'with history':>14}{'ratio':>7}{'bytes':>8}{'of history':>12}")
    for committers in COMMITTERS:
        plain: list[Round] = []
        kept: list[Round] = []
        for _ in range(rounds):
            plain.append(await one_round(directory, committers, seconds, False))
            kept.append(await one_round(directory, committers, seconds, True))
        without, with_history = max(plain), max(kept)
        print(
            f"{committers:>10}{without.commits_a_second:>12,.0f}{with_history.commits_a_second:>14,.0f}"
            f"{with_history.commits_a_second / without.commits_a_second:>7.2f}"
            f"{without.bytes_of_offsets:>8.0f}{with_history.bytes_of_history:>12.0f}",
            flush=True,
        )


def fsyncs_a_second(directory: Path | None) -> float:
    """Of one file that grows by 100 bytes each time: what the disk does at best for one committer."""
    with tempfile.TemporaryFile(dir=directory) as file:
        begun, done = time.perf_counter(), 0
        while (took := time.perf_counter() - begun) < 1:
            os.pwrite(file.fileno(), bytes(100), done * 100)
            os.fdatasync(file.fileno())
            done += 1
    return done / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"the disk: {fsyncs_a_second(args.directory):,.0f} fdatasync a second of one growing file\n")
    try:
        import uvloop
    except ImportError:
        asyncio.run(measure(args.directory, args.seconds, args.rounds))
    else:
        uvloop.run(measure(args.directory, args.seconds, args.rounds))
