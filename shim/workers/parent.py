"""`serve --workers N`: a parent, and N processes that share the ports and the partitions of the log.

The parent has the data directory, opens the ports and serves nothing. Each worker is a fork of it, and has the lock of
the directory with it: so nobody else can have the directory before all of them are gone, whoever of them dies how.

- A worker that is killed by a signal, once it has served, is begun again, and the others go on: what it had
  acknowledged is in its journal and its segments, nobody else writes to those, and the system says that it is gone
  before its successor opens them.
- One that ends by itself, or is killed before it has ever served, would do so again: all are ended, as one process ends
  that cannot go on, and whoever has started the parent decides.
- Where one cannot be begun, as the system has no room for it, all are ended, too.
- Where the parent dies the workers hear of it at once, and end in good order: nobody would begin them again, and none
  keeps the lock from the next parent for longer than that takes.

No thread and no event loop here: a fork has neither then.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from shim.config import HostPort
from shim.counted import counted
from shim.disk_log import open_whole
from shim.given import Given
from shim.log import LogError, OffsetsLog, Share
from shim.log.directory.shares import end_in_good_order
from shim.log.disk.files import Files
from shim.log.errors import unusable
from shim.net.listening import listening_on
from shim.upstream import reason_of
from shim.workers.at_parent import MOST_BYTES, AtParent, Worker

log = logging.getLogger("shim")

_PATIENCE_SECONDS: Final = 20.0
"""How long a worker may take to end beyond `shutdown.drain.timeout.ms`: its last writes and snapshots are bounded."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

Run = Callable[[Worker, bool], int]
"""Be a worker, to its end; gives the exit status. The second one: whether the settings are to be read again first."""


class Manager(Protocol):
    """Whoever has started the parent. ``every_seconds``: how often it wants to hear that it is :meth:`alive`, if at
    all."""

    @property
    def every_seconds(self) -> float | None: ...

    def alive(self) -> None: ...

    def stopping(self) -> None: ...


class CannotGoOn(Exception):
    """Why all workers have ended, or none was begun; the message is one line fit for a terminal."""


class _Child:
    """``is_ready``: whether it has ever served. ``drain_ms``: its `shutdown.drain.timeout.ms`."""

    def __init__(self, number: int, channel: socket.socket, drain_ms: int) -> None:
        self.number = number
        self.channel = channel
        self.is_ready = False
        self.left_clean = False
        self.drain_ms = drain_ms


