"""Old clients in Go (sarama) and Python (kafka-python): libraries of today that still speak to brokers of 2015."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Final

from tests.old_clients.client import OldClient
from tests.old_clients.go_program import go_program

_PYTHON: Final = Path(__file__).with_name("python") / "old_kafka_python.py"

# sarama writes lz4 for 0.10 and newer alone.
_WITHOUT_LZ4: Final = ("none", "gzip", "snappy")
_ALL: Final = (*_WITHOUT_LZ4, "lz4")
_WITH_TIMESTAMPS: Final = "0.10."


def _sarama_command(version: str) -> list[str]:
    return [str(go_program()), version]


def _python_command(version: str) -> list[str]:
    return [sys.executable, str(_PYTHON), version]


def _sarama(version: str, codecs: tuple[str, ...]) -> OldClient:
    name, timed = f"sarama as of {version}", version.startswith(_WITH_TIMESTAMPS)
    return OldClient(name, partial(_sarama_command, version), codecs, has_timestamps=timed)


def _kafka_python(version: str) -> OldClient:
    name, timed = f"kafka-python as of {version}", version.startswith(_WITH_TIMESTAMPS)
    return OldClient(name, partial(_python_command, version), _ALL, has_timestamps=timed)


_SARAMA: Final = (
    _sarama("0.8.2.0", _WITHOUT_LZ4),
    _sarama("0.9.0.0", _WITHOUT_LZ4),
    _sarama("0.10.0.0", _ALL),
    _sarama("0.10.2.0", _ALL),  # the first with consumer groups
)

GO_AND_PYTHON_CLIENTS: Final[tuple[OldClient, ...]] = (
    # The tests promise to run without Go.
    *(_SARAMA if shutil.which("go") else ()),
    _kafka_python("0.8.2"),
    _kafka_python("0.9"),
    _kafka_python("0.10.0"),
)
