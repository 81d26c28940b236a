"""The report: every check fails when what it looks at is wrong, and then it says so."""

import io
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import pytest
from rich.console import Console

from shim.demo import demo
from shim.demo.demo import run
from shim.demo.processes import DemoFailed
from shim.demo.report import Findings, GroupFindings, checks, show

BATCH = "baseOffset: 0 lastOffset: 0 count: 1 magic: 2 crc: 1 isvalid: true"
COMMIT = '| offset: 0 key: {"type":"1","data":{"group":"g","topic":"t","partition":0}} payload: {"version":"3"}'
GROUP = GroupFindings(
    group="g",
    records={"one": [(0, 0, 0), (0, 1, 2)], "two": [(1, 0, 1), (1, 0, 1)]},
    records_before_kill=2,
    positions=frozenset({(0, 1), (0, 2), (1, 1)}),
    failed_commits=0,
    acknowledged={0: 1},
    found={0: 1, 1: 1},
    committed={0: 2, 1: 1},
    at_broker={0: 2, 1: 1},
    known_to_broker=False,
)
FINDINGS = Findings(
    topic="t",
    partitions=2,
    delivered=[(0, 0, 0), (1, 0, 1), (0, 1, 2)],
    delivered_before_kill=2,
    kill_status=-SIGKILL,
    down_seconds=1.5,
    stop_status=0,
    groups=[GROUP],
    data_dir="/data",
    dump=[BATCH, COMMIT],
)

BROKEN: dict[str, tuple[Findings, str]] = {
    "not killed": (replace(FINDINGS, kill_status=0), "shim: killed"),
    "not stopped in order": (replace(FINDINGS, stop_status=1), "shim: stopped"),
    "delivered twice": (replace(FINDINGS, delivered=[*FINDINGS.delivered, (0, 2, 2)]), "producer"),
    "never delivered": (replace(FINDINGS, delivered=FINDINGS.delivered[1:]), "producer"),
    "nothing delivered after the kill": (replace(FINDINGS, delivered_before_kill=3), "producer"),
    "invalid batch": (replace(FINDINGS, dump=[BATCH.replace("true", "false"), COMMIT]), "log"),
    "nothing in the log": (replace(FINDINGS, dump=[]), "log"),
}

BROKEN_GROUPS: dict[str, tuple[GroupFindings, str]] = {
    "a record missed": (replace(GROUP, records={"one": [(0, 0, 0)], "two": [(1, 0, 1)]}), "consumed"),
    "a record invented": (replace(GROUP, records={**GROUP.records, "two": [(1, 0, 1), (1, 1, 9)]}), "consumed"),
    "an idle member": (replace(GROUP, records={"one": FINDINGS.delivered, "two": []}), "consumed"),
    "nothing consumed after the kill": (replace(GROUP, records_before_kill=4), "consumed"),
    "an offset lost": (replace(GROUP, acknowledged={0: 2}), "offsets found"),
    "a partition lost": (replace(GROUP, found={1: 1}), "offsets found"),
    "an offset invented": (replace(GROUP, found={0: 7, 1: 1}), "offsets found"),
    "nothing acknowledged": (replace(GROUP, acknowledged={}), "no commit was acknowledged"),
    "a lag": (replace(GROUP, committed={0: 1, 1: 1}, at_broker={0: 1, 1: 1}), "committed up to"),
    "committed too far": (replace(GROUP, committed={0: 3, 1: 1}, at_broker={0: 3, 1: 1}), "committed up to"),
    "a partition without a commit": (replace(GROUP, committed={0: 2}, at_broker={0: 2}), "committed up to"),
    "an offset that is not at the broker": (replace(GROUP, at_broker={0: 2}), "the broker itself"),
    "members at the broker": (replace(GROUP, known_to_broker=True), "the broker itself"),
}


def _shown(findings: Findings) -> tuple[bool, list[str]]:
    output = io.StringIO()
    holds = show(findings, Console(file=output, width=120))
    return holds, output.getvalue().splitlines()


def test_all_is_well() -> None:
    holds, lines = _shown(FINDINGS)
    assert holds
    assert not any(line.startswith("FAILED") for line in lines)
    assert lines[-1] == f"all {len(checks(FINDINGS))} checks hold"
    assert " ok     g: consumed 3 of 3 records (2 + 2), 1 duplicates, 2 after the kill, 0 failed commits" in lines
    rows = [line.split() for line in lines if line.startswith("g ")]
    assert rows == [["g", "0", "1", "1", "2", "2", "2"], ["g", "1", "-", "1", "1", "1", "1"]]
    note = "-: no commit for that partition was acknowledged before the kill, so none had to be found after it"
    assert note in lines
    _, lines = _shown(replace(FINDINGS, groups=[replace(GROUP, acknowledged={0: 1, 1: 1})]))
    assert note not in lines


@pytest.mark.parametrize(("findings", "line"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_fails_its_own_check_alone(findings: Findings, line: str) -> None:
    own = ("shim: ", "producer: ", "log: ")
    failed = [check.text for check in checks(findings) if not check.holds and check.text.startswith(own)]
    assert len(failed) == 1
    assert failed[0].startswith(line)
    holds, lines = _shown(findings)
    assert not holds
    assert f"FAILED  {failed[0]}" in lines


@pytest.mark.parametrize(("group", "line"), BROKEN_GROUPS.values(), ids=BROKEN_GROUPS)
def test_what_is_wrong_with_a_group_fails_its_own_check_alone(group: GroupFindings, line: str) -> None:
    findings = replace(FINDINGS, groups=[group])
    failed = [check.text for check in checks(findings) if not check.holds]
    assert len(failed) == 1
    assert line in failed[0]
    holds, lines = _shown(findings)
    assert not holds
    assert f"FAILED  {failed[0]}" in lines
    assert lines[-1] == f"1 of {len(checks(findings))} checks failed"


def _run_with(play: Callable[[Path, demo.Stage], Findings], monkeypatch: pytest.MonkeyPatch, json_wanted: bool) -> int:
    monkeypatch.setattr(demo, "play", play)
    monkeypatch.setattr(demo, "interruptible", nullcontext)
    return run(keep=False, json_wanted=json_wanted)


@pytest.mark.parametrize("json_wanted", [False, True])
def test_a_failed_check_is_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], json_wanted: bool
) -> None:
    lost = replace(FINDINGS, groups=[replace(GROUP, acknowledged={0: 2})])
    assert _run_with(lambda folder, stage: FINDINGS, monkeypatch, json_wanted) == 0
    assert _run_with(lambda folder, stage: lost, monkeypatch, json_wanted) == 1
    assert "LOST in partitions [0]" in capsys.readouterr().out


def test_the_folder_goes_even_when_the_demo_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []

    def fail(folder: Path, stage: demo.Stage) -> Findings:
        folders.append(folder)
        raise DemoFailed("a client ended")

    assert _run_with(fail, monkeypatch, False) == 1
    assert capsys.readouterr().err == "Error: a client ended\n"
    assert not folders[0].exists()


@pytest.mark.parametrize("keep", [False, True])
def test_the_last_line_says_where_it_is_kept_or_how_to(
    keep: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "play", lambda folder, stage: FINDINGS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(keep=keep, json_wanted=False) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    (kept,) = tmp_path.iterdir() if keep else (None,)
    assert last == (f"kept: {kept}" if keep else "`offset-shim demo --keep` keeps all this, to look at")
