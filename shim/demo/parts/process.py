"""Child processes that never outlive this one, their output read by a thread."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Protocol

_LAUNCHER = Path(__file__).with_name("die_with_parent.py")
_TAIL_LINES = 30
_ERROR_LINES = 40
_LOG_LINE = "["  # every line of log4j's and ZooKeeper's logs begins so, and no line of a stack trace does
_ERROR_MARKS = (" ERROR ", " FATAL ", "Exception in thread")

Output = int | IO[bytes] | None


class StartFailed(RuntimeError):
    """A process ended, or let its time limit pass, before it said that it had started. Carries its last output."""


class Spawned(Protocol):
    """A program that was started, as `subprocess.Popen` has it: `stdout` is a pipe of lines, `stdin` may be one."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[str] | None: ...
    @property
    def stdout(self) -> IO[str] | None: ...
    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None until `wait` has returned."""

    def await_end(self) -> None:
        """Without reaping it: the pid stays its own."""

    def wait(self) -> int:
        """For its end; it is reaped on return. Gives back `returncode`."""


class Spawn(Protocol):
    def __call__(self, argv: Sequence[str], *, stdin: Output, stderr: Output, cwd: Path | None) -> Spawned:
        """As the function `spawn`."""


class _Process(subprocess.Popen[str]):
    def await_end(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)


class _Starter:
    """The one thread that forks, alive until this process ends: the parent-death signal follows the forking thread."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Callable[[], _Process], Future[_Process]]]
        self._requests = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="parts-starter", daemon=True).start()

    def _serve(self) -> None:
        while True:
            request, answer = self._requests.get()
            try:
                answer.set_result(request())
            except BaseException as error:
                answer.set_exception(error)

    def start(self, request: Callable[[], _Process]) -> _Process:
        answer: Future[_Process] = Future()
        self._requests.put((request, answer))
        try:
            return answer.result()
        except BaseException:
            answer.add_done_callback(_discard)  # interrupted while it was being started: nobody would own it
            raise


def _discard(answer: Future[_Process]) -> None:
    if answer.exception() is None:
        process = answer.result()
        process.kill()
        process.wait()


_starter: _Starter | None = None
_starter_lock = threading.Lock()


def _forget_starter() -> None:
    global _starter, _starter_lock
    _starter, _starter_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_starter)  # threads do not survive a fork


def spawn(
    argv: Sequence[str],
    *,
    stdin: Output = subprocess.DEVNULL,
    stdout: Output = subprocess.PIPE,
    stderr: Output = subprocess.STDOUT,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> _Process:
    """Start `argv` (program as an absolute path) so that it dies when this process does, however this one ends.

    It gets a session of its own, so that Ctrl-C at a terminal leaves it to its owner to stop it in order.
    Raises OSError when no process can be started.
    """
    global _starter
    command = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *argv]

    def request() -> _Process:
        return _Process(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    with _starter_lock:
        if _starter is None:
            _starter = _Starter()
        starter = _starter
    return starter.start(request)


class Child:
    """A running program, its standard output read line by line by a thread until it ends.

    `ready`: a text in the line that says the program has started. `log`: a file that gets every line, appended.
    `on_line` is called in the reading thread, without the line's end. `spawned_by` starts it, in place of `spawn`.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        ready: str | None = None,
        log: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        stdin: Output = subprocess.DEVNULL,
        stderr: Output = subprocess.STDOUT,
        cwd: Path | None = None,
        spawned_by: Spawn = spawn,
    ) -> None:
        self._ready_text = ready
        self._on_line = on_line
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._errors: list[str] = []
        self._in_error = False
        self._settled = threading.Event()  # ready, or ended without ever being so
        self._is_ready = False
        self._ended = threading.Event()
        self._reaping = threading.Lock()
        log_file = log.open("a", encoding="utf-8") if log else None
        try:
            self.process = spawned_by(argv, stdin=stdin, stderr=stderr, cwd=cwd)
        except BaseException:
            if log_file:
                log_file.close()
            raise
        self.pid = self.process.pid
        self._reader = threading.Thread(
            target=self._read, args=(log_file,), name=f"parts-output-{self.pid}", daemon=True
        )
        self._reader.start()

    def _read(self, log_file: IO[str] | None) -> None:
        output = self.process.stdout
        assert output is not None
        try:
            for line in output:
                self._take(line.rstrip("\r\n"))
                if log_file:
                    log_file.write(line)
                    log_file.flush()
        finally:
            output.close()
            if log_file:
                log_file.close()
            self.process.await_end()  # unreaped: the pid stays this child's own while a signal may be on its way
            with self._reaping:
                self.process.wait()
            self._ended.set()
            self._settled.set()

    def _take(self, line: str) -> None:
        self._tail.append(line)
        if line.startswith(_LOG_LINE) or not self._in_error:
            self._in_error = any(mark in line for mark in _ERROR_MARKS)
        if self._in_error and len(self._errors) < _ERROR_LINES:
            self._errors.append(line)
        if self._ready_text is not None and self._ready_text in line:
            self._is_ready = True
            self._settled.set()
        if self._on_line:
            self._on_line(line)

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal (as in `subprocess`); None while it runs."""
        return self.process.returncode if self._ended.is_set() else None

    def tail(self) -> str:
        """The last lines of its output; before them the first errors, where the last lines do not show them."""
        last = list(self._tail.copy())
        errors = self._errors.copy()
        return "\n".join(last if set(errors) <= set(last) else [*errors, "…", *last])

    def wait_ready(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the line that says it has started.

        Raises StartFailed when the program ended or stayed silent; a silent one goes on running.
        """
        if not self._settled.wait(timeout):
            raise StartFailed(f"no line with {self._ready_text!r} within {timeout:g} s; its last lines:\n{self.tail()}")
        if not self._is_ready:
            raise StartFailed(f"ended with exit status {self.returncode} before it had started:\n{self.tail()}")

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the program has ended."""
        with self._reaping:
            if self.process.returncode is None:
                os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end and for its last line to be read; False when `timeout` seconds passed first."""
        if not self._ended.wait(timeout):
            return False
        self._reader.join()
        return True

    def stop(self, timeout: float) -> None:
        """SIGTERM, then SIGKILL when it still runs after `timeout` seconds. It is gone and reaped on return."""
        self.send_signal(signal.SIGTERM)
        try:
            self.wait(timeout)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL. It is gone and reaped on return."""
        self.send_signal(signal.SIGKILL)
        self.wait()
