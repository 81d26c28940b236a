"""A real ZooKeeper, an ensemble of one."""

import socket
import time
from collections.abc import Mapping
from pathlib import Path

from shim.demo.parts.jars import ZOOKEEPER, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.ports import free_port
from shim.demo.parts.process import Child, StartFailed
from shim.demo.parts.server import Server

# Logged once the request pipeline stands; what is sent before may never be answered.
_STARTED = "PrepRequestProcessor (sid:0) started"
_POLL_S = 0.05
_WORD_TIMEOUT_S = 1.0


class ZooKeeper(Server):
    """One ZooKeeper server.

    `folder` keeps `zoo.cfg`, `zookeeper.log` and `data/`. `settings` go into zoo.cfg, before all others.
    """

    title = "ZooKeeper"
    log_name = "zookeeper.log"

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
        super().__init__(folder, host, free_port(host), heap_mb, start_timeout, stop_timeout, release)
        self._settings = dict(settings or {})

    @property
    def connect_string(self) -> str:
        """`host:port`, without a chroot."""
        return self.address

    def _launched(self) -> Child:
        jars = jar_set(self.release)
        self._make_archive(jars, lambda folder: ZooKeeper(folder, release=self.release, stop_timeout=60.0))
        config = self.folder / "zoo.cfg"
        settings: dict[str, str | int] = {
            "dataDir": str(self.folder / "data"),
            "clientPort": self.port,
            "clientPortAddress": self.host,
            "admin.enableServer": "false",
            "tickTime": 500,
            "maxSessionTimeout": 60_000,  # it is 20 ticks otherwise, and a busy machine may start it for longer
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "ruok,srvr,mntr,wchs",
            **self._settings,
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = java_command(
            *(jars, main_class, str(config)), heap_mb=self.heap_mb, record_archive=self._record_archive
        )
        return Child(command, ready=_STARTED, log=self.log, cwd=self.folder)

    def four_letter_word(self, word: str) -> str:
        """The answer to `ruok`, `srvr`, `mntr` or `wchs`. Raises OSError when none comes within a second."""
        with socket.create_connection((self.host, self.port), _WORD_TIMEOUT_S) as connection:
            connection.sendall(word.encode("ascii"))
            with connection.makefile("rb") as answer:
                return answer.read().decode()

    def _wait_serving(self, child: Child) -> None:
        """Ask until it serves: its last line about the start comes a moment before, and so does its first `imok`."""
        super()._wait_serving(child)
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
