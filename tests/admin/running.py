"""`offset-shim log …` as its users run it, and what a data directory serves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from click.testing import CliRunner

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.partition import partition_for
from shim.admin.at_rest.data_dir import data_dir_at_rest
from shim.admin.commands.log import log_commands
from shim.admin.progress import Progress
from shim.admin.transfer.group_offsets import read_offsets
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.disk.files import Files
from shim.offsets.cluster.groups import Committed
from tests import commands

TIME_LIMIT_SECONDS = 30
TIMESTAMP = 1_700_000_000_000


class Silent:
    """Progress that nobody sees."""

    def __init__(self, what: str, total: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def advance(self, done: int) -> None:
        pass


SILENT: Final[Progress] = Silent


class Result(NamedTuple):
    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def log(*args: str | Path) -> Result:
    """In this process; whatever it raises beside its exit status fails the test."""
    result = CliRunner().invoke(log_commands, [str(arg) for arg in args], catch_exceptions=False)
    return Result(result.exit_code, result.stdout, result.stderr)


def log_in_a_process(*args: str | Path, stdin: int = subprocess.DEVNULL) -> Result:
    result = commands.ended("log", *map(str, args), stdin=stdin)
    assert "Traceback" not in result.stderr, result.stderr
    return Result(result.returncode, result.stdout, result.stderr)


def served(data_dir: Path) -> dict[str, Committed]:
    """Of every group what is in force in a data directory."""
    files = Files()
    with data_dir_at_rest(files, data_dir) as held:
        offsets = read_offsets(files, held, "reading", SILENT)
    return {group: offsets.of(group) for group in offsets.groups()}


def commit_record(
    group: str, topic: str, partition: int, offset: int | None, **fields: Any
) -> tuple[bytes, bytes | None]:
    """An offset, or, without one, its tombstone."""
    key = encode_key(OffsetCommitKey(group, topic, partition))
    if offset is None:
        return key, None
    return key, encode_value(OffsetCommitValue(offset, **{"commit_timestamp": TIMESTAMP, **fields}))


def write_log(
    data_dir: Path,
    records: Sequence[tuple[str, tuple[bytes, bytes | None]]],
    *,
    partitions: int = 1,
    settings: LogSettings | None = None,
) -> None:
    """Each (group, record) in a batch of its own, all timestamps one second apart; the log is closed in good order."""
    offsets_log = OffsetsLog.open(data_dir, partitions, settings=settings)
    try:
        for partition in range(partitions):
            assert all(offsets_log.recover(partition))
        for number, (group, record) in enumerate(records):
            write = PartitionWrite(partition_for(group, partitions), [[record]], TIMESTAMP + 1000 * number)
            assert offsets_log.write([write]) == {}
    finally:
        offsets_log.close()


def plainly(offsets: Mapping[str, Committed]) -> dict[tuple[str, str, int], tuple[int, int, str]]:
    """By group, topic and partition: offset, leader epoch and metadata, which is what a broker tells."""
    return {
        (group, topic, partition): (its.offset, its.leader_epoch, its.metadata)
        for group, committed in offsets.items()
        for (topic, partition), its in committed.items()
    }
