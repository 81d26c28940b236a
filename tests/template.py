"""Shims that begin as copies of a process that has imported all that one needs.

That is half of the processor time of a short-lived one, and the same each time. The process has done that and nothing
else: no thread runs in it, and no file is open. From there on each copy goes its way by its command line.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock, active_count
from typing import IO, Any, Final

from shim.demo.parts.die_with_parent import die_with
from shim.demo.parts.process import Output, Spawned, StartFailed, spawn

IMPORTED: Final = (
    *("uvloop", "shim.main", "shim.given", "shim.serve", "shim.serve.real_time", "shim.serve.service_manager"),
    *("shim.serve.statsd", "shim.admin.live.guard.token_file", "shim.admin.live.port.serving"),
    *("shim.workers.at_parent", "shim.workers.parent"),
    *(f"shim.admin.commands.{name}" for name in ("config", "groups", "log", "migrate")),
)
"""What `serve` imports when it begins, and with an admin port, and what the other commands do."""

_LARGEST = 1 << 17  # bytes of a request: arguments and an environment


class _Copy:
    """It is the template's child, so that one has to reap it."""

    def __init__(self, pid: int, stdout: IO[str], reaped: Callable[[int], int]) -> None:
        """``reaped`` gives back the exit status, negative for a signal."""
        self.pid = pid
        self.stdin = None
        self.stdout = stdout
        self.returncode: int | None = None
        self._reaped = reaped
        self._ended = os.pidfd_open(pid)

    def await_end(self) -> None:
        ending = select.poll()
        ending.register(self._ended, select.POLLIN)
        ending.poll()

    def wait(self) -> int:
        if self.returncode is None:
            self.await_end()
            self.returncode = self._reaped(self.pid)
            os.close(self._ended)
        return self.returncode


class Template:
    """The process that is copied: it is begun when the first copy is asked for. For threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Processor time of the copies that have ended, and of what these have begun and reaped."""
        self._asking = Lock()
        self._process: Spawned | None = None
        self._socket: socket.socket | None = None

    def spawn(
        self, argv: Sequence[str], *, stdin: Output, stderr: Output, cwd: Path | None, patch: str = ""
    ) -> Spawned:
        """As :func:`shim.demo.parts.process.spawn`, of the shim's command line: ``argv[0]`` is its name. ``stdin`` is
        there or none, and ``stderr`` a file. ``patch``: Python that the copy runs before."""
        assert isinstance(stdin, int)
        assert not isinstance(stderr, int | None)
        environment = dict(os.environ)
        request = {"argv": list(argv), "cwd": str(cwd or Path.cwd()), "environment": environment, "patch": patch}
        with Path(os.devnull).open("rb") as none:
            given = none.fileno() if stdin == subprocess.DEVNULL else stdin
            ours, theirs = os.pipe()
            try:
                (pid,) = self._asked(request, [given, theirs, stderr.fileno()])
            except BaseException:
                os.close(ours)
                raise
            finally:
                os.close(theirs)
        return _Copy(pid, os.fdopen(ours, encoding="utf-8", errors="replace"), self._reaped)

    def end(self) -> None:
        """All copies have ended."""
        if self._process is None or self._socket is None:
            return
        self._socket.close()
        self._process.wait()

    def _reaped(self, pid: int) -> int:
        status, seconds = self._asked({"reap": pid})
        self.seconds += seconds
        return int(status)

    def _asked(self, request: Mapping[str, Any], files: Sequence[int] = ()) -> list[Any]:
        with self._asking:
            if self._socket is None:
                self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    program = [sys.executable, "-m", __name__]
                    self._process = spawn(program, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=None)
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            answer = self._socket.recv(_LARGEST)
        if not answer:
            raise StartFailed("the process that shims are copies of has ended: what it said is above")
        numbers: list[Any] = json.loads(answer)
        return numbers


# --- in the process that is copied -----------------------------------------------------------------------------------


def main() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a copy that looked at all that is imported would have it twice in memory
    assert active_count() == 1, "threads are not copied"
    asking = socket.socket(fileno=sys.stdin.fileno())
    while request := _received(asking):
        match request:
            case {"reap": ended}, []:
                _, status, used = os.wait4(ended, 0)
                answer = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]
            case {"argv": argv, "cwd": cwd, "environment": environment, "patch": patch}, files:
                template = os.getpid()
                answer = [pid := os.fork()]
                if pid == 0:
                    asking.detach()
                    _become(template, files, cwd, environment)
                    sys.argv = argv
                    exec(patch, {})
                    sys.modules["shim.main"].cli()
                for file in files:
                    os.close(file)
        asking.send(json.dumps(answer).encode())


def _received(asking: socket.socket) -> tuple[Any, list[int]] | None:
    request, files, _, _ = socket.recv_fds(asking, _LARGEST, 3)
    return (json.loads(request), files) if request else None


def _become(template: int, files: Sequence[int], cwd: str, environment: Mapping[str, str]) -> None:
    """What :func:`shim.demo.parts.process.spawn` has done for a program of its own."""
    os.setsid()
    die_with(template)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)


if __name__ == "__main__":
    main()
