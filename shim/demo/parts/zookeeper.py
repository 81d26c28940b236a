"""A real ZooKeeper, an ensemble of one."""

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from shim.demo.parts.jars import ZOOKEEPER, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.ports import free_port
from shim.demo.parts.process import Child, StartFailed

# Logged once the request pipeline stands; what is sent before may never be answered.
_STARTED = "PrepRequestProcessor (sid:0) started"
_POLL_S = 0.05
_WORD_TIMEOUT_S = 1.0


class ZooKeeper:
    """One ZooKeeper server on a loopback address.

    `folder` keeps `zoo.cfg`, `zookeeper.log` (its output, appended over restarts) and `data/`. Port and data stay the
    same over `stop`, `kill` and `start`. As a context manager it is started, and stopped however the block ends.
    `settings` go into zoo.cfg, before all others.

    Starting raises PartsUnavailable (no Java, no jars) and StartFailed (with the tail of the log); nothing is left
    running then.
    """

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        settings: Mapping[str, str | int] | None = None,
        heap_mb: int = 64,
        start_timeout: float = 30.0,
        stop_timeout: float = 10.0,
        release: str = ZOOKEEPER,
    ) -> None:
        self.folder = folder
        self.host = host
        self.port = free_port(host)
        self.heap_mb = heap_mb
        self.start_timeout = start_timeout
        self.stop_timeout = stop_timeout
        self.release = release
        self._settings = dict(settings or {})
        self._child: Child | None = None

    @property
    def connect_string(self) -> str:
        """`host:port`, without a chroot."""
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.folder / "zookeeper.log"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when the server does not run."""
        if self._child is None or not self._child.running:
            raise RuntimeError("ZooKeeper is not running")
        return self._child.pid

    def start(self) -> Self:
        """Start it, with the data it has; returns when it takes requests. Nothing happens when it runs already."""
        if self.running:
            return self
        jars = jar_set(self.release)
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "zoo.cfg"
        settings: dict[str, str | int] = {
            "dataDir": str(self.folder / "data"),
            "clientPort": self.port,
            "clientPortAddress": self.host,
            "admin.enableServer": "false",
            "tickTime": 500,
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "ruok,srvr,mntr,wchs",
            **self._settings,
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = java_command(jars, main_class, str(config), heap_mb=self.heap_mb)
        self._child = Child(command, ready=_STARTED, log=self.log, cwd=self.folder)
        try:
            self._child.wait_ready(self.start_timeout)
            self._wait_serving()
        except StartFailed as error:
            self.kill()
            raise StartFailed(f"ZooKeeper at {self.connect_string}: {error}") from None
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """SIGTERM, SIGKILL after `stop_timeout` seconds. Nothing happens when it does not run."""
        if self._child is not None:
            self._child.stop(self.stop_timeout)

    def kill(self) -> None:
        """SIGKILL. Nothing happens when it does not run."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> None:
        """`stop`, then `start`: same port, same data."""
        self.stop()
        self.start()

    def four_letter_word(self, word: str) -> str:
        """The answer to `ruok`, `srvr`, `mntr` or `wchs`. Raises OSError when none comes within a second."""
        with socket.create_connection((self.host, self.port), _WORD_TIMEOUT_S) as connection:
            connection.sendall(word.encode("ascii"))
            with connection.makefile("rb") as answer:
                return answer.read().decode()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_serving(self) -> None:
        """Ask until it serves: its last line about the start comes a moment before, and so does its first `imok`."""
        deadline = time.monotonic() + self.start_timeout
        while True:
            try:
                if "Mode: " in (answer := self.four_letter_word("srvr")):
                    return
            except OSError as error:
                last = error
            else:
                last = ConnectionError(answer.strip())
            if time.monotonic() > deadline or not self.running:
                raise StartFailed(f"it does not serve: {last}")
            time.sleep(_POLL_S)