class _Port:
    """Listening sockets of one address, and which workers accept there."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self.sockets = sockets
        self.workers: set[int] = set()

    def close(self) -> None:
        for each in self.sockets:
            each.close()


class Parent:
    """For the main thread of a process that has no other."""

    def __init__(self, given: Given, ready: Callable[[str], None], run: Run, manager: Manager) -> None:
        """``ready`` is told in a line when all workers serve; ``manager`` that the parent is alive, and when it stops:
        of a worker that hangs it does not know."""
        self._given = given
        self._count = given.settings.workers
        self._ready = ready
        self._run = run
        self._manager = manager
        self._children: dict[int, _Child] = {}
        self._ports: dict[HostPort, _Port] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = socket.socketpair()
        self._came: list[int] = []
        self._hung_up = False
        self._is_stopping = False
        self._told_ready = False
        self._why: str | None = None
        self._give_up_at: float | None = None
        self._alive_at: float | None = None
        self._left_clean: dict[int, bool] = {}

    def serve(self, *, hung_up: bool = False) -> None:
        """Until SIGTERM or SIGINT. ``hung_up``: whether there was a SIGHUP by now. Raises :class:`CannotGoOn`."""
        self._hung_up = hung_up
        # Nothing is served yet, and a start can break off anywhere.
        signal.signal(signal.SIGTERM, _end_at_once)
        signal.signal(signal.SIGINT, _end_at_once)
        opened, clean = self._deal_out()
        try:
            self._listen_to_signals()
            self._say_alive()
            for number in range(self._count):
                if not self._is_stopping:
                    self._begin(number, clean=clean)
            while self._children:
                self._turn()
        finally:
            for port in self._ports.values():
                port.close()
            self._selector.close()
            if not self._children and all(self._left_clean.get(number) for number in range(self._count)):
                _end_in_good_order(opened)
            opened.data_dir.close()
        log.info("stopped")
        if self._why is not None:
            raise CannotGoOn(self._why)

    def _deal_out(self) -> tuple[OffsetsLog, bool]:
        data_dir = self._given.data_dir
        try:
            opened = open_whole(data_dir, self._given.settings)
            return opened, opened.deal_out(self._count)
        except LogError as error:
            raise CannotGoOn(str(error)) from error
        except OSError as error:
            raise CannotGoOn(unusable(data_dir, error)) from error

    # -- workers

    def _begin(self, number: int, *, clean: bool) -> None:
        """Where the system has no room for one more, all are ended: its partitions would be nobody's for who knows how
        long, and whoever has started the parent is to know."""
        try:
            pid, ours = self._forked(number, clean=clean)
        except OSError as error:
            self._stop(f"worker {number} cannot be begun: {reason_of(error)}")
            return
        child = self._children[pid] = _Child(number, ours, self._given.settings.shutdown_drain_timeout_ms)
        self._selector.register(ours, selectors.EVENT_READ, child)

    def _forked(self, number: int, *, clean: bool) -> tuple[int, socket.socket]:
        """The worker, which does not return from here, and the socket to it. Raises OSError."""
        sys.stdout.flush()
        sys.stderr.flush()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._be_worker(Worker(Share(number, self._count), clean, AtParent(theirs)), ours)
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        return pid, ours

    def _be_worker(self, worker: Worker, ours: socket.socket) -> None:
        """In the fork, which ends here."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            hung_up: list[int] = []
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, lambda number, _: hung_up.append(number))
            signal.signal(signal.SIGTERM, _end_at_once)
            signal.signal(signal.SIGINT, _end_at_once)
            self._selector.close()
            for each in (ours, self._woken, self._wakes, *(child.channel for child in self._children.values())):
                each.close()
            for port in self._ports.values():
                port.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            status = self._run(worker, self._hung_up or bool(hung_up))
        except BaseException:
            log.exception("worker %d", worker.share.number)
        finally:
            logging.shutdown()
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            # Not as a program ends: nothing of the parent's, in whose code this is, is to be done here.
            os._exit(status)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            child = self._children.get(pid)
            if child is None:
                continue
            self._hear(child)  # what it has said last
            del self._children[pid]
            self._selector.unregister(child.channel)
            child.channel.close()
            for port in self._ports.values():
                port.workers.discard(child.number)
            self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, status: int) -> None:
        self._left_clean[child.number] = child.left_clean and not status
        if self._is_stopping:
            if status and self._why is None:
                self._why = f"worker {child.number} did not end in good order: {_how(status)}"
            return
        if status < 0 and child.is_ready:
            log.error("worker %d is gone: %s; another one takes its place", child.number, _how(status))
            self._begin(child.number, clean=False)
            return
        self._stop(self._why or f"worker {child.number} is gone: {_how(status)}")

    # -- what comes

    def _turn(self) -> None:
        due = [at for at in (self._give_up_at, self._alive_at) if at is not None]
        for key, _ in self._selector.select(max(0.0, min(due) - time.monotonic()) if due else None):
            if key.data is not None:
                self._hear(key.data)
            else:
                with suppress(BlockingIOError):
                    self._woken.recv(MOST_BYTES)
        came, self._came = self._came, []
        if signal.SIGHUP in came:
            self._hung_up = True
            self._signal(signal.SIGHUP)
        if signal.SIGTERM in came or signal.SIGINT in came:
            self._stop(None)
        self._reap()
        if self._alive_at is not None and time.monotonic() >= self._alive_at:
            self._say_alive()
        if self._give_up_at is not None and time.monotonic() >= self._give_up_at:
            self._give_up_at = time.monotonic() + _PATIENCE_SECONDS
            log.error("%s did not end in time, and is killed", counted(len(self._children), "worker"))
            self._signal(signal.SIGKILL)

    def _say_alive(self) -> None:
        if self._manager.every_seconds is not None:
            self._manager.alive()
            self._alive_at = time.monotonic() + self._manager.every_seconds

    def _listen_to_signals(self) -> None:
        self._woken.setblocking(False)
        self._wakes.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda number, _: self._came.append(number))

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._children:
            os.kill(pid, number)  # it is not reaped yet, so nobody else has its number

    def _stop(self, why: str | None) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        self._manager.stopping()
        self._why = why
        if why is not None:
            log.error("%s; all workers end", why)
        # First: what comes now is refused, and waits for nobody.
        for port in self._ports.values():
            port.close()
        self._ports.clear()
        longest_ms = max((child.drain_ms for child in self._children.values()), default=0)
        self._give_up_at = time.monotonic() + longest_ms / 1000 + _PATIENCE_SECONDS
        self._signal(signal.SIGTERM)

    def _hear(self, child: _Child) -> None:
        """All that it has said by now."""
        while True:
            try:
                data = child.channel.recv(MOST_BYTES)
            except (BlockingIOError, ConnectionError):
                return
            if not data:
                return
            self._told(child, json.loads(data))

    def _told(self, child: _Child, message: dict[str, Any]) -> None:
        ((what, value),) = message.items()
        if what == "open":
            address, found = value
            self._open(child, HostPort(*address), found)
        elif what == "closed":
            self._closed(child, HostPort(*value))
        elif what == "ready":
            self._is_ready(child, value)
        elif what == "failed":
            self._why = self._why or (None if self._is_stopping else value)
        elif what == "drains":
            child.drain_ms = value
        elif what == "left":
            child.left_clean = value

    def _is_ready(self, child: _Child, line: str) -> None:
        child.is_ready = True
        if self._told_ready:
            log.info("worker %d serves again", child.number)
            for address in [address for address, port in self._ports.items() if not port.workers]:
                self._ports.pop(address).close()  # it was the last one there, and does not come back to it
            return
        ready = [each for each in self._children.values() if each.is_ready]
        if len(ready) == self._count and not self._is_stopping:
            self._told_ready = True
            self._ready(f"{line}, {counted(self._count, 'worker')}")

    # -- ports

    def _open(self, child: _Child, address: HostPort, found: list[list[Any]] | None) -> None:
        """The sockets go to the worker. It need not be there any more."""
        try:
            if self._is_stopping:
                raise ConnectionAbortedError("it is being stopped")
            port = self._ports.get(address)
            if port is None:
                if found is None:
                    _say(child, {"unknown": None})
                    return
                port = self._ports[address] = _Port(listening_on((*each, tuple(where)) for *each, where in found))
        except OSError as error:
            _say(child, {"refused": [error.errno or 0, error.strerror or str(error)]})
            return
        if _say(child, {"opened": len(port.sockets)}, port.sockets):
            port.workers.add(child.number)
        else:
            self._close_unused(address)

    def _closed(self, child: _Child, address: HostPort) -> None:
        port = self._ports.get(address)
        if port is not None:
            port.workers.discard(child.number)
            self._close_unused(address)

    def _close_unused(self, address: HostPort) -> None:
        """Where none accepts any more nobody is to wait for it."""
        if not self._ports[address].workers:
            self._ports.pop(address).close()


def _say(child: _Child, message: dict[str, Any], sockets: list[socket.socket] | None = None) -> bool:
    """Whether it can hear it: not where it is gone, or does not read, which it cannot go on with."""
    try:
        socket.send_fds(child.channel, [json.dumps(message).encode()], [each.fileno() for each in sockets or ()])
    except OSError:
        return False
    return True


def _end_in_good_order(opened: OffsetsLog) -> None:
    try:
        end_in_good_order(Files(), opened.data_dir.path)
    except (LogError, OSError) as error:
        log.warning("%s: not noted that it was closed in good order: %s", opened.data_dir.path, error)


def _end_at_once(number: int, _: object) -> None:
    os._exit(0)


def _how(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


def of_worker(given: Given, share: Share) -> Given:
    """What one of several is given: what there is once is at the first of them."""
    return given if share.number == 0 else given._replace(admin=None)
