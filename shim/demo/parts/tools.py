"""Kafka's own Java tools, run from the jar set."""

import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from shim.demo.parts.jars import KAFKA, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child, spawn

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"

_HEAP_MB = 128
_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
_SHOWN = 4_000  # characters of a failed tool's output in the exception


class ToolFailed(RuntimeError):
    """A tool ended with an exit status other than 0. `result` is what it printed."""

    def __init__(self, main_class: str, result: subprocess.CompletedProcess[str]) -> None:
        shown = (result.stdout + result.stderr)[-_SHOWN:]
        super().__init__(f"{main_class} ended with exit status {result.returncode}:\n{shown}")
        self.result = result


def java_tool(
    main_class: str,
    *args: str,
    input: str = "",  # noqa: A002 - subprocess.run's name for it
    timeout: float = _TIMEOUT_S,
    check: bool = True,
    release: str = KAFKA,
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end and give back its exit status, standard output and standard error (the log, from WARN on).

    `input` is its standard input. Raises ToolFailed on an exit status other than 0 when `check`, PartsUnavailable, and
    subprocess.TimeoutExpired after `timeout` seconds (the tool is gone then, what it printed is in the exception).
    """
    command = java_command(jar_set(release), main_class, *args, heap_mb=_HEAP_MB)
    process = spawn(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            process.kill()
            raise subprocess.TimeoutExpired([main_class, *args], timeout, late.output, late.stderr) from None
        except BaseException:
            process.kill()
            raise
    result = subprocess.CompletedProcess([main_class, *args], process.returncode, stdout, stderr)
    if check and result.returncode != 0:
        raise ToolFailed(main_class, result)
    return result


class RunningTool:
    """A tool at work in the background, its standard output read line by line. Stopped at the end of a `with` block."""

    def __init__(self, main_class: str, *args: str, release: str = KAFKA) -> None:
        self.main_class = main_class
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._at_end = False
        command = java_command(jar_set(release), main_class, *args, heap_mb=_HEAP_MB)
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
    def pid(self) -> int:
        return self._child.pid

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

    def read_lines(self, count: int, timeout: float = _TIMEOUT_S) -> list[str]:
        """The next `count` lines, within `timeout` seconds together.

        Raises TimeoutError, and EOFError when the tool ended before.
        """
        deadline = time.monotonic() + timeout
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

    def wait(self, timeout: float = _TIMEOUT_S) -> int:
        """Wait for its end; its exit status. Raises TimeoutError."""
        if not self._child.wait(timeout):
            raise TimeoutError(f"{self.main_class} still runs after {timeout:g} s; its log:\n{self.log()}")
        status = self._child.returncode
        assert status is not None
        return status

    def stop(self, timeout: float = _STOP_TIMEOUT_S) -> None:
        """SIGTERM (a consumer leaves its group), SIGKILL after `timeout` seconds. What it printed can still be read."""
        self._child.stop(timeout)
        self._close()

    def kill(self) -> None:
        """SIGKILL: a consumer does not leave its group. What it printed can still be read."""
        self._child.kill()
        self._close()

    def _close(self) -> None:
        if not self._stderr.closed:
            self._last_log = self.log()
            self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_java_tool(main_class: str, *args: str, release: str = KAFKA) -> RunningTool:
    """Start a tool in the background. Raises PartsUnavailable."""
    return RunningTool(main_class, *args, release=release)


def console_producer(
    bootstrap_servers: str,
    topic: str,
    lines: Iterable[str],
    *,
    properties: Mapping[str, str | int] | None = None,
    args: Sequence[str] = (),
    timeout: float = _TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Produce one record a line with `kafka-console-producer`. `properties` are the producer's, `args` further options.

    Raises as `java_tool` does. The tool ends with status 0 even where records failed, so a word of an ERROR in its log
    raises ToolFailed.
    """
    text = "".join(f"{line}\n" for line in lines)
    options = ["--bootstrap-server", bootstrap_servers, "--topic", topic, *_command_properties(properties), *args]
    result = java_tool(CONSOLE_PRODUCER, *options, input=text, timeout=timeout)
    if "] ERROR " in result.stderr:
        raise ToolFailed(CONSOLE_PRODUCER, result)
    return result


def console_consumer(
    bootstrap_servers: str,
    topic: str,
    *,
    max_messages: int,
    group: str | None = None,
    from_beginning: bool = True,
    properties: Mapping[str, str | int] | None = None,
    args: Sequence[str] = (),
    timeout: float = _TIMEOUT_S,
) -> list[str]:
    """Consume `max_messages` records with `kafka-console-consumer` and give back their values, one a line.

    With `group` it commits what it read as it ends. Raises as `java_tool` does.
    """
    options = _consumer_options(bootstrap_servers, topic, group, from_beginning, properties)
    options += ["--max-messages", str(max_messages), *args]
    return java_tool(CONSOLE_CONSUMER, *options, timeout=timeout).stdout.splitlines()


def start_console_consumer(
    bootstrap_servers: str,
    topic: str,
    *,
    group: str | None = None,
    from_beginning: bool = True,
    properties: Mapping[str, str | int] | None = None,
    args: Sequence[str] = (),
) -> RunningTool:
    """Start `kafka-console-consumer` in the background: a line for every record, until it is stopped."""
    options = _consumer_options(bootstrap_servers, topic, group, from_beginning, properties)
    return start_java_tool(CONSOLE_CONSUMER, *options, *args)


def consumer_groups(bootstrap_servers: str, *args: str, timeout: float = _TIMEOUT_S) -> str:
    """What `kafka-consumer-groups` prints, as for `"--describe", "--group", group`. Raises as `java_tool` does."""
    return java_tool(CONSUMER_GROUPS, "--bootstrap-server", bootstrap_servers, *args, timeout=timeout).stdout


def dump_offsets_log(*segments: Path, timeout: float = _TIMEOUT_S) -> str:
    """What `kafka-dump-log --offsets-decoder` prints of offsets log segments, keys and values decoded.

    Raises as `java_tool` does.
    """
    names = ",".join(map(str, segments))
    return java_tool(DUMP_LOG_SEGMENTS, "--offsets-decoder", "--files", names, timeout=timeout).stdout


def _consumer_options(
    bootstrap_servers: str,
    topic: str,
    group: str | None,
    from_beginning: bool,
    properties: Mapping[str, str | int] | None,
) -> list[str]:
    return [
        *("--bootstrap-server", bootstrap_servers, "--topic", topic),
        *(("--group", group) if group is not None else ()),
        *(("--from-beginning",) if from_beginning else ()),
        *_command_properties(properties),
    ]


def _command_properties(properties: Mapping[str, str | int] | None) -> list[str]:
    """Client settings as console tools take them since KIP-1147 (Kafka 4.2)."""
    return [text for name, value in (properties or {}).items() for text in ("--command-property", f"{name}={value}")]
