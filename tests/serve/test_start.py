"""`offset-shim serve` starting: it waits for a cluster, and says in one line why it cannot start."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import psutil
import pytest

from protocol.errors import ErrorCode
from protocol.messages import heartbeat, metadata, offset_commit
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.partition import partition_for
from shim.config import HostPort, load_configuration
from shim.demo.parts import Broker, free_port_range
from shim.demo.parts.process import Child
from shim.given import given_to_serve
from shim.log import OffsetsLog, PartitionWrite
from shim.net.own_ports import leads_to
from shim.serve import CannotStart, check_ports
from tests import commands
from tests.admin.live.running import offset_shim
from tests.faults.relay import Relay
from tests.serve.test_connections import commit, commit_request, committed
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

TIMEOUT_SECONDS = 30
ONE_PARTITION = ("--set", "offsets.topic.num.partitions=1")


def serve(data_dir: Path, bootstrap: str, port: int, *args: str) -> list[str]:
    return [
        sys.executable, "-m", "shim.main", "serve", "--bootstrap-servers", bootstrap,
        "--listen", f"127.0.0.1:{port}", "--data-dir", str(data_dir), *args,
    ]  # fmt: skip


def refused(argv: Sequence[str]) -> str:
    """Run a shim that cannot start; gives the one line it says."""
    _, _, _, *args = argv
    result = commands.ended(*args)
    assert result.returncode not in (0, None)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith(("Error", "Usage"))]
    assert len(errors) == 1, result.stderr
    return errors[0]


def test_without_a_broker_it_says_so_once_and_keeps_trying(broker: Broker, tmp_path: Path) -> None:
    broker.stop()
    told = threading.Event()
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if "no broker can be reached" in line:
            told.set()

    port = free_port_range(4)
    child = Child(serve(tmp_path / "data", broker.bootstrap_servers, port), ready="offset-shim ready", on_line=on_line)
    try:
        assert told.wait(TIMEOUT_SECONDS), lines
        broker.start()
        child.wait_ready(TIMEOUT_SECONDS)
        with WireClient(port + 1 + broker.node_id):
            pass
    finally:
        child.stop(TIMEOUT_SECONDS)
    assert child.returncode == 0
    assert sum("no broker can be reached" in line for line in lines) == 1
    assert sum("cluster reached again" in line for line in lines) == 1
    at = f"127.0.0.1:{port}, broker {broker.node_id} at port {port + 1 + broker.node_id}, data in {tmp_path / 'data'}"
    assert lines.count(f"offset-shim ready on {at}") == 1
    assert lines[-1].endswith(" stopped")


@pytest.fixture
def taken() -> Iterator[HostPort]:
    """Somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield HostPort(*listening.getsockname())


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "two"])
def test_a_port_that_is_taken(tmp_path: Path, taken: HostPort, workers: tuple[str, ...]) -> None:
    """That is all that is said, and nothing is left behind: a new data directory would be no new one the next time."""
    _, _, _, *args = serve(tmp_path / "data", "127.0.0.1:1", free_port_range(4), "--admin", str(taken), *workers)
    result = commands.ended(*args)
    expected = f"Error: cannot listen on {taken} (--admin): Address already in use\n"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", expected)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "called", "more"),
    [
        ("listen", "--listen", ()),
        ("admin.listen", "--admin", ()),
        ("listeners", "listeners", ("listener.security.protocol.map=OTHER:PLAINTEXT",)),
        ("shims.listener", "shims.listener", ("offsets.log=kafka",)),
    ],
)
def test_every_port_that_can_be_taken(taken: HostPort, setting: str, called: str, more: tuple[str, ...]) -> None:
    port, admin = free_port_range(4), free_port_range(1)
    needed = ("bootstrap.servers=127.0.0.1:1", f"listen=127.0.0.1:{port}", f"admin.listen=127.0.0.1:{admin}")
    wanted = f"OTHER://{taken}" if setting == "listeners" else str(taken)
    given = given_to_serve(load_configuration(None, (*needed, "data.dir=/nowhere", f"{setting}={wanted}", *more)))
    with pytest.raises(CannotStart) as cannot:
        check_ports(given)
    assert str(cannot.value) == f"cannot listen on {taken} ({called}): Address already in use"


def test_brokers_that_are_the_shim_itself(tmp_path: Path) -> None:
    """It would connect to itself without end."""
    port = free_port_range(4)
    error = refused(serve(tmp_path / "data", f"127.0.0.1:{port + 3},localhost:{port}", port))
    assert error == (
        f"Error: localhost:{port} of --bootstrap-servers is where this shim listens itself (127.0.0.1:{port}): "
        "name the brokers"
    )


