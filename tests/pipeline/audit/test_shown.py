"""What the command prints."""

from __future__ import annotations

import errno
import io
import json
import os
from contextlib import redirect_stdout

import pytest

from pipeline.audit.auditing import Audited
from pipeline.audit.command import CouldNot, print_found, print_found_as_json, tell
from tests.pipeline.audit.test_report import row, shown


def found() -> Audited:
    made = shown(row("billing", 3), row("etl\x1b[2J", 0, zookeeper=None, zookeeper_log="missing"))
    return Audited(made.totals, made.groups, made.differences, made.left_out)


def test_a_table_of_the_groups_that_differ_and_one_of_the_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    print_found(found(), "/lake/audit")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("GROUP", "STEP", "PARTITIONS", "ZOOKEEPER", "LOG", "UPSTREAM", "DIFFERING", "MOVING", "LAG")
    ]
    assert lines[1].split() == ["billing", "kafka+dual", "3", "3", "3", "3", "1", "1", "1"]
    assert lines[2].startswith("etl\\x1b[2J ")
    (verdicts,) = [line.split() for line in lines if line.startswith("zookeeper / log")]
    assert verdicts[3:] == ["0", "1", "0", "1", "0", "0", "0"]
    assert lines[-6:-1] == [
        "40 groups, 2,000 partitions compared: 2 differing, 2 moving, 1 out of their log; lag 123,456",
        "",
        "left out: 1 group, 3 partitions",
        "GROUP  STEP   PARTITIONS  WHY",
        "gone   kafka           3  only zookeeper has it",
    ]
    assert lines[-1] == "written to /lake/audit"


class _Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_be_told_is_not_told_as_a_difference(as_json: bool) -> None:
    with redirect_stdout(_Full()), pytest.raises(CouldNot) as failed:
        tell(found(), None, as_json=as_json)
    assert failed.value.exit_code == 2
    assert failed.value.message == "standard output: No space left on device"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_found_as_json(found(), None)
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["differences"] == 2
    assert [each["zookeeper_log"] for each in document["differences"]] == ["behind", "missing"]
    assert document["differences"][0]["log_read"].endswith("Z")
    assert [each["group"] for each in document["left_out"]] == ["gone"]
