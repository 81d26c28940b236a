"""SIGHUP: settings are read again, all of them or none, and what can be taken over is in force."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from shim.demo.parts import Broker, free_port_range
from tests.serve.test_connections import commit, committed
from tests.serve.test_start import ONE_PARTITION
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

TIMEOUT_S = 30.0
READ = "settings read again"
REFUSED = "the settings stay as they were"


class Reloaded:
    """A running shim and its file."""

    def __init__(self, shim: Shim, file: Path) -> None:
        self.shim = shim
        self._file = file

    def with_settings(self, settings: Mapping[str, object]) -> str:
        """Write these, and have them read; gives what was logged of it."""
        self.write("".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.items()))
        return self.hang_up()

    def write(self, text: str) -> None:
        self._file.write_text(text)

    def hang_up(self) -> str:
        before = len(self.shim.log())
        os.kill(self.shim.pid, signal.SIGHUP)

        def look() -> str | None:
            lines = self.shim.log()[before:]
            return lines if lines.endswith("\n") and (READ in lines or REFUSED in lines) else None

        return wait_until(look, self.shim.log)


@pytest.fixture(scope="module")
def reloaded(broker: Broker, topic_t: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    folder = tmp_path_factory.mktemp("reload")
    file = folder / "shim.toml"
    file.write_text("")
    args = ["--config", str(file), *ONE_PARTITION]
    with Shim(broker.bootstrap_servers, folder / "data", args=args) as running:
        yield Reloaded(running, file)


def with_metadata(client: WireClient, group: str, metadata: str) -> int:
    partition = offset_commit.OffsetCommitRequestPartition(0, 1, committed_metadata=metadata)
    topic = offset_commit.OffsetCommitRequestTopic("t", partitions=(partition,))
    answer = client.ask(offset_commit.API, 8, offset_commit.OffsetCommitRequest(group, topics=(topic,)))
    return answer.topics[0].partitions[0].error_code


def test_what_changed_is_in_force_and_said(reloaded: Reloaded, group: str) -> None:
    with WireClient(reloaded.shim.port) as client:
        assert with_metadata(client, group, "12345") == ErrorCode.NONE
        said = reloaded.with_settings({"offset.metadata.max.bytes": 4})
        assert f"{READ}: offset.metadata.max.bytes=4 (was 4096)" in said
        assert with_metadata(client, group, "12345") == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert with_metadata(client, group, "1234") == ErrorCode.NONE
        assert f"{READ}: offset.metadata.max.bytes=4096 (was 4)" in reloaded.with_settings({})
        assert with_metadata(client, group, "12345") == ErrorCode.NONE
    assert f"{READ}: nothing to take over" in reloaded.with_settings({})


def test_an_error_leaves_all_as_it_was(reloaded: Reloaded, group: str) -> None:
    wrong = [
        '"offset.metadata.max.bytes" = 1\n"group.max.size" = 0\n',
        '"offset.metadata.max.bytes" = 1\n"group.max.sice" = 1\n',
        '"offset.metadata.max.bytes" = 1\n"group.min.session.timeout.ms" = 2000000\n',
        '"offset.metadata.max.bytes" = 1\n"upstream.security.protocol" = "SASL_SSL"\n',
        "= 1",
    ]
    with WireClient(reloaded.shim.port) as client:
        for text in wrong:
            reloaded.write(text)
            (line,) = reloaded.hang_up().splitlines()
            assert f"ERROR {REFUSED}: " in line
            assert with_metadata(client, group, "12345") == ErrorCode.NONE


def test_what_takes_a_restart_is_said_once(reloaded: Reloaded) -> None:
    said = reloaded.with_settings({"request.timeout.ms": 29_999, "listen": "127.0.0.1:1", "group.max.size": 7})
    assert "group.max.size=7 (was 2147483647)" in said
    # --listen of the command line wins over the file.
    assert "WARNING changed settings that take a restart: request.timeout.ms\n" in said
    again = reloaded.with_settings({"request.timeout.ms": 29_999, "group.max.size": 8})
    assert "restart" not in again
    reloaded.with_settings({})


def test_limits_of_connections(reloaded: Reloaded, group: str) -> None:
    with WireClient(reloaded.shim.port) as first:
        commit(first, group, 1)
        reloaded.with_settings({"max.connections.per.ip": 1})
        with WireClient(reloaded.shim.port) as second:
            assert second.socket.recv(1) == b""
        assert committed(first, group) == 1, "who is there stays"
        reloaded.with_settings({})
        with WireClient(reloaded.shim.port) as third:
            assert committed(third, group) == 1


def test_whoever_waits_for_a_place_has_it_when_there_are_more(reloaded: Reloaded, group: str) -> None:
    with WireClient(reloaded.shim.port) as first:
        commit(first, group, 2)
        reloaded.with_settings({"max.connections": 1})
        with WireClient(reloaded.shim.port) as waiting:
            reloaded.shim.wait_logged("as many connections as there may be")
            reloaded.with_settings({})
            assert committed(waiting, group) == 2


def test_a_limit_of_one_listener(reloaded: Reloaded, group: str) -> None:
    own = "listener.name.plaintext.socket.request.max.bytes"
    assert f"{own}=1024 (was as everywhere)" in reloaded.with_settings({own: 1024})
    with WireClient(reloaded.shim.port) as client:
        client.socket.sendall((2000).to_bytes(4, "big"))
        assert client.socket.recv(1) == b""
    assert f"{own}=as everywhere (was 1024)" in reloaded.with_settings({})


def test_the_log_changes_its_look(reloaded: Reloaded) -> None:
    lines = reloaded.with_settings({"log.format": "json"}).splitlines()
    assert json.loads(lines[-1])["message"].startswith(f"{READ}: log.format=json (was text)")
    assert f"INFO {READ}: log.format=text (was json)" in reloaded.with_settings({})


def test_a_file_that_is_gone(reloaded: Reloaded, tmp_path: Path) -> None:
    reloaded._file.rename(tmp_path / "away")
    try:
        assert f"{REFUSED}: {reloaded._file}: No such file or directory" in reloaded.hang_up()
    finally:
        (tmp_path / "away").rename(reloaded._file)


# The shim's process is told when it first imports a module: then the file has another setting, and SIGHUP comes.
AT_AN_IMPORT = """
import os, signal, sys
from pathlib import Path

