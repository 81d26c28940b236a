"""A ZooKeeper ensemble of three on this machine, of which one server can be lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shim.demo.parts import StartFailed, ZooKeeper, free_port
from shim.demo.parts.jars import jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child
from tests.waiting import wait_until

_SERVERS: Final = 3
_HOST: Final = "127.0.0.1"
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class QuorumServer(ZooKeeper):
    """One of several. ``number``: its own, from 1 on; ``quorum``: the lines ``server.N`` of all."""

    def __init__(self, folder: Path, number: int, quorum: Sequence[str]) -> None:
        super().__init__(folder)
        self.number = number
        self._quorum = quorum

    def _launched(self) -> Child:
        config, data = self.folder / "zoo.cfg", self.folder / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{self.number}\n")
        lines = [
            f"dataDir={data}",
            f"clientPort={self.port}",
            f"clientPortAddress={self.host}",
            "admin.enableServer=false",
            "tickTime=500",
            "initLimit=20",
            "syncLimit=10",
            "maxClientCnxns=0",
            "4lw.commands.whitelist=srvr",
            *self._quorum,
        ]
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = java_command(jar_set(self.release), _MAIN, str(config), heap_mb=self.heap_mb)
        return Child(command, ready="binding to port", log=self.log, cwd=self.folder)

    def mode(self) -> str:
        """``leader`` or ``follower``; "" while it serves nobody."""
        try:
            answer = self.four_letter_word("srvr")
        except OSError:
            return ""
        return answer.partition("Mode: ")[2].partition("\n")[0]

    def _wait_serving(self, child: Child) -> None:
        """Until it has a quorum: the others have to be launched by then."""
        child.wait_ready(self.start_timeout)
        try:
            wait_until(lambda: bool(self.mode()), "no quorum", self.start_timeout)
        except TimeoutError as error:
            raise StartFailed(f"it does not serve: {error}\n{child.tail()}") from error


class ZooKeeperEnsemble:
    def __init__(self, folder: Path) -> None:
        numbers = range(1, 1 + _SERVERS)
        quorum = [f"server.{number}={_HOST}:{free_port(_HOST)}:{free_port(_HOST)}" for number in numbers]
        self.servers = [QuorumServer(folder / str(number), number, quorum) for number in numbers]

    @property
    def connect_string(self) -> str:
        return ",".join(each.address for each in self.servers)

    def start(self) -> None:
        """Those that do not run."""
        for each in self.servers:
            each.launch()
        for each in self.servers:
            each.wait_started()

    def stop(self) -> None:
        for each in self.servers:
            each.kill()

    def leader(self) -> QuorumServer:
        """The one that there is, or will be."""
        found: list[QuorumServer] = []

        def led() -> bool:
            found[:] = [each for each in self.servers if each.running and each.mode() == "leader"]
            return len(found) == 1

        wait_until(led, "no leader is elected")
        return found[0]


@contextmanager
def zookeeper_ensemble(folder: Path) -> Iterator[ZooKeeperEnsemble]:
    made = ZooKeeperEnsemble(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
