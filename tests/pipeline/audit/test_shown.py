"""What the command prints."""

from __future__ import annotations

import json

import pytest

from pipeline.audit.auditing import Audited
from pipeline.audit.command import print_found, print_found_as_json
from tests.pipeline.audit.test_report import row, shown


def found() -> Audited:
    made = shown(row("billing", 3), row("etl\x1b[2J", 0, zookeeper=None, zookeeper_log="missing"))
    return Audited(made.totals, made.groups, made.differences)


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
    assert lines[-2] == ("40 groups, 2,000 partitions: 2 differing, 2 moving, 1 out of their log; lag 123,456")
    assert lines[-1] == "written to /lake/audit"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_found_as_json(found(), None)
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["differences"] == 2
    assert [each["zookeeper_log"] for each in document["differences"]] == ["behind", "missing"]
    assert document["differences"][0]["log_read"].endswith("Z")
