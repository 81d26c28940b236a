"""ZooKeeper, used by kazoo."""

from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from shim.demo.parts import StartFailed, ZooKeeper


def test_it_answers_kazoo_and_keeps_its_data_over_a_restart(zookeeper: ZooKeeper) -> None:
    client = KazooClient(zookeeper.connect_string)
    client.start(timeout=20)
    try:
        client.create("/consumers/g/offsets/t/0", b"42", makepath=True)
    finally:
        client.stop()
        client.close()
    zookeeper.restart()
    client = KazooClient(zookeeper.connect_string)
    client.start(timeout=20)
    try:
        assert client.get("/consumers/g/offsets/t/0")[0] == b"42"
    finally:
        client.stop()
        client.close()


def test_only_loopback_is_listened_on(zookeeper: ZooKeeper) -> None:
    connections = psutil.Process(zookeeper.pid).net_connections("tcp")
    listening = [connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN]
    addresses = [(address.ip.removeprefix("::ffff:"), address.port) for address in listening]
    assert addresses == [("127.0.0.1", zookeeper.port)]


def test_an_exception_leaves_nothing_running(tmp_path: Path) -> None:
    zookeeper = ZooKeeper(tmp_path)
    pids = []

    def use() -> None:
        with zookeeper:
            pids.append(zookeeper.pid)
            assert "Mode: standalone" in zookeeper.four_letter_word("srvr")
            raise KeyError("of the test")

    with pytest.raises(KeyError, match="of the test"):
        use()
    assert not psutil.pid_exists(pids[0])


def test_a_failed_start_shows_the_log(tmp_path: Path) -> None:
    zookeeper = ZooKeeper(tmp_path, settings={"tickTime": "soon"})
    with pytest.raises(StartFailed, match=r"(?s)ZooKeeper at 127\.0\.0\.1:\d+: ended.*soon"):
        zookeeper.start()
    assert not zookeeper.running
