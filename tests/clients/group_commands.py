"""Kafka's own `kafka-consumer-groups`, all of whose commands are run by one process: to begin is most of what one
costs."""

from __future__ import annotations

import base64
import queue
import re
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import Final, NamedTuple, Self

from shim.demo.parts import jar_set
from shim.demo.parts.jars import KAFKA
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child
from shim.demo.parts.tools import TOOL_HEAP_MB

_PROGRAM: Final = str(Path(__file__).with_name("ConsumerGroupCommands.java"))
_TIMEOUT_S: Final = 60.0


class Printed(NamedTuple):
    """By one command, on standard output and error; and its exit status."""

    status: int
    text: str


class Ended(NamedTuple):
    """What one command has printed, and its exit status."""

    status: int
    lines: list[str]

    def rows(self, first: str) -> list[list[str]]:
        """The columns of the lines that begin with this word."""
        return [columns for line in self.lines if (columns := line.split()) and columns[0] == first]


class GroupCommands:
    """``log``: a file for what the process says beside."""

    def __init__(self, log: Path) -> None:
        """Raises PartsUnavailable."""
        self._log = log
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        command = java_command(jar_set(KAFKA), _PROGRAM, heap_mb=TOOL_HEAP_MB)
        with log.open("wb") as stderr:
            self._child = Child(command, on_line=self._answers.put, stdin=PIPE, stderr=stderr)

    def run(self, bootstrap: str, *args: str) -> Printed:
        """One command. Fails where it takes longer than a minute, or the process has ended."""
        stdin = self._child.process.stdin
        assert stdin is not None
        stdin.write("\t".join(["--bootstrap-server", bootstrap, *args]) + "\n")
        stdin.flush()
        try:
            status, printed = self._answers.get(timeout=_TIMEOUT_S).split(" ")
        except queue.Empty:
            raise AssertionError(f"{args} is not done after {_TIMEOUT_S:g} s\n{self._log.read_text()}") from None
        return Printed(int(status), base64.b64decode(printed).decode())

    def run_all(self, bootstrap: str, commands: Sequence[Sequence[str]]) -> list[Ended]:
        """What each has printed: the lines in an order of their own, without what differs from run to run (ports, and
        the second part of member ids), and without the places of exceptions in Java."""
        return [_ended(self.run(bootstrap, *each)) for each in commands]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        if (stdin := self._child.process.stdin) is not None:
            stdin.close()


def _ended(printed: Printed) -> Ended:
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", printed.text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return Ended(printed.status, sorted(line for line in lines if not line.startswith("at ")))
