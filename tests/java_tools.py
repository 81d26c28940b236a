"""Kafka's command line tools for topics and groups, and tools at work in the background."""

from __future__ import annotations

import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from shim.demo.parts import JarSet, ToolFailed
from shim.demo.parts.jars import KAFKA, jar_set, java_executable
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child
from shim.demo.parts.tools import TOOL_HEAP_MB, java_tool

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

COMPILER_OPTIONS = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
"""A compiler that lives for a second or two takes half of the processor time so."""

_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_SHOWN = 4_000  # characters of its log in an exception


def compiled(jars: JarSet, source: Path, folder: Path) -> JarSet:
    """The jar set with the program behind it, compiled into the folder. Each start of the source is a compilation."""
    javac = java_executable().with_name("javac")
    command = [str(javac), *COMPILER_OPTIONS, "-proc:none", "-cp", jars.class_path, "-d", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
    return replace(jars, jars=(*jars.jars, folder))


class RunningTool:
    """A tool at work in the background, its standard output read line by line. Stopped at the end of a `with` block."""

    def __init__(self, main_class: str, *args: str) -> None:
        """Raises PartsUnavailable."""
        self.main_class = main_class
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._at_end = False
        command = java_command(jar_set(KAFKA), main_class, *args, heap_mb=TOOL_HEAP_MB)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        try:
            self._child = Child(command, on_line=self._unread.put, stderr=self._stderr)
        except BaseException:
            self._stderr.close()
            raise
        threading.Thread(target=self._mark_end, name=f"parts-tool-{self._child.pid}", daemon=True).start()

    def _mark_end(self) -> None:
        self._child.wait()
        self._unread.put(None)

    @property
    def running(self) -> bool:
        return self._child.running

    @property
    def returncode(self) -> int | None:
        """Exit status (143 after SIGTERM, as Java has it); None while it runs."""
        return self._child.returncode

    def read_line(self, timeout: float = _TIMEOUT_S) -> str | None:
        """The next line it printed, None after the last. Raises TimeoutError after `timeout` seconds without one."""
        if self._at_end:
            return None
        try:
            line = self._unread.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"{self.main_class} printed nothing for {timeout:g} s; its log:\n{self.log()}") from None
        self._at_end = line is None
        return line

    def read_lines(self, count: int) -> list[str]:
        """The next `count` lines. Raises TimeoutError, and EOFError when the tool ended before."""
        deadline = time.monotonic() + _TIMEOUT_S
        lines: list[str] = []
        while len(lines) < count:
            line = self.read_line(max(0.0, deadline - time.monotonic()))
            if line is None:
                raise EOFError(f"{self.main_class} ended after {len(lines)} of {count} lines; its log:\n{self.log()}")
            lines.append(line)
        return lines

    def log(self) -> str:
        """The end of its standard error."""
        if self._stderr.closed:
            return self._last_log
        # The tool writes at the same file position, so it must not be moved.
        number = self._stderr.fileno()
        return os.pread(number, _SHOWN, max(0, os.fstat(number).st_size - _SHOWN)).decode("utf-8", "replace")

    def stop(self, timeout: float = _STOP_TIMEOUT_S) -> None:
        """SIGTERM (a consumer leaves its group), SIGKILL after `timeout` seconds. What it printed can still be read."""
        self._child.stop(timeout)
        if not self._stderr.closed:
            self._last_log = self.log()
            self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def console_producer(
    bootstrap_servers: str,
    topic: str,
    lines: Iterable[str],
    *,
    properties: Mapping[str, str | int] | None = None,
    args: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Produce one record a line with `kafka-console-producer`. `properties` are the producer's, `args` further options.

    Raises as `java_tool` does. The tool ends with status 0 even where records failed, so a word of an ERROR in its log
    raises ToolFailed.
    """
    text = "".join(f"{line}\n" for line in lines)
    options = ["--bootstrap-server", bootstrap_servers, "--topic", topic, *_command_properties(properties), *args]
    result = java_tool(CONSOLE_PRODUCER, *options, input=text, timeout=_TIMEOUT_S)
    if "] ERROR " in result.stderr:
        raise ToolFailed(CONSOLE_PRODUCER, result)
    return result


def console_consumer(
    bootstrap_servers: str,
    topic: str,
    *,
    max_messages: int,
    group: str | None = None,
    properties: Mapping[str, str | int] | None = None,
    args: Sequence[str] = (),
) -> list[str]:
    """Consume `max_messages` records with `kafka-console-consumer` and give back their values, one a line.

    With `group` it commits what it read as it ends. Raises as `java_tool` does.
    """
    options = _consumer_options(bootstrap_servers, topic, group, properties)
    options += ["--max-messages", str(max_messages), *args]
    return java_tool(CONSOLE_CONSUMER, *options, timeout=_TIMEOUT_S).stdout.splitlines()


def start_console_consumer(bootstrap_servers: str, topic: str, *, group: str) -> RunningTool:
    """Start `kafka-console-consumer` in the background: a line for every record, until it is stopped."""
    return RunningTool(CONSOLE_CONSUMER, *_consumer_options(bootstrap_servers, topic, group))


def consumer_groups(bootstrap_servers: str, *args: str, timeout: float = _TIMEOUT_S) -> str:
    """What `kafka-consumer-groups` prints, as for `"--describe", "--group", group`. Raises as `java_tool` does."""
    return java_tool(CONSUMER_GROUPS, "--bootstrap-server", bootstrap_servers, *args, timeout=timeout).stdout


def _consumer_options(
    bootstrap_servers: str,
    topic: str,
    group: str | None,
    properties: Mapping[str, str | int] | None = None,
) -> list[str]:
    return [
        *("--bootstrap-server", bootstrap_servers, "--topic", topic),
        *(("--group", group) if group is not None else ()),
        "--from-beginning",
        *_command_properties(properties),
    ]


def _command_properties(properties: Mapping[str, str | int] | None) -> list[str]:
    """Client settings as console tools take them since KIP-1147 (Kafka 4.2)."""
    return [text for name, value in (properties or {}).items() for text in ("--command-property", f"{name}={value}")]
