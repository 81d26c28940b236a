"""An admin interface in a thread of its own, and the commands that talk to it as their users run them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

from click.testing import CliRunner

from shim.admin.live.asked.overview import ClientsOf, Overview
from shim.admin.live.guard.access import Access
from shim.admin.live.port.serving import serve_admin
from shim.config import HostPort
from shim.main import cli
from shim.relocation.words import Relocates
from shim.tls import TlsContext
from tests import commands
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.watching import OVERVIEW, Relocated, Watching
from tests.admin.running import Result

TIME_LIMIT_SECONDS: Final = 30


@contextmanager
def admin_of(
    moved: Moved | None,
    grouped: Grouped | None = None,
    access: Access | None = None,
    *,
    clients: Sequence[ClientsOf] = (),
    whole: Overview = OVERVIEW,
    relocates: Callable[[], Relocates | None] = Relocated,
    tls: TlsContext | None = None,
) -> Iterator[str]:
    """Gives its address. ``moved``: None for a shim that only starts."""
    watching = Watching(moved, grouped or Grouped(moved or Moved()))
    watching.seen = clients
    watching.whole = whole
    watching.relocates = relocates()
    found: Future[int] = Future()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serve_admin(HostPort("127.0.0.1", 0), watching, access, tls=tls) as port:
            found.set_result(port)
            await stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"127.0.0.1:{found.result(TIME_LIMIT_SECONDS)}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(TIME_LIMIT_SECONDS)


def offset_shim(*args: str) -> Result:
    """In this process; whatever it raises beside its exit status fails the test."""
    result = CliRunner().invoke(cli, args, catch_exceptions=False)
    return Result(result.exit_code, result.stdout, result.stderr)


def in_a_process(*args: str, answers: str | None = None) -> Result:
    """``answers``: typed at a terminal that is its standard input and error; without, standard input is none."""
    if answers is None:
        done = commands.ended(*args)
        return Result(done.returncode, done.stdout, done.stderr)
    ours, theirs = os.openpty()
    told: list[bytes] = []
    reading = threading.Thread(target=_read_all, args=(ours, told))
    try:
        os.write(ours, answers.encode())
        reading.start()
        done = commands.ended(*args, stdin=theirs, stderr=theirs)
    finally:
        os.close(theirs)
        reading.join(TIME_LIMIT_SECONDS)
        os.close(ours)
    return Result(done.returncode, done.stdout, b"".join(told).decode())


@contextmanager
def at_a_terminal_of_its_own(*args: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, at a terminal that is its standard input and error, and where Ctrl-C reaches it; and the other end
    of that, to type at and to read from."""
    ours, theirs = os.openpty()

    def take_it() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # where tests run in the background of a shell, it is ignored

    with subprocess.Popen(
        [sys.executable, "-m", "shim.main", *args],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        start_new_session=True,
        preexec_fn=take_it,
    ) as command:
        os.close(theirs)
        try:
            yield command, ours
        finally:
            command.kill()
            os.close(ours)


def read_until(terminal: int, text: str, typed: bytes = b"") -> str:
    """All that it says up to there. Raises OSError where it ends before. ``typed``: before that, and again each second
    in which it says nothing: a signal that comes right before a process reads what is typed is seen after that."""
    told = b""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    os.write(terminal, typed)
    while text.encode() not in told:
        if select.select([terminal], [], [], 1.0)[0]:
            told += os.read(terminal, 65_536)
        else:
            assert time.monotonic() < deadline, told
            os.write(terminal, typed)
    return told.decode()


def _read_all(terminal: int, told: list[bytes]) -> None:
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # EIO: nobody is at the other end any more
            return
        told.append(piece)
