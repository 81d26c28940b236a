"""Room for one open file a partition and topic, under the limits that processes are started with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.admin.running import commit_record, write_log

TIMEOUT_SECONDS = 60
SERVE = """
from protocol.own.history_log import HISTORY_TOPIC
from shim.config import Settings
from protocol.partition import OFFSETS_TOPIC
from shim.disk_log import open_log
log = open_log(Path(sys.argv[1]), Settings(offsets_topic_num_partitions=200))
for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
    for partition in range(200):
        assert list(log.recover(partition, topic=topic)) == []
log.close()
"""
COMMAND = "from shim.main import cli\ncli(sys.argv[1:])"


def run(code: str, *args: str | Path, soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    limited = (
        "import resource, sys\nfrom pathlib import Path\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n{code}"
    )
    command = [sys.executable, "-c", limited, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def test_more_partitions_than_files_are_allowed_at_first(tmp_path: Path) -> None:
    done = run(SERVE, tmp_path, soft=100, hard=1000)
    assert (done.returncode, done.stderr) == (0, "")


def test_more_partitions_than_files_are_ever_allowed(tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    args = ["serve", "--bootstrap-servers", "127.0.0.1:1", "--listen", "127.0.0.1:1", "--data-dir", data_dir]
    done = run(COMMAND, *args, "--set", "offsets.topic.num.partitions=200", soft=100, hard=500)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "Error: this process may have 500 files open and needs 856: one for each of 600 partitions of the log, and 256 "
        "for the rest. Raise the limit (LimitNOFILE=, ulimit -n) or have fewer partitions"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["import", "compact"])
def test_commands_that_open_every_partition(tmp_path: Path, command: str) -> None:
    write_log(tmp_path / "from", [("group", commit_record("group", "t", 0, 1))], partitions=100)
    export = ["log", "export", "--data-dir", str(tmp_path / "from"), "--to-folder", str(tmp_path / "files")]
    assert run(COMMAND, *export, soft=50, hard=50).returncode == 0
    args: dict[str, list[str | Path]] = {
        "import": ["--data-dir", tmp_path / "to", "--from-folder", tmp_path / "files", "--partitions", "100"],
        "compact": ["--data-dir", tmp_path / "from"],
    }
    refused = run(COMMAND, "log", command, *args[command], soft=50, hard=100)
    assert refused.returncode == 2
    assert "may have 100 files open and needs 132" in refused.stderr
    done = run(COMMAND, "log", command, *args[command], soft=50, hard=200)
    assert done.returncode == 0, done.stderr