class HangsUp:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            Path({file!r}).write_text('"offset.metadata.max.bytes" = 4')
            os.kill(os.getpid(), signal.SIGHUP)

sys.meta_path.insert(0, HangsUp())
"""


@pytest.mark.parametrize(
    "module",
    [
        "shim.serve",  # nothing is read yet
        "uvloop",  # all is read, and there is no event loop
        "shim.admin.live.port.serving",  # the event loop has nothing to do yet
    ],
)
def test_in_the_first_moments(broker: Broker, topic_t: str, group: str, tmp_path: Path, module: str) -> None:
    file = tmp_path / "shim.toml"
    file.write_text("")
    args = ["--config", str(file), "--admin", f"127.0.0.1:{free_port_range(1)}", *ONE_PARTITION]
    patch = AT_AN_IMPORT.format(module=module, file=str(file))
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=args, patch=patch) as shim:
        with WireClient(shim.port) as client:
            assert with_metadata(client, group, "12345") == ErrorCode.OFFSET_METADATA_TOO_LARGE
            assert with_metadata(client, group, "1234") == ErrorCode.NONE
        assert shim.log().count(READ) == 1
        assert Reloaded(shim, file).with_settings({}).endswith(f"{READ}: offset.metadata.max.bytes=4096 (was 4)\n")
        assert shim.stop() == 0


def test_a_file_that_does_not_answer_keeps_nobody_waiting(
    broker: Broker, topic_t: str, group: str, tmp_path: Path
) -> None:
    file = tmp_path / "shim.toml"
    file.write_text("")
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=["--config", str(file), *ONE_PARTITION]) as shim:
        file.unlink()
        os.mkfifo(file)
        for _ in range(3):
            os.kill(shim.pid, signal.SIGHUP)
        with WireClient(shim.port) as client:
            assert with_metadata(client, group, "12345") == ErrorCode.NONE
            file.write_text('"offset.metadata.max.bytes" = 4')  # whoever reads it has been waiting for that
            shim.wait_logged(READ)
            assert with_metadata(client, group, "12345") == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert shim.stop() == 0, "those that came meanwhile wait for another answer"


def test_in_the_last_moments(broker: Broker, tmp_path: Path) -> None:
    """Again and again, until it has gone: the end in good order stays one."""
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=ONE_PARTITION) as shim:
        its, gone = os.pidfd_open(shim.pid), threading.Event()  # a number may be somebody else's by the end

        def hang_up() -> None:
            while not gone.wait(0.002):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(its, signal.SIGHUP)

        with ThreadPoolExecutor(1) as thread:
            hanging_up = thread.submit(hang_up)
            try:
                assert shim.stop() == 0
            finally:
                gone.set()
            hanging_up.result()
        os.close(its)
