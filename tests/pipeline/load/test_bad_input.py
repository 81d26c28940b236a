"""What is wrong is told in one line, before anything is read: by the command as it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.pipeline.load.filling import fill
from tests.shim_process import Shim

_TIMEOUT_S: Final = 60
_JOINED_S: Final = 30.0


def run(bootstrap: str, topics: str, group: str, table: str, *args: str, env: Mapping[str, str] | None = None) -> str:
    """The line of a load that is refused."""
    options = ["--bootstrap-servers", bootstrap, "--topics", topics, "--group", group, "--to", table, *args]
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.main", "load", *options],
        capture_output=True, text=True, timeout=_TIMEOUT_S, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert not Path(table).exists()
    return line


def test_a_topic_that_does_not_exist(shim: Shim, group: str, table: str) -> None:
    line = run(shim.bootstrap, "nowhere", group, table)
    assert line == "Error: topic nowhere does not exist, or may not be described"


def test_a_group_in_use(broker: Broker, shim: Shim, make_topic: TopicFactory, group: str, table: str) -> None:
    topic = make_topic(1)
    fill(broker.bootstrap_servers, topic, 1, 1)
    named = {"group.id": group, "client.id": "somebody"}
    consumer = Consumer({"bootstrap.servers": shim.bootstrap, **named, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        assert consumer.poll(_JOINED_S) is not None, "a record: it has joined"
        line = run(shim.bootstrap, topic, group, table)
    finally:
        consumer.close()
    assert line.startswith(f"Error: group {group} is in use (Stable, members: somebody): ")


@pytest.mark.soak
def test_no_server(group: str, table: str) -> None:
    line = run("127.0.0.1:1", "t", group, table)
    assert line.startswith("Error: looking up topics at 127.0.0.1:1: ")


@pytest.mark.parametrize("args", [("--value", "json"), ("--schema", __file__)])
def test_a_form_without_its_schema(shim: Shim, group: str, table: str, args: tuple[str, str]) -> None:
    assert run(shim.bootstrap, "t", group, table, *args).startswith("Error: --schema goes with")


def test_no_java(shim: Shim, make_topic: TopicFactory, broker: Broker, group: str, table: str, tmp_path: Path) -> None:
    topic = make_topic(1)
    line = run(shim.bootstrap, topic, group, table, env={"JAVA_HOME": str(tmp_path)})
    assert line.startswith(f"Error: no java in JAVA_HOME ({tmp_path}): install a Java runtime, 17 or newer")


def test_a_java_that_is_too_old(
    shim: Shim, make_topic: TopicFactory, broker: Broker, group: str, table: str, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.22"\n')
    line = run(shim.bootstrap, make_topic(1), group, table, env={"JAVA_HOME": str(tmp_path)})
    assert line == f"Error: {tmp_path / 'bin' / 'java'} is Java 11: install a Java runtime, 17 or newer"


def test_another_spark(
    shim: Shim, make_topic: TopicFactory, broker: Broker, group: str, table: str, tmp_path: Path
) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "3.5.1"\n')
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH"), str(Path.cwd())])])
    line = run(shim.bootstrap, make_topic(1), group, table, env={"PYTHONPATH": path})
    assert line == "Error: PySpark 3.5.1 is installed, and the connector jars are of 4.0"
