"""Whatever the work raises, a command ends with one line and a status that says whether anything was done."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shim.admin.at_rest import backing_up
from shim.admin.commands.console import in_one_line
from shim.admin.errors import BrokenOff, NotDone
from shim.config import SettingError
from shim.log import CorruptLog, LogError, OffsetsLog
from shim.upstream.errors import UpstreamError
from tests.admin.running import commit_record, log, write_log


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    write_log(path, [("g", commit_record("g", "t", 0, 7))])
    return path


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotDone("why"), 2),
        (BrokenOff("why"), 1),
        (LogError("why"), 2),
        (SettingError("why"), 2),
        (UpstreamError("why"), 2),
        (OSError(errno.EIO, "", "why"), 2),
        (CorruptLog(Path("why"), 0, "it is damaged"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_work_raises(error: Exception, status: int) -> None:
    @click.command
    @in_one_line
    def command() -> None:
        raise error

    result = CliRunner().invoke(command)
    assert result.exit_code == status
    assert result.stderr.startswith("Error: why")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "json"])
def test_what_it_says_cannot_be_written(options: list[str]) -> None:
    """By then what was asked for may be done."""
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "shim.main", "config", "--set", "bootstrap.servers=b:9092", *options]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.endswith(
        "cannot be written to standard output: No space left on device; what was asked for may be done all the same"
    )


def test_a_backup_of_what_never_holds_still(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backing_up, "_signature", lambda *_: object())
    result = log("backup", "--data-dir", data_dir, tmp_path / "backup")
    assert result.status == 1
    assert result.stderr.startswith(f"Error: {data_dir / '__consumer_offsets-0'} changed 20 times while it was copied")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_an_import_that_cannot_be_written(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported, target = tmp_path / "exported", tmp_path / "target"
    assert log("export", "--data-dir", data_dir, "--to-folder", exported, "--partitions", "1").status == 0
    failure = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(OffsetsLog, "write", lambda *_: {0: failure})
    result = log("import", "--data-dir", target, "--from-folder", exported, "--partitions", "1")
    assert result.status == 1
    assert result.stderr.endswith(f"Error: __consumer_offsets-0 was not written: {failure}\n")


@pytest.mark.parametrize(("command", "option"), [("import", "--from-bootstrap"), ("export", "--to-bootstrap")])
def test_servers_that_cannot_be_read(data_dir: Path, command: str, option: str) -> None:
    result = log(command, "--data-dir", data_dir, option, "nowhere")
    assert result.status == 2
    assert result.stderr == "Error: 'nowhere' is not host:port (an IPv6 address stands in brackets)\n"
