"""Kafka's own Java tools, run from the jar set."""

import subprocess
from pathlib import Path

from shim.demo.parts.jars import KAFKA, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import spawn

DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"

TOOL_HEAP_MB = 128
_TIMEOUT_S = 60.0
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
    command = java_command(jar_set(release), main_class, *args, heap_mb=TOOL_HEAP_MB)
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


def dump_offsets_log(*segments: Path, timeout: float = _TIMEOUT_S) -> str:
    """What `kafka-dump-log --offsets-decoder` prints of offsets log segments, keys and values decoded.

    Raises as `java_tool` does.
    """
    names = ",".join(map(str, segments))
    return java_tool(DUMP_LOG_SEGMENTS, "--offsets-decoder", "--files", names, timeout=timeout).stdout
