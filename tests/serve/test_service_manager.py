"""What systemd is told, by a socket in its place."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from shim.demo.parts import Broker
from shim.serve.service_manager import ServiceManager
from tests.shim_process import Shim

PATIENCE_US = 600_000
PINGS = 4
PATIENCE_S = 60.0
WATCHDOG = "WATCHDOG=1"


class Listening:
    """What systemd would hear."""

    def __init__(self, address: str | bytes) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(PATIENCE_S)

    def hears(self) -> str:
        return self.socket.recv(4096).decode()

    def hears_until(self, wanted: str) -> list[str]:
        """All lines of what it hears up to that with this one: what there was no room for comes with the next."""
        heard: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in heard:
            assert time.monotonic() < deadline, heard
            heard += self.hears().split("\n")
        return heard

    def forgets(self) -> None:
        """All that has come by now."""
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self.hears()


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="notify-") as folder:
        yield Path(folder) / "socket"


@pytest.fixture
def systemd(path: Path) -> Iterator[Listening]:
    listening = Listening(str(path))
    with listening.socket:
        yield listening


def started_by(path: Path) -> str:
    """As it sets the environment of what it starts."""
    told = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(PATIENCE_US)}
    return f"import os\nos.environ |= {told!r}\nos.environ['WATCHDOG_PID'] = str(os.getpid())\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_it_hears_that_the_shim_is_ready_alive_and_stopping(
    broker: Broker, path: Path, systemd: Listening, tmp_path: Path, workers: int
) -> None:
    shim = Shim(
        broker.bootstrap_servers,
        tmp_path / "data",
        args=["--workers", str(workers)],
        patch=started_by(path),
        offsets_log="local",
        start_timeout=60,
    )
    with shim:
        *before, ready = (line for line in systemd.hears_until("READY=1") if line not in (WATCHDOG, "READY=1"))
        assert all(line.startswith("STATUS=not ready: ") for line in before)
        assert ready.startswith(f"STATUS=offset-shim ready on {shim.bootstrap}, ")
        assert [systemd.hears() for _ in range(PINGS)] == [WATCHDOG] * PINGS
        os.kill(shim.pid, signal.SIGTERM)
        stopping = [line for line in systemd.hears_until("STOPPING=1") if line != WATCHDOG]
        assert stopping == ["STOPPING=1", "STATUS=answering what has begun"]
        assert shim.stop() == 0


HANGS = """
import os, signal

def hang(*_):
    fd = os.open({fifo!r}, os.O_RDONLY)
    os.read(fd, 1)
    os.close(fd)

