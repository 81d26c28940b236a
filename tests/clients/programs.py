"""The client processes of one test: started, watched and stopped together, within the test's time limit."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

from shim.demo.parts.process import Child

_RECORD = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(.*)")
_SAMPLE_S = 0.1
_LOOK_S = 0.1
_STDERR_SHOWN = 4_000  # characters of each program's standard error in a failure


def _remote_ports() -> dict[str, int]:
    """Of all sockets that lead somewhere, by the name that each has among the files of a process; 0 where that is in
    this machine alone. To read the tables takes the system 9 ms.
    """
    found = {}
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text(encoding="ascii").splitlines()[1:] if table.exists() else ():
            _, _, remote, *_, inode = line.split()[:10]
            if port := int(remote.rpartition(":")[2], 16):  # it is 0 of who listens
                found[f"socket:[{inode}]"] = port
    for line in Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
        found[f"socket:[{line.split()[6]}]"] = 0
    return found


class Record(NamedTuple):
    partition: int
    offset: int
    value: str


class Program:
    """One client process. `records`: what it has printed so far. `remote_ports`: where it was seen connected to.
    `seen`: those of its sockets of which it is known where they lead."""

    def __init__(self, argv: Sequence[str], stderr_file: Path, changed: threading.Event) -> None:
        self.records: list[Record] = []
        self.remote_ports: set[int] = set()
        self.seen: set[str] = set()
        self.stderr_file = stderr_file
        self._changed = changed
        with stderr_file.open("wb") as stderr:
            self.child = Child(argv, on_line=self._take, stdin=PIPE, stderr=stderr)

    def _take(self, line: str) -> None:
        if match := _RECORD.fullmatch(line):
            self.records.append(Record(int(match[1]), int(match[2]), match[3]))
            self._changed.set()

    @property
    def partitions(self) -> set[int]:
        """The partitions that it has printed records of."""
        return {record.partition for record in self.records}

    def write(self, lines: Iterable[str]) -> None:
        """Put lines on its standard input. Fails when it has ended, be it at the time limit."""
        stdin = self.child.process.stdin
        assert stdin is not None
        try:
            stdin.writelines(f"{line}\n" for line in lines)
            stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"ended before it had read its input, or at the time limit\n{self.report()}") from None

    def end_input(self) -> None:
        stdin = self.child.process.stdin
        assert stdin is not None
        stdin.close()

    def terminate(self) -> None:
        """SIGTERM: a consumer commits and leaves its group."""
        self.child.send_signal(signal.SIGTERM)

    def new_sockets(self) -> set[str]:
        """Those that it has now, and that are not among the `seen`."""
        try:
            files = list(Path(f"/proc/{self.child.pid}/fd").iterdir())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return set()  # it has just ended
        there = set()
        for file in files:
            with suppress(FileNotFoundError):  # it has just been closed
                if (name := str(file.readlink())).startswith("socket:"):
                    there.add(name)
        self.seen &= there  # a number may come again
        return there - self.seen

    def connected(self, remote_ports: Mapping[str, int]) -> None:
        """By some sockets of its own to these ports, as :func:`_remote_ports` has it."""
        self.seen |= remote_ports.keys()
        ports = set(remote_ports.values()) - {0}
        if not ports <= self.remote_ports:
            self.remote_ports |= ports
            self._changed.set()

    def close(self) -> None:
        self.child.kill()
        stdin = self.child.process.stdin
        if stdin is not None and not stdin.closed:
            with suppress(BrokenPipeError):  # what a killed process never read cannot be flushed
                stdin.close()

    def report(self) -> str:
        stderr = self.stderr_file.read_text(encoding="utf-8", errors="replace")[-_STDERR_SHOWN:]
        return (
            f"{self.stderr_file.stem}: {len(self.records)} records, exit status {self.child.returncode}, "
            f"connected to {sorted(self.remote_ports)}\n{stderr}"
        )


class Programs:
    """Everything started here is killed at the end of the `with` block, and after `limit` seconds in any case.

    `server_log`: what the programs talk to has written, for failures.
    """

    def __init__(self, folder: Path, limit: float, server_log: Callable[[], str] = str) -> None:
        self.all: list[Program] = []
        self._folder = folder
        self._deadline = time.monotonic() + limit
        self._limit = limit
        self._server_log = server_log
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._sampler = threading.Thread(target=self._watch, name="clients-sampler", daemon=True)

    def start(self, name: str, argv: Sequence[str]) -> Program:
        """Start a program; `name` stands in failures."""
        program = Program(argv, self._folder / f"{len(self.all)}-{name}.stderr", self._changed)
        self.all.append(program)
        return program

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until `condition()` holds; it is looked at whenever a program prints a record or connects.

        Fails at the time limit, with what every program has said.
        """
        while True:
            self._changed.clear()
            if condition():
                return
            if time.monotonic() > self._deadline:
                self.fail(what)
            self._changed.wait(_LOOK_S)

    def wait_end(self, program: Program) -> int:
        """Wait for a program's end, all its output read; its exit status. Fails at the time limit."""
        in_time = program.child.wait(max(0.0, self._deadline - time.monotonic()))
        status = program.child.returncode
        if not in_time or status is None or time.monotonic() > self._deadline:
            self.fail(f"the end of {program.stderr_file.stem}")
        return status

    def fail(self, what: str) -> NoReturn:
        reports = "\n".join(program.report() for program in self.all)
        server = self._server_log()[-_STDERR_SHOWN:]
        raise AssertionError(f"not within {self._limit:g} s: {what}\n{reports}\n{server}")

    def _watch(self) -> None:
        while not self._closing.wait(_SAMPLE_S):
            running = [program for program in self.all.copy() if program.child.running]
            new = {program: sockets for program in running if (sockets := program.new_sockets())}
            remote_ports = _remote_ports() if new else {}
            for program, sockets in new.items():
                program.connected({name: remote_ports[name] for name in sockets & remote_ports.keys()})
            if time.monotonic() > self._deadline:
                for program in running:
                    program.child.kill()  # so that a write to a program that reads nothing ends too

    def __enter__(self) -> Self:
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._sampler.join()
        for program in self.all:
            program.close()
