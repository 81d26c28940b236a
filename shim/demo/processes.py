"""The demo's own processes: the shim, and the clients with what they have said so far."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from shim.demo.clients import Number
from shim.demo.parts import StartFailed, free_port_range
from shim.demo.parts.process import Child

HOST = "127.0.0.1"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
SHOWN = 2_000  # characters of a log in an error


class DemoFailed(Exception):
    """The demo cannot go on. Says which part of it failed, and how."""


class ShimProcess(AbstractContextManager["ShimProcess"]):
    """`offset-shim serve` in front of the one broker with node id `node_id`; ports and data are kept over a restart.

    `folder/data` is its data directory, `folder/shim.log` what it printed; `settings` are given with `--set`. Raises
    StartFailed when it does not start.
    """

    def __init__(self, folder: Path, bootstrap_servers: str, node_id: int, settings: Sequence[str] = ()) -> None:
        self.data = folder / "data"
        self.log = folder / "shim.log"
        port = free_port_range(2 + node_id, HOST)  # bootstrap at P, node id i at P + 1 + i
        self.bootstrap = f"{HOST}:{port}"
        self.broker_port = port + 1 + node_id
        self._command = [
            *(sys.executable, "-m", "shim.main", "serve"),
            *("--bootstrap-servers", bootstrap_servers, "--listen", self.bootstrap, "--data-dir", str(self.data)),
            *(argument for setting in settings for argument in ("--set", setting)),
        ]
        self._child: Child | None = None
        folder.mkdir()

    def start(self) -> Self:
        self._child = Child(self._command, ready="offset-shim ready", log=self.log)
        try:
            self._child.wait_ready(START_TIMEOUT_S)
        except BaseException as error:
            self._child.kill()
            if isinstance(error, StartFailed):
                raise StartFailed(f"the shim at {self.bootstrap}: {error}") from None
            raise
        return self

    @property
    def pid(self) -> int:
        """The process id, once it is started."""
        assert self._child is not None
        return self._child.pid

    def kill(self) -> int:
        """SIGKILL; its exit status. It is gone on return."""
        assert self._child is not None
        self._child.kill()
        assert self._child.returncode is not None
        return self._child.returncode

    def stop(self) -> int:
        """SIGTERM; its exit status, once it is gone."""
        assert self._child is not None
        self._child.stop(STOP_TIMEOUT_S)
        assert self._child.returncode is not None
        return self._child.returncode

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.kill()


class ClientProcess(AbstractContextManager["ClientProcess"]):
    """One program of `clients.py`, and what it has said. `news` is notified of every line; hold it to read."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str], news: threading.Condition) -> None:
        self.name = name
        self.delivered: list[Number] = []
        self.records: list[Number] = []
        self.positions: set[tuple[int, int]] = set()  # (partition, offset): all that it may have committed
        self.committed: dict[int, int] = {}  # by partition: the offset of the last commit that was acknowledged
        self.commits = 0  # how many were acknowledged
        self.failed_commits = 0
        self._news = news
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as stderr:
            command = [sys.executable, "-m", "shim.demo.clients", *arguments]
            self._child = Child(command, on_line=self._hear, stderr=stderr)

    def _hear(self, line: str) -> None:
        [(what, value)] = json.loads(line).items()
        with self._news:
            if what == "delivered":
                self.delivered += map(tuple, value)
            elif what == "records":
                self.records += map(tuple, value)
                self.positions |= {(partition, offset + 1) for partition, offset, _ in value}
            elif what == "committed":
                self.committed |= {int(partition): offset for partition, offset in value.items()}
                self.commits += 1
            elif what == "commit_failed":
                self.failed_commits += 1
            self._news.notify_all()

    @property
    def running(self) -> bool:
        return self._child.running

    def pause(self) -> None:
        """Hold the whole process still. It is so on return: by the signal alone a thread does once it gets a core."""
        self._child.send_signal(signal.SIGSTOP)
        with suppress(ChildProcessError):  # it has ended, which whoever waits for it is told
            os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def ask_to_end(self) -> None:
        """SIGTERM."""
        self._child.send_signal(signal.SIGTERM)

    def wait_ended(self) -> None:
        """Wait for its end, once it was asked. Raises DemoFailed when it does not end in time, or not in order."""
        self._child.wait(STOP_TIMEOUT_S)
        if self._child.returncode != 0:
            raise self.failure("did not end in order")

    def failure(self, what: str) -> DemoFailed:
        """The exception for what went wrong with this client, its last words in it."""
        text = self._log.read_text(encoding="utf-8", errors="replace").strip()
        status = self._child.returncode
        state = "running" if status is None else f"exit status {status}"
        return DemoFailed(f"{self.name} {what} ({state}); the end of its log:\n{text[-SHOWN:] or '(empty)'}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()


def wait_until(
    done: Callable[[], bool],
    what: str,
    clients: Sequence[ClientProcess],
    news: threading.Condition,
    timeout: float,
    tick: Callable[[], None],
) -> None:
    """Wait until `done`, which is asked at every line that a client says. `tick` is called meanwhile, for progress.

    Raises DemoFailed when one of the `clients` ends, or after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    with news:
        while not done():
            for client in clients:
                if not client.running:
                    raise client.failure(f"ended before {what}")
            if time.monotonic() > deadline:
                raise DemoFailed(f"{timeout:g} s passed before {what}")
            tick()
            news.wait(0.5)
