"""What the other tests here rely on: a connection past the shim is seen, and no program outlives its time limit."""

import time
from pathlib import Path

import psutil
import pytest

from shim.demo.parts import Broker
from tests.clients.client_table import CONFLUENT_KAFKA
from tests.clients.node_packages import NODE
from tests.clients.programs import Programs
from tests.conftest import TopicFactory
from tests.shim_process import Shim

_DEAF = [str(NODE), "-e", "setInterval(() => {}, 1000)"]
_LIMIT_S = 1.0


def test_a_connection_to_the_broker_is_seen(
    broker: Broker, shim: Shim, programs: Programs, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    past = programs.start("past", CONFLUENT_KAFKA.consume(broker.bootstrap_servers, topic, f"{group}-past"))
    through = programs.start("through", CONFLUENT_KAFKA.consume(shim.bootstrap, topic, group))
    programs.wait("both connected", lambda: past.remote_ports and through.remote_ports)
    assert past.remote_ports == {broker.port}
    assert broker.port not in through.remote_ports


def test_a_program_that_reads_nothing_ends_at_the_time_limit(tmp_path: Path) -> None:
    with Programs(tmp_path, _LIMIT_S) as programs:
        deaf = programs.start("deaf", _DEAF)
        with pytest.raises(AssertionError, match=r"0-deaf: 0 records"):
            deaf.write("x" * 1_000 for _ in range(1_000))
        with pytest.raises(AssertionError, match=r"not within 1 s: the end of 0-deaf"):
            programs.wait_end(deaf)
        with pytest.raises(AssertionError, match=r"not within 1 s: a record\n0-deaf"):
            programs.wait("a record", lambda: deaf.records)


def test_nothing_is_left_running(tmp_path: Path) -> None:
    started = time.monotonic()
    with Programs(tmp_path, 60.0) as programs:
        pid = programs.start("deaf", _DEAF).child.pid
    assert not psutil.pid_exists(pid)
    assert time.monotonic() - started < 30