signal.signal(signal.SIGUSR1, hang)
"""
"""The loop hangs from SIGUSR1 on, its threads do not, for as long as somebody has the FIFO open for writing."""


@contextmanager
def loop_hangs(shim: Shim, fifo: Path) -> Iterator[None]:
    """On return it does."""
    os.kill(shim.pid, signal.SIGUSR1)
    with fifo.open("wb"):  # once it is open there, too
        yield


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_it_hears_nothing_of_a_shim_that_hangs(
    broker: Broker, path: Path, systemd: Listening, fifo: Path, tmp_path: Path
) -> None:
    patch = started_by(path) + HANGS.format(fifo=str(fifo))
    with Shim(broker.bootstrap_servers, tmp_path / "data", patch=patch) as shim:
        systemd.hears_until("READY=1")
        with loop_hangs(shim, fifo):
            systemd.forgets()
            systemd.socket.settimeout(3 * PATIENCE_US / 1e6)  # systemd goes by the time, too
            with pytest.raises(TimeoutError):
                systemd.hears()
        systemd.socket.settimeout(PATIENCE_S)
        assert systemd.hears() == WATCHDOG


def test_the_log_says_where_one_was_that_it_ends(broker: Broker, fifo: Path, tmp_path: Path) -> None:
    """As it hangs. What goes on meanwhile cannot be told: it is read while it changes."""
    args, patch = ["--set", "log.format=json"], HANGS.format(fifo=str(fifo))
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=args, patch=patch) as shim:
        with loop_hangs(shim, fifo):
            os.kill(shim.pid, signal.SIGABRT)
            assert shim.wait_ended() == -signal.SIGABRT
        for words in ("Fatal Python error: Aborted", "in hang", "in serve_command"):
            assert words in shim.log()


def test_where_nobody_listens_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    manager = ServiceManager({"WATCHDOG_USEC": "30000000"})
    manager.ready("ready")
    assert manager.every_seconds is None
    assert not caplog.records


@pytest.mark.parametrize(
    ("environment", "every_seconds"),
    [
        ({}, 10.0),
        ({"WATCHDOG_USEC": "30000000"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getppid())}, 10.0),
        ({"WATCHDOG_USEC": "0"}, 10.0),
        ({"WATCHDOG_USEC": "soon"}, 10.0),
    ],
)
def test_how_often_it_wants_to_hear(path: Path, environment: dict[str, str], every_seconds: float | None) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": str(path), **environment}).every_seconds == every_seconds


def test_a_socket_that_is_gone_is_one_line_each_time(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": str(path)})
    manager.alive()
    manager.alive()
    (line,) = caplog.messages
    assert line.startswith("the service manager cannot be told how the shim is for now: ")
    listening = Listening(str(path))
    with listening.socket:
        manager.alive()
        assert listening.hears() == WATCHDOG
    path.unlink()
    manager.alive()
    manager.alive()
    assert caplog.messages == [line, line]


def test_one_that_does_not_read_holds_nobody_up(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[float | None] = []

    class Noted(socket.socket):
        def sendto(self, *what: Any) -> int:
            patience.append(self.gettimeout())
            return super().sendto(*what)

    listening = Listening(str(path))
    with listening.socket:
        monkeypatch.setattr(socket, "socket", Noted)
        manager = ServiceManager({"NOTIFY_SOCKET": str(path)})
        while not caplog.messages:
            manager.alive()
            assert patience.pop() == 0.0, "it would wait"
        assert listening.hears() == WATCHDOG


def test_what_it_had_no_room_for_it_hears_with_what_comes_next(
    path: Path, systemd: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": str(path)})
    while not caplog.messages:
        manager.alive()
    for line in ("it begins to serve", "it serves"):
        manager.ready(line)
    systemd.forgets()
    manager.alive()
    assert systemd.hears() == f"READY=1\nSTATUS=it serves\n{WATCHDOG}"
    manager.alive()
    assert systemd.hears() == WATCHDOG


async def test_it_is_shown_what_is_missing(path: Path, systemd: Listening) -> None:
    """Before it serves, and when something goes."""
    missing: list[str] = ["no broker of the cluster can be reached yet", "the start is not over yet"]
    told = asyncio.Event()

    def asked() -> list[str]:
        told.set()
        return missing

    manager = ServiceManager({"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "30000"})
    telling = asyncio.create_task(manager.run(asked))
    await told.wait()
    assert systemd.hears() == f"STATUS=not ready: {'; '.join(missing)}"
    assert systemd.hears() == WATCHDOG
    missing.clear()
    manager.ready("it serves")
    systemd.hears_until("READY=1")
    missing.append("no broker of the cluster can be reached")
    told.clear()
    await told.wait()
    systemd.hears_until(f"STATUS=not ready: {missing[0]}")
    missing.clear()
    told.clear()
    await told.wait()
    systemd.hears_until("STATUS=it serves")
    telling.cancel()


def test_an_address_without_a_file() -> None:
    name = f"offset-shim-test-{os.getpid()}"
    listening = Listening(b"\0" + name.encode())
    with listening.socket:
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).ready("it serves")
        assert listening.hears() == "READY=1\nSTATUS=it serves"
