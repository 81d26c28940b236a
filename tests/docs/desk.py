"""Where documented commands are typed: a folder, a shell, the tools on its path, and what placeholders stand for."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shim.demo.parts import StartFailed, cache_folder, jar_set
from shim.demo.parts.jars import KAFKA, java_executable
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child
from tests.admin.running import Result
from tests.docs.pages import ROOT, TRYING

_TIMEOUT_S: Final = 240.0  # a guard against hanging, on a machine that does much else at the same time
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 60.0
_HEAP_MB: Final = 128
_SMALL_JAVA: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # for what lives for seconds
_SHOWN: Final = 4_000  # characters of a log in an exception

KAFKAS_TOOLS: Final = {
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-share-groups.sh": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
"""What the scripts of a Kafka distribution run; the jars are all that there is of one here."""

_AT_A_SHIM: Final = re.compile(r"offset-shim (?:groups|migrate) \w+(?!.*--admin )")


def _as_a_word(placeholder: str) -> str:
    begin = r"(?<![\w.-])" if placeholder[0].isalnum() else ""
    end = r"(?![\w-])" if placeholder[-1].isalnum() else ""
    return begin + re.escape(placeholder) + end


class Desk:
    """`stands_for`: by placeholder what is typed in its place; the longest that fits.

    `admin`: the admin port of the shim that commands talk to where they name none, as the documented default is one
    that others may have.
    """

    def __init__(self, folder: Path, stands_for: Mapping[str, str], admin: str = "") -> None:
        self.folder = folder
        self.stands_for = dict(stands_for)
        self.admin = admin
        tools = folder / "tools"
        tools.mkdir(parents=True)
        for name, main_class in KAFKAS_TOOLS.items():
            command = java_command(jar_set(KAFKA), main_class, heap_mb=_HEAP_MB)
            _put_script(tools / name, command)
        _put_script(tools / "java", [str(java_executable()), *_SMALL_JAVA])
        self._environment = {
            **{name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ},
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OFFSET_SHIM_CACHE": str(cache_folder()),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "CLASSPATH": _class_path().replace("$HOME", str(folder)),
        }
        (folder / ".cache").mkdir()
        (folder / ".cache" / "offset-shim").symlink_to(cache_folder())

    def typed(self, command: str) -> str:
        """With everything in its place."""
        if self.admin:
            command = _AT_A_SHIM.sub(lambda found: f"{found[0]} --admin {self.admin}", command)
        pattern = "|".join(_as_a_word(each) for each in sorted(self.stands_for, key=len, reverse=True))
        typed = re.sub(pattern, lambda found: self.stands_for[found[0]], command) if pattern else command
        assert "/var/lib/" not in typed, f"nothing stands for a place outside the test's folder: {typed}"
        return typed

    def run(self, command: str, *, status: int = 0) -> Result:
        """By bash. Anything but that exit status fails the test, with what was said."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self.typed(command)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
        assert done.returncode == status, f"{self.typed(command)}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(
        self, command: str, ready: str | None, *, ends_by: signal.Signals = signal.SIGTERM, status: int = 0
    ) -> Iterator[Child]:
        """What goes on until it is stopped: begins once it has printed a line with `ready`, at once where that is None.

        It runs until the block's end, and `status` is that of its own. Raises AssertionError where that is another.
        """
        environment = [f"{name}={value}" for name, value in self._environment.items()]
        # Ctrl-C ends a command on a terminal; what is started in the background, as tests may be, ignores it.
        argv = ["/usr/bin/env", "--default-signal=INT", "-i", *environment, "bash", "-c", f"exec {self.typed(command)}"]
        with (self.folder / "log").open("ab") as stderr:
            child = Child(argv, ready=ready, stderr=stderr, cwd=self.folder)
        try:
            if ready is not None:
                child.wait_ready(_START_TIMEOUT_S)
            yield child
            child.send_signal(ends_by)
            assert child.wait(_STOP_TIMEOUT_S), f"{command} goes on after {ends_by.name}"
            assert child.returncode == status, f"{command} ended with {child.returncode}:\n{self.log()[-_SHOWN:]}"
        except StartFailed as error:
            raise AssertionError(f"{self.typed(command)}\n{error}\n{self.log()[-_SHOWN:]}") from None
        finally:
            child.kill()

    def log(self) -> str:
        """What was said on standard error by all that ran on."""
        return (self.folder / "log").read_text()


def _put_script(path: Path, command: Sequence[str]) -> None:
    """It runs the command, with what else it is given."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


def _class_path() -> str:
    """As readers have it exported, by the page on trying it."""
    (found,) = re.findall(r'^export PATH=\S+ CLASSPATH="(.+)"$', TRYING.read_text(), re.MULTILINE)
    return str(found)