def test_an_address_that_is_translated_to_the_shims_own(tmp_path: Path) -> None:
    """As of a name, or a virtual address, that clients are moved by: no address of this machine tells. Each connection
    would make another one, without end."""
    port, moved = free_port_range(4), free_port_range(1)
    lines: list[str] = []
    told = {"led back here": threading.Event(), "no broker can be reached": threading.Event()}

    def on_line(line: str) -> None:
        lines.append(line)
        for what, event in told.items():
            if what in line:
                event.set()

    with Relay({moved: port}):
        child = Child(serve(tmp_path / "data", f"127.0.0.1:{moved}", port), ready="offset-shim ready", on_line=on_line)
        try:
            assert all(event.wait(TIMEOUT_SECONDS) for event in told.values()), lines
            assert len(psutil.Process(child.pid).net_connections()) < 50
        finally:
            child.stop(TIMEOUT_SECONDS)
    assert sum("led back here" in line for line in lines) == 1


def test_nor_does_a_request_go_round_there_until_nobody_has_a_connection(tmp_path: Path) -> None:
    """A client's, which is passed on as it comes: nothing in it says that it has been here before."""
    port, moved = free_port_range(4), free_port_range(1)
    lines: list[str] = []
    is_open, is_noticed = threading.Event(), threading.Event()

    def on_line(line: str) -> None:
        lines.append(line)
        if "led back here" in line:
            is_open.set()
        if "it may lead back here" in line:
            is_noticed.set()

    with Relay({moved: port}):
        child = Child(serve(tmp_path / "data", f"127.0.0.1:{moved}", port), ready="offset-shim ready", on_line=on_line)
        try:
            assert is_open.wait(TIMEOUT_SECONDS), lines
            for _ in range(3):
                with WireClient(port) as client, pytest.raises(ConnectionError):
                    client.ask(metadata.API, 9, metadata.MetadataRequest(topics=()))
            assert is_noticed.wait(TIMEOUT_SECONDS), lines
            process = psutil.Process(child.pid)
            wait_until(lambda: len(process.net_connections()) < 10, lambda: str(process.net_connections()))
        finally:
            child.stop(TIMEOUT_SECONDS)
    assert sum("it may lead back here" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("bootstrap", "listen"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),  # all of this machine's
        ("127.0.0.2", "0.0.0.0"),
        ("0.0.0.0", "127.0.0.1"),  # where connecting leads
    ],
)
async def test_every_address_that_leads_to_the_shim_itself(bootstrap: str, listen: str) -> None:
    port = free_port_range(1)
    broker, itself, own = HostPort("127.0.0.1", port + 1), HostPort(bootstrap, port), HostPort(listen, port)
    assert await leads_to([broker, itself], [own]) == (itself, own)
    assert await leads_to([broker], [own]) is None


def test_a_port_for_other_shims_that_is_a_brokers(broker: Broker, tmp_path: Path) -> None:
    """By count from that of --listen: which brokers there are is known once they are asked."""
    port = free_port_range(4)
    near = port + 1 + broker.node_id
    others = ("--set", "offsets.log=kafka", "--set", f"shims.listener=127.0.0.1:{near}")
    error = refused(serve(tmp_path / "data", broker.bootstrap_servers, port, *others))
    assert error == (
        f"Error: the listeners' ports are too near to each other: port {near} would be broker {broker.node_id} of "
        "PLAINTEXT and shims.listener"
    )


def test_a_broker_port_that_is_taken(broker: Broker, tmp_path: Path) -> None:
    port = free_port_range(4)
    with socket.create_server(("127.0.0.1", port + 1 + broker.node_id)):
        error = refused(serve(tmp_path / "data", broker.bootstrap_servers, port))
    assert error == (
        f"Error: no port for broker {broker.node_id}: "
        f"cannot listen on 127.0.0.1:{port + 1 + broker.node_id} (--listen): Address already in use"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--set", "group.max.sise=5"], "unknown setting 'group.max.sise', did you mean group.max.size?"),
        (["--set", "group.max.size"], "--set group.max.size: expected name=value"),
        (["--listen", "127.0.0.1"], "--listen: '127.0.0.1' is not host:port"),
        (["--listen", "127.0.0.1:99999"], "the port must be a number from 1 to 65535"),
        (["--listen", "0.0.0.0:19092"], "clients cannot connect to 0.0.0.0: give --advertised-host"),
        (["--bootstrap-servers", "kafka"], "--bootstrap-servers: 'kafka' is not host:port"),
        (["--bootstrap-servers", ""], "no server given"),
        (["--config", "/no/such/file.toml"], "/no/such/file.toml: No such file or directory"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_a_wrong_setting(tmp_path: Path, args: list[str], message: str) -> None:
    """It is refused before anything is begun, and so needs no process of its own."""
    _, _, _, *argv = serve(tmp_path / "data", "127.0.0.1:1", free_port_range(1), *args)
    result = offset_shim(*argv)
    assert (result.status, result.stdout) == (2, "")
    assert message in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["--set", "group.max.size=none"], 2, "group.max.size: 'none' is not a whole number from 1 to 2147483647"),
        (["--data-dir", "/dev/null/data"], 1, "data directory /dev/null/data: Not a directory"),
    ],
)
def test_what_a_process_says_of_a_wrong_setting(tmp_path: Path, args: list[str], status: int, message: str) -> None:
    argv = serve(tmp_path / "data", "127.0.0.1:1", free_port_range(1), *args)
    result = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (result.returncode, result.stdout, result.stderr) == (status, "", f"Error: {message}\n")


