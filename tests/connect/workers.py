"""Kafka Connect's own workers, standalone and distributed, each a process that knows one address: the shim's."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shim.demo.parts import free_port, jar_set
from shim.demo.parts.jars import POM_FOLDERS
from shim.demo.parts.jvm import java_command
from tests.clients.programs import Program, Programs

CONNECT: Final = "connect-4.3.1"
LEFT: Final = 143
"""The exit status of a worker after SIGTERM."""

POM_FOLDERS.append(Path(__file__).with_name("poms"))

_HEAP_MB = 128
_REST_TIMEOUT_S = 10.0
_FOR_NOW = frozenset({404, 409, 500, 503})
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"

Settings = Mapping[str, str | int]


def file_source(name: str, file: Path, topic: str) -> dict[str, str]:
    """The configuration of a connector whose one task makes a record of every line of the file."""
    return {
        "name": name,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }


def file_sink(name: str, file: Path, topic: str) -> dict[str, str]:
    """The configuration of a connector whose one task, a member of the group `connect-<name>`, writes the topic's
    records to the file, a line each.
    """
    return {
        "name": name,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(file),
        "topics": topic,
        # Of a worker that was killed its consumer takes leave as late as the worker does.
        "consumer.override.session.timeout.ms": "5000",
        "consumer.override.heartbeat.interval.ms": "300",
    }


class Worker:
    """One worker: its settings, its REST port, and whichever process it is now."""

    def __init__(self, programs: Programs, folder: Path, name: str, main_class: str, settings: Settings) -> None:
        self.name = name
        self.rest_port = free_port()
        self._programs = programs
        self._folder = folder / name
        self._folder.mkdir()
        self._main_class = main_class
        self._arguments = [self._properties("worker", {**settings, "listeners": f"http://{self.rest_address}"})]
        self._program: Program | None = None

    @property
    def rest_address(self) -> str:
        """As the cluster of workers has it: their `worker_id`."""
        return f"127.0.0.1:{self.rest_port}"

    @property
    def program(self) -> Program:
        """The process that it is now, or was last."""
        assert self._program is not None, "start comes first"
        return self._program

    def start(self) -> None:
        """Its process exists on return; it works a while later."""
        command = java_command(
            jar_set(CONNECT), f"org.apache.kafka.connect.cli.{self._main_class}", *self._arguments, heap_mb=_HEAP_MB
        )
        self._program = self._programs.start(self.name, command)

    def kill(self) -> None:
        """SIGKILL."""
        self.program.child.kill()

    def connect(self, configuration: Mapping[str, str]) -> None:
        """A connector that it runs from its start on, for a standalone worker. Before `start`."""
        self._arguments.append(self._properties(configuration["name"], configuration))

    def configure(self, configuration: Mapping[str, str]) -> None:
        """Make a connector, or change it, at a distributed worker; waits for it to be ready."""
        path = f"connectors/{configuration['name']}/config"
        self._programs.wait(f"{self.name} to take {path}", lambda: self._ask(path, configuration))

    def wait_up(self) -> None:
        """Until it answers at its REST port. Connectors of a standalone worker may be at work before; one that is told
        to stop by then hangs now and then."""
        self._programs.wait(f"{self.name} to answer", lambda: self._ask("connectors") is not None)

    def at_work(self, connector: str) -> str:
        """The address of the worker where the one task of the connector is at work, as soon as it is somewhere."""
        found: list[str] = []

        def running() -> list[str]:
            status = self._ask(f"connectors/{connector}/status") or {"tasks": []}
            found[:] = [task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING"]
            return found

        self._programs.wait(f"{connector} at work", running)
        return found[0]

    def _ask(self, path: str, configuration: Mapping[str, str] | None = None) -> Any:
        """GET a resource, or PUT a connector's configuration to it; None where it cannot say for now: it starts, is
        in a rebalance, or has not heard of it yet. Raises OSError where it refuses, or has ended.
        """
        request = urllib.request.Request(f"http://{self.rest_address}/{path}")
        if configuration is not None:
            request.method, request.data = "PUT", json.dumps(configuration).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=_REST_TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _FOR_NOW:
                    raise
        except OSError:
            if not self.program.child.running:
                raise
        return None

    def _properties(self, name: str, settings: Settings) -> str:
        path = self._folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="ascii")
        return str(path)


def standalone(programs: Programs, folder: Path, bootstrap: str) -> Worker:
    """A worker by itself. What its source has read is kept in a file in `folder`."""
    settings = {**_settings(bootstrap), "offset.storage.file.filename": str(folder / "source.offsets")}
    return Worker(programs, folder, "standalone", "ConnectStandalone", settings)


def distributed(programs: Programs, folder: Path, name: str, bootstrap: str, group: str) -> Worker:
    """One of the workers of `group`, which keep what they know in three topics of that name."""
    topics: dict[str, str | int] = {}
    for kept in ("config", "offset", "status"):
        topics[f"{kept}.storage.topic"] = f"{group}-{kept}"
        topics[f"{kept}.storage.replication.factor"] = 1
        if kept != "config":
            topics[f"{kept}.storage.partitions"] = 1
    settings = {
        **_settings(bootstrap),
        **topics,
        "group.id": group,
        "session.timeout.ms": 5_000,
        "heartbeat.interval.ms": 300,
        # What a worker that has gone was doing is given to the others at once; 5 minutes otherwise.
        "scheduled.rebalance.max.delay.ms": 0,
    }
    return Worker(programs, folder, name, "ConnectDistributed", settings)


def _settings(bootstrap: str) -> dict[str, str | int]:
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
        "offset.flush.interval.ms": 300,
        "plugin.discovery": "service_load",
    }
