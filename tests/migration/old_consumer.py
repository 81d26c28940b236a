"""A high-level consumer of an old release at work (tests/old_clients/java/ZooKeeperConsumer.java)."""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from shim.demo.parts.process import spawn
from tests.old_clients.java_clients import program

TIMEOUT_SECONDS = 45.0
_SHOWN = 4_000  # characters of its log in an exception


_COMMITTED = "committed"


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


def _record(line: str) -> Record:
    topic, partition, offset, value = line.split(" ", 3)
    return Record(topic, int(partition), int(offset), value)


class OldConsumer:
    """Starts to consume at once; a context manager that has it leave its group. ``storage``: zookeeper, kafka, or
    kafka+dual; ``commits_every_ms``: by itself, and when it leaves; None: when it is told to. ``on_record``: called
    with each record, in another thread."""

    def __init__(
        self,
        release: str,
        zookeeper: str,
        topics: str,
        group: str,
        storage: str,
        *,
        commits_every_ms: int | None = None,
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        self.title = f"high-level consumer of {release}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
        command = [*program(release, "ZooKeeperConsumer")(), zookeeper, topics, group, storage]
        if commits_every_ms is not None:
            command.append(str(commits_every_ms))
        self._on_record = on_record
        self._process = spawn(command, stdin=subprocess.PIPE, stderr=self._log.fileno())
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.records: list[Record] = []

    def read(self, count: int) -> list[Record]:
        """Its next so many records."""
        begun = len(self.records)
        while len(self.records) < begun + count:
            self._take_line(f"{len(self.records) - begun} of {count} records")
        return self.records[begun:]

    def commit(self) -> None:
        """What was read, and what it has printed besides."""
        assert self._process.stdin is not None
        self._process.stdin.write("commit\n")
        self._process.stdin.flush()
        while self._take_line("no commit") != _COMMITTED:
            pass

    def leave(self) -> None:
        """Close it. What it had read and nobody asked for is in ``records``."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(TIMEOUT_SECONDS)
        finally:
            self.kill()
        assert self._process.returncode == 0, self._said()
        while not self._lines.empty():
            self._taken(self._lines.get())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.rstrip("\n")
            self._lines.put(text)
            if self._on_record is not None and text != _COMMITTED:
                self._on_record(_record(text))

    def _take_line(self, so_far: str) -> str:
        try:
            return self._taken(self._lines.get(timeout=TIMEOUT_SECONDS))
        except queue.Empty:
            raise TimeoutError(f"{self.title}: {so_far} in {TIMEOUT_SECONDS:g} s\n{self._said()}") from None

    def _taken(self, line: str) -> str:
        if line != _COMMITTED:
            self.records.append(_record(line))
        return line

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()[-_SHOWN:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._process.poll() is None:
                if error is None:
                    self.leave()
                else:
                    self.kill()
        finally:
            self._log.close()