def test_a_data_directory_in_use(broker: Broker, tmp_path: Path) -> None:
    with Shim(broker.bootstrap_servers, tmp_path / "data"):
        error = refused(serve(tmp_path / "data", broker.bootstrap_servers, free_port_range(4)))
    assert str(tmp_path / "data") in error


@pytest.mark.local_log("the second one looks into the directory")
def test_another_number_of_partitions(broker: Broker, tmp_path: Path) -> None:
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings={"offsets.topic.num.partitions": 5}):
        pass
    error = refused(serve(tmp_path / "data", broker.bootstrap_servers, free_port_range(4)))
    assert "50" in error
    assert "5 " in error


def write_log(data_dir: Path, records: list[tuple[bytes, bytes | None]]) -> None:
    """One partition, these records in it."""
    log = OffsetsLog.open(data_dir, 1)
    list(log.recover(0))
    assert log.write([PartitionWrite(0, [records], 1)]) == {}
    log.close()


def patched(patch: str, argv: list[str]) -> list[str]:
    """The same command, with a few lines of Python run in its process before."""
    _, _, module, *args = argv
    assert module == "shim.main"
    return [sys.executable, "-c", f"{patch}\nfrom shim.main import cli\ncli()", *args]


def test_a_record_that_cannot_be_decoded(tmp_path: Path) -> None:
    good = (encode_key(OffsetCommitKey("g", "t", 0)), encode_value(OffsetCommitValue(offset=1)))
    write_log(tmp_path / "data", [good, (good[0], b"\x00\x09abc")])
    error = refused(serve(tmp_path / "data", "127.0.0.1:1", free_port_range(1), *ONE_PARTITION))
    assert error.startswith("Error: __consumer_offsets-0 offset 1: the record cannot be decoded: ")


SLOW_LOAD = """
import threading
from shim.log.partition.partition import PartitionLog
real, first = PartitionLog.recover, threading.Event()
def recover(self, *args):
    for record in real(self, *args):
        if not first.is_set():
            first.set()
            print("loading", flush=True)
        threading.Event().wait(0.02)
        yield record
PartitionLog.recover = recover
"""


def test_while_it_loads_it_is_there_and_can_be_stopped(tmp_path: Path) -> None:
    """5,000 records at 20 ms each: it would take 100 s."""
    key = encode_key(OffsetCommitKey("g", "t", 0))
    value = encode_value(OffsetCommitValue(offset=1))
    write_log(tmp_path / "data", [(key, value)] * 5_000)
    port = free_port_range(1)
    lines: list[str] = []
    argv = patched(SLOW_LOAD, serve(tmp_path / "data", "127.0.0.1:1", port, *ONE_PARTITION))
    child = Child(argv, ready="loading", on_line=lines.append)
    try:
        child.wait_ready(TIMEOUT_SECONDS)
        with WireClient(port) as client:
            topics = (OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(0, 5),)),)
            response = client.ask(offset_commit.API, 8, OffsetCommitRequest(group_id="g", topics=topics))
            assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            assert client.ask(heartbeat.API, 4, beat).error_code == ErrorCode.NONE
        child.stop(TIMEOUT_SECONDS)
    finally:
        child.kill()
    assert child.returncode == 0
    assert not any("offset-shim ready" in line for line in lines)
    assert lines[-1].endswith(" stopped")


HUNG_DISK = """
import threading
from shim.log.disk.files import Files
def hang(self, fd):
    print("the disk hangs", flush=True)
    threading.Event().wait()
Files.fdatasync = Files.fsync = hang
"""


