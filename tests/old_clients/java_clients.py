"""The Java and Scala clients, release by release: compiled against the jars of each, and kept in the cache."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from shim.demo.parts import JarSet, PartsUnavailable, cache_folder, jar_set
from shim.demo.parts.cache import locked
from shim.demo.parts.jars import POM_FOLDERS, java_executable
from shim.demo.parts.jvm import java_command
from tests.java_tools import COMPILER_OPTIONS
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, KAFKA_1
from tests.old_clients.client import OldClient

CLIENTS_0_9: Final = "clients-0.9.0.1"
CLIENTS_0_11: Final = "clients-0.11.0.3"
CLIENTS_2: Final = "clients-2.8.2"

_FOLDER: Final = Path(__file__).parent
_SOURCES: Final = _FOLDER / "java"
_LOG4J: Final = "log4j.properties"
_SCALA: Final = ("ScalaProducer", "HighLevelConsumer", "SimpleReader")
_WITH_ZOOKEEPER: Final = (KAFKA_0_8, KAFKA_0_10, KAFKA_1)  # as clients
WITH_TRANSACTIONS: Final = (CLIENTS_0_11, KAFKA_1, CLIENTS_2)
_CODECS: Final = ("none", "gzip", "snappy", "lz4")
_HEAP_MB: Final = 96
_COMPILE_TIMEOUT_S: Final = 120.0

POM_FOLDERS.append(_FOLDER / "poms")


def program(release: str, main_class: str) -> Callable[[], list[str]]:
    """How to start it: compiled for this release, once."""

    def command() -> list[str]:
        jars = jar_set(release)
        classes = _classes(jars)
        jars = dataclasses.replace(jars, jars=(*jars.jars, classes))  # behind them, so that their class archive fits
        logging = [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            f"-Dlog4j.configuration={(classes / _LOG4J).as_uri()}",
        ]
        return java_command(jars, main_class, heap_mb=_HEAP_MB, jvm_options=logging)

    return command


def _classes(jars: JarSet) -> Path:
    """The programs of this release, compiled now unless that was done before: a folder in the cache."""
    names = ["Contract", "JavaProducer", *(_SCALA if jars.name == KAFKA_0_8 else ("JavaClient",))]
    if jars.name in _WITH_ZOOKEEPER:
        names.append("ZooKeeperConsumer")
    if jars.name in WITH_TRANSACTIONS:
        names.append("OffsetsInTransaction")
    sources = [_SOURCES / f"{name}.java" for name in names]
    settings = _SOURCES / _LOG4J
    java = java_executable()
    of = hashlib.sha256("\0".join(map(str, (java, *jars.jars))).encode())
    for file in (*sources, settings):
        of.update(file.read_bytes())
    folder = cache_folder() / "old-clients" / f"{jars.name}-{of.hexdigest()[:16]}"
    with locked(folder):
        if not folder.is_dir():
            _compile(java.with_name("javac"), jars, sources, settings, folder)
    return folder


def _compile(javac: Path, jars: JarSet, sources: list[Path], settings: Path, folder: Path) -> None:
    if not javac.is_file():
        raise PartsUnavailable(f"no {javac}: the old clients are compiled with a JDK")
    with tempfile.TemporaryDirectory(dir=folder.parent) as parent:
        new = Path(parent) / "classes"
        options = (*COMPILER_OPTIONS, "-proc:none", "-nowarn", "-d", str(new), "-cp", jars.class_path)
        command = [str(javac), *options, *map(str, sources)]
        run = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_COMPILE_TIMEOUT_S
        )
        if run.returncode:
            raise PartsUnavailable(f"the programs for {jars.name} do not compile:\n{run.stdout}")
        shutil.copy(settings, new)
        new.rename(folder)  # whole, or not there


JAVA_CLIENTS: tuple[OldClient, ...] = (
    OldClient(
        "Scala producer 0.8.2.2",
        program(KAFKA_0_8, "ScalaProducer"),
        _CODECS,
        consumes=False,
        tells_offsets=False,
        has_timestamps=False,
    ),
    OldClient(
        "Java producer 0.8.2.2", program(KAFKA_0_8, "JavaProducer"), _CODECS, consumes=False, has_timestamps=False
    ),
    OldClient(
        "SimpleConsumer 0.8.2.2", program(KAFKA_0_8, "SimpleReader"), _CODECS, produces=False, has_timestamps=False
    ),
    OldClient(
        "high-level consumer 0.8.2.2",
        program(KAFKA_0_8, "HighLevelConsumer"),
        _CODECS,
        produces=False,
        needs_zookeeper=True,
        has_timestamps=False,
    ),
    OldClient("Java client 0.9.0.1", program(CLIENTS_0_9, "JavaClient"), _CODECS, has_timestamps=False),
    OldClient("Java client 0.10.2.2", program(KAFKA_0_10, "JavaClient"), _CODECS),
    OldClient("Java client 0.11.0.3", program(CLIENTS_0_11, "JavaClient"), _CODECS),
    OldClient("Java client 1.1.1", program(KAFKA_1, "JavaClient"), _CODECS),
    OldClient("Java client 2.8.2", program(CLIENTS_2, "JavaClient"), _CODECS),
)
"""``codecs`` of a consumer are those that it reads."""