def test_a_disk_that_hangs_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    """Loading, it syncs what an earlier process may have left in memory."""
    stderr = tmp_path / "stderr"
    argv = patched(HUNG_DISK, serve(tmp_path / "data", "127.0.0.1:1", free_port_range(1), *ONE_PARTITION))
    with stderr.open("wb") as file:
        child = Child(argv, ready="the disk hangs", stderr=file)
    try:
        child.wait_ready(TIMEOUT_SECONDS)
        child.stop(TIMEOUT_SECONDS)
    finally:
        child.kill()
    assert child.returncode == 1
    errors = [line for line in stderr.read_text().splitlines() if line.startswith("Error")]
    assert errors == [
        f"Error: the disk under {tmp_path / 'data'} does not answer: stopped without waiting for it any longer"
    ]
    assert "Traceback" not in stderr.read_text()


@pytest.mark.local_log("the second one looks into the directory")
@pytest.mark.usefixtures("topic_t")
def test_offsets_of_another_cluster(broker: Broker, tmp_path: Path, group: str) -> None:
    of_one = partial(Shim, broker.bootstrap_servers, tmp_path / "data", args=ONE_PARTITION)
    with of_one() as shim, WireClient(shim.port) as client:
        commit(client, group, 1)
    with Broker(tmp_path / "other") as other:
        error = refused(serve(tmp_path / "data", other.bootstrap_servers, free_port_range(4), *ONE_PARTITION))
    assert f"data directory {tmp_path / 'data'} belongs to cluster" in error
    with of_one() as shim, WireClient(shim.port) as client:
        assert committed(client, group) == 1


@pytest.mark.local_log("it damages the files")
@pytest.mark.usefixtures("topic_t")
def test_one_damaged_partition_of_several_is_not_served_and_the_others_are(broker: Broker, tmp_path: Path) -> None:
    two = {"offsets.topic.num.partitions": 2}
    groups = {partition_for(name, 2): name for name in ("a", "b", "c", "d")}
    assert len(groups) == 2
    shim = Shim(broker.bootstrap_servers, tmp_path / "data", settings=two)
    with shim, WireClient(shim.port) as client:
        for group in groups.values():
            commit(client, group, 1)
    (segment,) = (tmp_path / "data" / "__consumer_offsets-0").glob("*.log")
    damaged = bytearray(segment.read_bytes())
    damaged[30] ^= 1
    segment.write_bytes(damaged)
    with shim, WireClient(shim.port) as client:
        assert committed(client, groups[1]) == 1
        commit(client, groups[1], 2)
        response = client.ask(offset_commit.API, 8, commit_request(groups[0], 2))
        assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert f"{segment} is damaged at byte 0: " in shim.log()
    assert bytes(damaged) == segment.read_bytes()


@pytest.mark.local_log("it damages the files")
@pytest.mark.usefixtures("topic_t")
def test_a_damaged_log(broker: Broker, tmp_path: Path, group: str) -> None:
    one = {"offsets.topic.num.partitions": 1}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=one) as shim, WireClient(shim.port) as client:
        commit(client, group, 1)
        commit(client, group, 2)
    (segment,) = (tmp_path / "data" / "__consumer_offsets-0").glob("*.log")
    damaged = bytearray(segment.read_bytes())
    damaged[30] ^= 1
    segment.write_bytes(damaged)
    argv = serve(
        tmp_path / "data", broker.bootstrap_servers, free_port_range(4), "--set", "offsets.topic.num.partitions=1"
    )
    error = refused(argv)
    assert segment.name in error
    assert bytes(damaged) == segment.read_bytes()


def test_a_data_directory_that_is_new_is_said_to_be(tmp_path: Path) -> None:
    """It may be a typo, and then every group would begin anew; and who begins it again and again is told each time."""
    (tmp_path / "data").mkdir()
    told = []
    for records in ([], [], [(encode_key(OffsetCommitKey("g", "t", 0)), encode_value(OffsetCommitValue(1)))]):
        if records:
            write_log(tmp_path / "data", list(records))
        lines: list[str] = []
        port = free_port_range(1)
        child = Child(
            serve(tmp_path / "data", "127.0.0.1:1", port, *ONE_PARTITION), ready="loaded", on_line=lines.append
        )
        try:
            child.wait_ready(TIMEOUT_SECONDS)
            child.stop(TIMEOUT_SECONDS)
        finally:
            child.kill()
        told.append(any(f"data directory {(tmp_path / 'data').resolve()} is new: groups" in line for line in lines))
    assert told == [True, True, False]
