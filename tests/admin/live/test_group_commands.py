"""`offset-shim groups reset | delete | history | watch`, at an admin interface with groups that are in memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shim.admin import admin_client
from shim.admin.commands import groups_watch
from shim.admin.commands.groups_watch import cells
from shim.admin.commands.history_elsewhere import AT_THE_CLUSTER, HISTORY_ELSEWHERE
from shim.admin.live.asked.groups import Change, Kind, Member
from shim.admin.live.asked.migration import Refused as MoveRefused
from shim.main import cli
from shim.terminal.times import parse_duration
from tests.admin.live.grouped import MOVED, NO_BROKERS, NOW_MS, Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.running import (
    TIME_LIMIT_SECONDS,
    admin_of,
    at_a_terminal_of_its_own,
    in_a_process,
    offset_shim,
    read_until,
)
from tests.admin.live.watching import OVERVIEW
from tests.waiting import wait_until

OF_ALL = ("--to-earliest", "--all-topics")
UUID = "5c3c6e6e-3a4b-4d0e-9d3f-0123456789ab"


@pytest.fixture
def moved() -> Moved:
    moved = Moved()
    moved.add("g", step="kafka")
    return moved


@pytest.fixture
def grouped(moved: Moved) -> Grouped:
    return Grouped(moved)


@pytest.fixture
def admin(moved: Moved, grouped: Grouped) -> Iterator[str]:
    with admin_of(moved, grouped) as address:
        yield address


# --- reset -----------------------------------------------------------------------------------------------------------


def test_a_reset_shows_what_it_sets(grouped: Grouped, admin: str) -> None:
    told = offset_shim("groups", "reset", "g", *OF_ALL, "--cause", "4711", "--admin", admin)
    assert told.status == 0
    assert told.stdout.splitlines() == [
        "TOPIC   PARTITION  OFFSET  NEW-OFFSET  NOTE",
        "orders          0  5                0",
        "orders          1  -                3  9 is beyond the log's end",
        "orders          2  4                4  stays",
    ]
    assert told.stderr == "2 offsets set\n"
    ((group, changes, cause, host),) = grouped.resets
    assert (group, host) == ("g", "127.0.0.1")
    assert [(each.partition, each.offset, each.new_offset) for each in changes] == [(0, 5, 0), (1, -1, 3)]
    assert cause.startswith("groups reset --to-earliest, by ")
    assert cause.endswith(": 4711")


@pytest.mark.parametrize(
    ("target", "asks_history"),
    [(("--from-history", "2026-03-01", "--all-topics"), True), (("--undo",), True), (OF_ALL, False)],
)
def test_a_history_of_which_a_part_may_be_elsewhere(
    grouped: Grouped, moved: Moved, target: tuple[str, ...], asks_history: bool
) -> None:
    """It is said where the log was moved, and of what is asked of the history."""
    for log_moves in (False, True):
        with admin_of(moved, grouped, whole=OVERVIEW._replace(log_moves=log_moves)) as address:
            told = offset_shim("groups", "reset", "g", *target, "--dry-run", "--admin", address)
        assert told.status == 0
        assert told.stderr == (f"{HISTORY_ELSEWHERE}\n" if log_moves and asks_history else "")


def test_a_dry_run_sets_nothing(grouped: Grouped, admin: str) -> None:
    told = offset_shim("groups", "reset", "g", *OF_ALL, "--dry-run", "--json", "--admin", admin)
    assert (told.status, told.json["dry_run"], len(told.json["offsets"])) == (0, True, 3)
    grouped.hindrance = "it has members"
    assert offset_shim("groups", "reset", "g", *OF_ALL, "--dry-run", "--admin", admin).status == 1
    refused = offset_shim("groups", "reset", "g", *OF_ALL, "--admin", admin)
    assert refused == (1, "", "Error: group g: it has members\n")
    assert grouped.resets == []


def test_a_partition_that_is_asked_for_as_a_topic_is_not_said_to_have_no_history(admin: str) -> None:
    """`groups reset` takes it so."""
    told = offset_shim("groups", "history", "g", "--topic", "orders:1", "--admin", admin)
    assert told.status == 2
    assert "'orders:1': no topic has a colon in its name; of one partition: --partition orders:3" in told.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("groups", "reset", "g", *OF_ALL),
        ("groups", "describe", "g"),
        ("groups", "history", "g"),
        ("groups", "watch", "g"),
        ("groups", "delete", "g"),
        ("migrate", "start", "g"),
        ("migrate", "advance", "g"),
        ("migrate", "rollback", "g"),
        ("migrate", "status", "g"),
        ("migrate", "verify", "g"),
        ("migrate", "plan", "g"),
    ],
    ids=lambda command: command[1],
)
def test_a_group_that_is_refused_has_one_status_whatever_was_asked(
    moved: Moved, grouped: Grouped, admin: str, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    async def refuse(*_: object, **__: object) -> object:
        raise MoveRefused("group g is another shim's")

    for its, names in ((moved, "start advance rollback status verify plan"), (grouped, "plan_reset history delete")):
        for name in names.split():
            monkeypatch.setattr(its, name, refuse)
    told = offset_shim(*command, "--admin", admin)
    assert (told.status, told.stdout) == (1, "")
    assert told.stderr.endswith("group g is another shim's\n")


def test_a_reset_that_is_refused_when_it_is_to_be_done(
    grouped: Grouped, admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise MoveRefused("group g: another offset is committed by now")

    monkeypatch.setattr(grouped, "reset", refuse)
    told = offset_shim("groups", "reset", "g", *OF_ALL, "--admin", admin)
    assert (told.status, told.stderr) == (1, "Error: group g: another offset is committed by now\n")


def test_execute_is_taken_as_kafkas_tool_wants_it(grouped: Grouped, admin: str) -> None:
    reset = ("groups", "reset", "g", *OF_ALL, "--admin", admin)
    both = offset_shim(*reset, "--execute", "--dry-run")
    assert (both.status, both.stdout, grouped.planned) == (2, "", [])
    assert "Give --dry-run, or --execute: one of them." in both.stderr
    assert offset_shim(*reset, "--execute") == offset_shim(*reset)
    once, again = grouped.resets
    assert once == again
    assert "--execute" not in offset_shim("groups", "reset", "--help").stdout.partition("Options:")[2]


def test_what_is_deleted_is_not_called_set(grouped: Grouped, admin: str) -> None:
    """As by an undo of what there was nothing before."""
    undo = ("groups", "reset", "g", "--undo", "--admin", admin)
    grouped.planned_changes = (Change("orders", 0, 10, -1),)
    assert offset_shim(*undo).stderr == "1 offset deleted\n"
    grouped.planned_changes = (Change("orders", 0, 10, 3), Change("orders", 1, 10, -1), Change("orders", 2, 10, -1))
    told = in_a_process(*undo, answers="y\n")
    assert "Set 1 offset and delete 2 offsets of group g?" in told.stderr
    assert told.stderr.splitlines()[-1].endswith("]: 1 offset set, 2 offsets deleted")


def test_a_group_that_is_not_there_is_told_of_and_made(grouped: Grouped, admin: str) -> None:
    """As Kafka's tool makes it, for scripts that mean to; a name that was misspelt is not passed over."""
    reset = ("groups", "reset", "biling", *OF_ALL, "--admin", admin)
    assert offset_shim(*reset, "--dry-run", "--json").json["new_group"] is False
    grouped.state = "Dead"
    new = "group biling has no offsets here: a reset makes the group\n"
    dry = offset_shim(*reset, "--dry-run")
    assert (dry.status, dry.stderr) == (0, new)
    assert offset_shim(*reset, "--dry-run", "--json").json["new_group"] is True
    assert grouped.resets == []
    done = offset_shim(*reset)
    assert (done.status, done.stderr) == (0, f"{new}2 offsets set\ngroup biling is new\n")
    assert offset_shim(*reset, "--json").json["new_group"] is True
    assert len(grouped.resets) == 2
    grouped.planned_changes = ()
    assert offset_shim(*reset).stderr == "0 offsets set\n", "of nothing nothing is made"


def test_it_asks_on_a_terminal_alone(grouped: Grouped, admin: str) -> None:
    reset = ("groups", "reset", "g", *OF_ALL, "--admin", admin)
    no = in_a_process(*reset, answers="n\n")
    assert no.status == 2
    assert "Set 2 offsets of group g?" in no.stderr
    assert no.stderr.endswith("[y/N]: nothing was done\r\n")
    assert grouped.resets == []
    assert in_a_process(*reset, "--yes", answers="").status == 0
    assert offset_shim(*reset).status == 0  # standard input is no terminal
    assert len(grouped.resets) == 2


@pytest.mark.parametrize("command", [("reset", "g", *OF_ALL), ("delete", "g")])
@pytest.mark.parametrize("typed", [b"\x03", b"\x04"], ids=["Ctrl-C", "the end of the input"])
def test_who_does_not_answer_has_begun_nothing(
    grouped: Grouped, admin: str, command: tuple[str, ...], typed: bytes
) -> None:
    with at_a_terminal_of_its_own("groups", *command, "--admin", admin) as (asking, terminal):
        read_until(terminal, "[y/N]: ")
        assert read_until(terminal, "nothing was done", typed).splitlines()[-1] == "nothing was done"
        assert asking.wait(TIME_LIMIT_SECONDS) == 2
    assert (grouped.resets, grouped.deleted) == ([], [])


def test_a_reset_that_is_stopped_while_it_is_done(grouped: Grouped, admin: str) -> None:
    grouped.hangs = True
    reset = ("groups", "reset", "g", *OF_ALL, "--yes", "--admin", admin)
    with at_a_terminal_of_its_own(*reset) as (resetting, terminal):
        wait_until(lambda: grouped.resets)
        os.write(terminal, b"\x03")
        told = read_until(terminal, "before you do it again")
        assert "did not say what became of it: stopped. Look with `offset-shim groups describe g" in told
        assert resetting.wait(TIME_LIMIT_SECONDS) == 1


def test_a_reset_of_which_nobody_knows_what_became(grouped: Grouped, admin: str) -> None:
    grouped.uncertain.add("g")
    told = offset_shim("groups", "reset", "g", *OF_ALL, "--admin", admin)
    assert (told.status, told.stderr) == (1, "Error: it is in the log, and not in ZooKeeper\n")


def test_a_reset_that_the_shim_is_gone_over(grouped: Grouped, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been done: that is no "nothing was done"."""
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 1.0)
    for what, why in (("hangs", "timed out"), ("breaks", "failed, the shim's log says why")):
        setattr(grouped, what, True)
        told = offset_shim("groups", "reset", "g", *OF_ALL, "--admin", admin)
        assert (told.status, why in told.stderr) == (1, True), told
        assert (f"Look with `offset-shim groups describe g --admin {admin}` before you do it again" in told.stderr) == (
            what == "hangs"
        )
        setattr(grouped, what, False)


@pytest.mark.parametrize("command", [("history", "g"), ("reset", "g", *OF_ALL), ("delete", "g")])
def test_a_shim_that_starts(command: tuple[str, ...]) -> None:
    with admin_of(None) as address:
        told = offset_shim("groups", *command, "--admin", address)
    assert (told.status, told.stdout, told.stderr) == (2, "", "Error: the shim starts\n")


@pytest.mark.parametrize(
    ("options", "kind", "number"),
    [
        (("--to-offset", "7"), Kind.OFFSET, 7),
        (("--to-offset", "0"), Kind.OFFSET, 0),
        (("--shift-by", "0"), Kind.SHIFT, 0),
        (("--shift-by", "-7"), Kind.SHIFT, -7),
        (("--to-datetime", "2026-03-01T14:05"), Kind.TIME, 1_772_373_900_000),
        (("--to-datetime", "2026-03-01T14:05:00.000+01:00"), Kind.TIME, 1_772_370_300_000),
        (("--from-history", "1772373900000"), Kind.HISTORY, 1_772_373_900_000),
        (("--to-latest",), Kind.LATEST, 0),
        (("--to-current",), Kind.CURRENT, 0),
        (("--from-upstream",), Kind.UPSTREAM, 0),
        (("--undo",), Kind.UNDO, 0),
    ],
)
def test_what_the_shim_is_asked(
    grouped: Grouped, admin: str, options: tuple[str, ...], kind: Kind, number: int
) -> None:
    topics = ("--topic", "orders:2,1", "--topic", "bills", "--topic", "orders:0")
    assert offset_shim("groups", "reset", "g", *options, *topics, "--dry-run", "--admin", admin).status == 0
    ((group, target, scope),) = grouped.planned
    assert (group, target.kind, target.number) == ("g", kind, number)
    assert (scope.all_topics, dict(scope.topics)) == (False, {"orders": [2, 1, 0], "bills": None})


def test_a_file_with_groups(grouped: Grouped, admin: str, tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text('g,"orders",0,5\nother,orders,1,6\n\ng,bills,2,7\n')
    offset_shim("groups", "reset", "g", "--from-file", str(tmp_path / "plan.csv"), "--admin", admin)
    ((_, target, _),) = grouped.planned
    assert target.offsets == {("orders", 0): 5, ("bills", 2): 7}


def test_a_file_as_a_spreadsheet_writes_it(grouped: Grouped, admin: str, tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_bytes(b"\xef\xbb\xbforders,0,5\r\nbills,2,7\r\n")
    offset_shim("groups", "reset", "g", "--from-file", str(tmp_path / "plan.csv"), "--admin", admin)
    ((_, target, _),) = grouped.planned
    assert target.offsets == {("orders", 0): 5, ("bills", 2): 7}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("orders,0,5\n\nbills,0,1\norders,0,6\n", "orders-0 is there twice, in line 1 and in line 4"),
        ("orders,0,5\ng, orders,00,5\n", "orders-0 is there twice, in line 1 and in line 2"),
        ("orders,0,5\n\norders,1\n", "line 3: topic,partition,offset, or group,topic,partition,offset"),
        ("topic,partition,offset\n", "line 1: partition and offset are not numbers"),
        ("other,orders,0,5\n", "has no offset of group g"),
        (f"{'x' * 200_000},0,5\n", "neither Kafka's CSV nor Parquet"),
    ],
)
def test_what_is_no_file_of_offsets(grouped: Grouped, admin: str, tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "plan.csv").write_text(content)
    told = offset_shim("groups", "reset", "g", "--from-file", str(tmp_path / "plan.csv"), "--admin", admin)
    assert (told.status, said in told.stderr, told.stderr.count("\n")) == (2, True, 1), told.stderr
    assert grouped.planned == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "To where?"),
        (("--to-earliest", "--to-latest", "--all-topics"), "not --to-earliest, --to-latest at once."),
        (("--to-earliest",), "Which offsets?"),
        (("--to-earliest", "--topic", "t", "--all-topics"), "one of them"),
        (("--to-earliest", "--topic", "t:a"), "partitions are numbers"),
        (("--to-earliest", "--topic", "t:-1"), "no such partitions"),
        (("--to-offset", "-1", "--all-topics"), "--to-offset"),
        (("--by-duration", "7 days", "--all-topics"), "no duration"),
        (("--to-datetime", "yesterday", "--all-topics"), "ISO 8601"),
        (("--to-datetime", "1772373900", "--all-topics"), "is it seconds, or a date?"),
        (("--from-history", "20260301", "--all-topics"), "is it seconds, or a date?"),
        (("--from-file", "no-such-file"), "--from-file"),
    ],
)
def test_what_is_no_reset(grouped: Grouped, admin: str, options: tuple[str, ...], said: str) -> None:
    told = offset_shim("groups", "reset", "g", *options, "--admin", admin)
    assert told.status == 2
    assert said in told.stderr
    assert grouped.planned == []


@pytest.mark.parametrize(
    ("text", "ms"),
    [("P7D", 604_800_000), ("PT3H30M", 12_600_000), ("P1DT1.5S", 86_401_500), ("-PT1S", -1000), ("pt0s", 0)],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P1W", "PT1.0000000001S"])
def test_what_is_no_duration(text: str) -> None:
    import click

    with pytest.raises(click.BadParameter, match="no duration"):
        parse_duration(text)


# --- over HTTP -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "question", "said"),
    [
        ("reset/plan", {"group": "g"}, "one of to_offset"),
        ("reset/plan", {"group": "g", "undo": True, "to_offset": 1}, "one of to_offset"),
        ("reset/plan", {"group": "g", "to_earliest": True}, "topics or all_topics has to be given"),
        ("reset/plan", {"group": "g", "to_earliest": 1, "all_topics": True}, "to_earliest can be true alone"),
        ("reset/plan", {"group": "g", "to_offset": -1, "all_topics": True}, "to_offset is not a whole number"),
        ("reset/plan", {"group": "g", "to_offset": 1, "topics": [{"name": "t"}]}, "topics: each has topic"),
        ("reset/plan", {"group": 7, "undo": True}, "group is not text"),
        ("reset/plan", {"undo": True}, "group is not text"),
        ("reset", {"group": "g", "offsets": []}, "offsets is not a list"),
        ("reset", {"group": "g", "offsets": [{"topic": "t", "partition": 0}]}, "offsets: each has"),
        ("reset", {"group": "g", "offset": 1}, '"offset" is not known'),
        ("delete", {"groups": []}, "groups is not a list"),
        ("delete", {"groups": ["g"], "dry_run": "yes"}, "dry_run can be true or false"),
    ],
)
def test_requests_that_cannot_be_understood(
    grouped: Grouped, admin: str, path: str, question: dict[str, Any], said: str
) -> None:
    asked = urllib.request.Request(
        f"http://{admin}/v1/groups/{path}", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked, timeout=TIME_LIMIT_SECONDS)
    with refused.value as response:
        assert response.code == 400
        assert said in json.load(response)["error"]
    assert (grouped.planned, grouped.resets, grouped.deleted) == ([], [], [])


@pytest.mark.parametrize(
    "query",
    [
        "",
        "group=g&group=h",
        "group=g&last=-1",
        "group=g&since_ms=x",
        "group=g&since=1",
        "group=g&all=1",
        "group=g&all=true&all=true",
        "group=g&partition=t",
        "group=g&partition=t:2147483648",
        "group=g&partition=:1",
        "group=g&partition=t:-1",
    ],
)
def test_questions_for_history_that_cannot_be_understood(admin: str, query: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{admin}/v1/groups/history?{query}", timeout=TIME_LIMIT_SECONDS)
    with refused.value as response:
        assert response.code == 400


# --- delete ----------------------------------------------------------------------------------------------------------


def test_what_is_deleted_and_what_is_not(moved: Moved, grouped: Grouped, admin: str) -> None:
    moved.add("held", "odd")
    moved.refused["held"] = "it has members"
    grouped.uncertain.add("odd")
    told = offset_shim("groups", "delete", "g", "held", "odd", "nobody", "--admin", admin)
    assert told.status == 1
    assert told.stdout.splitlines() == ["GROUP  OFFSETS  OUTCOME", "g            3  deleted"]
    assert told.stderr.splitlines() == [
        "held: refused: it has members",
        "nobody: not known: there is no group nobody",
        "odd: failed: it is in the log, and not in ZooKeeper",
    ]
    assert {group for group, _ in grouped.deleted} == {"g", "odd"}


def test_deleting_asks_on_a_terminal(grouped: Grouped, admin: str) -> None:
    no = in_a_process("groups", "delete", "g", "--admin", admin, answers="n\n")
    assert no.status == 2
    assert "Delete 1 group with all offsets?" in no.stderr
    dry = offset_shim("groups", "delete", "g", "--dry-run", "--admin", admin)
    assert (dry.status, "would be deleted" in dry.stdout) == (0, True)
    assert grouped.deleted == []
    assert in_a_process("groups", "delete", "g", "--admin", admin, answers="y\n").status == 0
    assert [group for group, _ in grouped.deleted] == ["g"]


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_history(grouped: Grouped, admin: str) -> None:
    told = offset_shim(
        *("groups", "history", "g", "--topic", "orders", "--since", "2026-03-01", "--last", "5", "--admin", admin)
    )
    assert told.stdout.splitlines() == [
        "TIME                      TOPIC   PARTITION  FROM  TO  CLIENT-ID  HOST       PRINCIPAL  CAUSE",
        "2023-11-14T22:13:20.000Z  orders          2  -      7  etl        /10.0.0.4  User:a",
        "2023-11-14T22:13:20.000Z  orders          2  none   7  etl        /10.0.0.4  User:a",
        "2023-11-14T22:13:20.000Z  orders          2  5      7  etl        /10.0.0.4  User:a",
    ]
    assert grouped.windows == [(1_772_323_200_000, ["orders"], 5, frozenset(), False)]


def test_history_of_some_partitions_with_all_commits(grouped: Grouped, admin: str) -> None:
    options = ("--partition", "orders:2", "--partition", "a:b:0", "--all-commits")
    assert offset_shim("groups", "history", "g", *options, "--admin", admin).status == 0
    assert grouped.windows == [(None, [], None, {("orders", 2), ("a:b", 0)}, True)]
    told = offset_shim("groups", "history", "g", "--partition", "orders", "--admin", admin)
    assert (told.status, told.stdout) == (2, "")
    assert "Invalid value for '--partition': 'orders': a topic and a number, as in orders:3\n" in told.stderr
    told = offset_shim("groups", "history", "g", "--partition", f"orders:{2**31}", "--admin", admin)
    assert (told.status, told.stderr) == (2, "Error: partition is 'orders:2147483648', and not topic:number\n")


def test_a_history_that_there_is_not(grouped: Grouped, admin: str) -> None:
    """A group may have none; of a name that nobody knows it is said."""
    assert offset_shim("groups", "history", "nosuch", "--admin", admin).status == 0, "deleted, and in the history"
    grouped.without_history = True
    told = offset_shim("groups", "history", "g", "--admin", admin)
    assert (told.status, told.stdout) == (0, "")
    told = offset_shim("groups", "history", "nosuch", "--admin", admin)
    assert (told.status, told.stdout, len(told.stderr.splitlines())) == (1, "", 1)
    assert "nosuch" in told.stderr


def test_a_history_of_a_group_that_the_cluster_has_by_now(moved: Moved, grouped: Grouped, admin: str) -> None:
    """What was committed before is shown, and that more may have been committed since."""
    moved.add("given-back")
    told = offset_shim("groups", "history", "given-back", "--admin", admin)
    assert (told.status, len(told.stdout.splitlines()), told.stderr) == (0, 4, f"{AT_THE_CLUSTER}\n")
    told = offset_shim("groups", "history", "given-back", "--json", "--admin", admin)
    assert (told.status, len(told.json["moves"]), told.stderr) == (0, 3, f"{AT_THE_CLUSTER}\n")
    moved.add("dual", step="upstream+dual")
    for served_or_gone in ("g", "dual", "nosuch"):
        assert offset_shim("groups", "history", served_or_gone, "--admin", admin).stderr == ""
    moved.uncertain["g"] = MoveRefused("its partition is being read back, ask again")
    told = offset_shim("groups", "history", "g", "--admin", admin)
    assert (told.status, len(told.stdout.splitlines())) == (0, 4)
    assert told.stderr == (
        "whether the group is the cluster's now is not known: its partition is being read back, ask again\n"
    )


def test_members_and_who_committed_last(grouped: Grouped, admin: str) -> None:
    grouped.members = [
        Member(
            f"etl-{UUID}",
            *(None, "etl", "/10.0.0.4"),
            partitions=[("bills", 0), ("orders", 1), ("orders", 2)],
            heard_ms=NOW_MS - 4_000,
            session_timeout_ms=45_000,
            removed_ms=NOW_MS + 41_000,
        ),
        Member(f"static-{UUID}", "static", "e\x1b[2J", "/10.0.0.5", [], None, 45_000, None),
        Member("etl-3", None, "etl", "/10.0.0.6", None),
        Member("etl-4", None, "etl", "/10.0.0.7", [], NOW_MS - 31_000, 45_000, NOW_MS + 14_000, is_silent=True),
    ]
    grouped.last_commit = MOVED._replace(cause="groups reset --undo")
    lines = offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()
    assert lines[6:12] == [
        "last commit: 2023-11-14T22:13:20.000Z by etl /10.0.0.4 User:a (groups reset --undo)",
        "CLIENT-ID  HOST       MEMBER     INSTANCE  HEARD             SESSION  REMOVED  PARTITIONS",
        "etl        /10.0.0.4  5c3c6e6e…  -         4 s ago           45 s     in 41 s  bills:0 orders:1,2",
        "e\\x1b[2J   /10.0.0.5  5c3c6e6e…  static    -                 45 s     -        none",
        "etl        /10.0.0.6  etl-3      -         -                 -        -        -",
        "etl        /10.0.0.7  etl-4      -         silent, 31 s ago  45 s     in 14 s  none",
    ]


def test_members_of_a_java_client_fit_into_a_line(grouped: Grouped, admin: str) -> None:
    """By its defaults, with a group's name of eight letters."""
    client = "consumer-invoices-1"
    grouped.members = [
        Member(f"{client}-{UUID}", None, client, "/192.168.100.200", [("orders", 0)], NOW_MS, 45_000, NOW_MS + 45_000)
    ]
    heading, member = offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()[6:8]
    assert heading.split() == ["CLIENT-ID", "HOST", "MEMBER", "HEARD", "SESSION", "REMOVED", "PARTITIONS"]
    assert member.endswith("  orders:0")
    assert max(len(heading), len(member)) <= 100


@pytest.mark.parametrize(
    ("there", "shown"),
    [
        (["g_old-1", "g_old-2\x1b[2J"], ["consumers in ZooKeeper: 2: g_old-1, g_old-2\\x1b[2J"]),
        ([], []),
        (None, ["consumers in ZooKeeper: not known now"]),
    ],
)
def test_consumers_in_zookeeper_are_no_members(
    grouped: Grouped, admin: str, there: list[str] | None, shown: list[str]
) -> None:
    grouped.zookeeper_consumers = there
    lines = offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()
    assert [line for line in lines if "ZooKeeper" in line] == shown
    assert offset_shim("groups", "describe", "g", "--json", "--admin", admin).json["zookeeper_consumers"] == there


def test_members_as_an_older_shim_tells_of_them(grouped: Grouped, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    get = admin_client.RunningShim.get

    def older(self: admin_client.RunningShim, path: str, query: Any = ()) -> Any:
        document = get(self, path, query)
        for name in ("now_ms", "zookeeper_consumers"):
            del document[name]
        for each in document["member_details"]:
            for name in ("heard_ms", "session_timeout_ms", "removed_ms"):
                del each[name]
        return document

    monkeypatch.setattr(admin_client.RunningShim, "get", older)
    grouped.members = [Member("m", None, "etl", "/10.0.0.4", [])]
    assert (
        "etl        /10.0.0.4  m       -      -        -        none"
        in offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()
    )


@pytest.mark.parametrize(
    ("client_id", "cause", "shown"),
    [
        ("", "adopted from the cluster", ", adopted from the cluster (by whom is not known here)"),
        ("", "", " (by whom is not known here)"),
        ("etl", "", " by etl"),
        ("zookeeper", "", ", read in ZooKeeper (when it was written there, and by whom, is not known here)"),
    ],
)
def test_a_last_commit_of_which_not_all_is_known(
    grouped: Grouped, admin: str, client_id: str, cause: str, shown: str
) -> None:
    grouped.last_commit = MOVED._replace(client_id=client_id, client_host="", principal="", cause=cause)
    lines = offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()
    assert f"last commit: 2023-11-14T22:13:20.000Z{shown}" in lines


def test_a_group_without_offsets(moved: Moved, grouped: Grouped, admin: str) -> None:
    """Where a share group stands is kept elsewhere, and known to another tool."""
    grouped.without_offsets = True
    assert offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()[-1] == "no offsets"
    moved.groups["g"] = moved.groups["g"]._replace(type="Share", step="upstream")
    assert offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()[-1] == (
        "no committed offsets: where a share group stands kafka-share-groups.sh --describe --offsets says"
    )


def test_lag_of_all(moved: Moved, grouped: Grouped, admin: str) -> None:
    moved.add("h", step="kafka+dual")
    grouped.uncertain.add("h")
    moved.groups["g"] = moved.groups["g"]._replace(state_since_ms=1_700_000_000_000)
    assert offset_shim("groups", "list", "--lag", "--admin", admin).stdout.splitlines() == [
        "GROUP  STEP        STATE   TYPE     MEMBERS  LAG  SINCE",
        "g      kafka       Stable  Classic        2  12   2023-11-14T22:13:20Z",
        "h      kafka+dual  Stable  Classic        2  -    -",
    ]


def test_a_list_as_it_fits_into_a_hundred_columns(moved: Moved, admin: str) -> None:
    moved.add("a-group-s-name", step="zookeeper+dual")
    moved.groups["g"] = moved.groups["g"]._replace(state="CompletingRebalance", state_since_ms=1_700_000_000_000)
    lines = offset_shim("groups", "list", "--lag", "--admin", admin).stdout.splitlines()
    assert lines[2].endswith("   12  2023-11-14T22:13:20Z")
    assert max(map(len, lines)) <= 100


def test_of_silent_members_the_list_says(moved: Moved, admin: str) -> None:
    moved.add("two of h")
    moved.groups["two of h"] = moved.groups["two of h"]._replace(members=3, silent_members=2)
    told = offset_shim("groups", "list", "--admin", admin)
    says = f"`offset-shim groups describe 'two of h' --admin {admin}` says who"
    assert (told.status, told.stderr) == (0, f"two of h: 2 of 3 members silent: {says}\n")


def test_members_of_whom_nobody_knows_are_not_none(moved: Moved, admin: str) -> None:
    """The brokers that have their groups do not answer: a line for each broker, whatever it has."""
    moved.add("h", "i", "j", "k")
    for group, broker in (("h", "b:9092"), ("i", "a:9092"), ("j", "b:9092")):
        moved.silent(group, f"{broker} has not answered in 3 s")
    moved.tell("k", 7.0, "group k: its members go past the shim")
    told = {
        "k: its members go past the shim",
        "state and members of 2 groups are not known: b:9092 has not answered in 3 s",
        "state and members of i are not known: a:9092 has not answered in 3 s",
    }
    listed = offset_shim("groups", "list", "--admin", admin)
    assert (listed.status, set(listed.stderr.splitlines())) == (0, told)
    assert [line.split()[4] for line in listed.stdout.splitlines()] == ["MEMBERS", "2", "-", "-", "-", "2"]
    rows = {row["group"]: row for row in offset_shim("groups", "list", "--json", "--admin", admin).json["groups"]}
    assert [rows[group]["members"] for group in "ghijk"] == [2, None, None, None, 2]
    for as_json in ((), ("--json",)):  # no offsets would look as if it had none
        described = offset_shim("groups", "describe", "h", "--admin", admin, *as_json)
        why = "group h is passed through, and not told of: b:9092 has not answered in 3 s"
        assert described == (1, "", f"Error: {why}\n")
    assert cells({**rows["h"], "step": "upstream", "lag": None}) == ("h", "Unknown", "-", "upstream", "-")
    for command in ("status", "plan"):
        shown = offset_shim("migrate", command, "--admin", admin)
        (line,) = [line for line in shown.stdout.splitlines() if line.startswith("h ")]
        assert "Unknown  -" in line
    assert told == set(offset_shim("migrate", "status", "--admin", admin).stderr.splitlines())


def test_what_is_known_is_shown_while_the_brokers_are_away(moved: Moved, grouped: Grouped, admin: str) -> None:
    """And that it is not all that was asked for."""
    grouped.without_brokers = True
    listed = offset_shim("groups", "list", "--lag", "--admin", admin)
    assert listed == (
        1,
        "GROUP  STEP   STATE   TYPE     MEMBERS  LAG  SINCE\ng      kafka  Stable  Classic        2  -    -\n",
        f"no lag of g: {NO_BROKERS}\n",
    )
    as_json = offset_shim("groups", "list", "--lag", "--json", "--admin", admin)
    (row,) = as_json.json["groups"]
    assert (row["group"], row["lag"], as_json.status, as_json.stderr) == ("g", None, 1, listed.stderr)
    described = offset_shim("groups", "describe", "g", "--admin", admin)
    assert (described.status, described.stderr) == (1, f"no log end: {NO_BROKERS}\n")
    assert described.stdout.splitlines()[-1].split() == ["orders", "10", "7", "-", "-", "-"]
    assert offset_shim("groups", "describe", "g", "--json", "--admin", admin).status == 1
    moved.add("h", step="kafka")
    listed = offset_shim("groups", "list", "--lag", "--admin", admin)
    assert (listed.status, listed.stderr) == (1, f"no lag of 2 groups: {NO_BROKERS}\n")
    assert offset_shim("groups", "list", "--admin", admin).status == 0, "it was not asked for"


def test_watching_tells_what_changes_until_it_is_interrupted(moved: Moved, admin: str) -> None:
    moved.add("h", "other")
    # Where tests run in the background of a shell, the signal is ignored.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from shim.main import cli; cli()"
    )
    command = [sys.executable, "-c", program, "groups", "watch", "g", "h", "--interval", "0.1", "--json"]
    with subprocess.Popen(
        [*command, "--admin", admin], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        try:
            assert watching.stdout is not None
            told = [json.loads(watching.stdout.readline()) for _ in range(2)]
            assert [(row["group"], row["state"], row["step"], row["lag"]) for row in told] == [
                ("g", "Stable", "kafka", 12),
                ("h", "Stable", "upstream", 12),
            ]
            moved.groups["g"] = moved.groups["g"]._replace(state="Empty", members=0)
            changed = json.loads(watching.stdout.readline())
            assert (changed["group"], changed["state"], changed["members"]) == ("g", "Empty", 0)
            del moved.groups["h"]
            gone = json.loads(watching.stdout.readline())
            assert (gone["group"], gone["state"]) == ("h", "gone")
            watching.send_signal(signal.SIGINT)
            rest, errors = watching.communicate(timeout=TIME_LIMIT_SECONDS)
            assert (watching.returncode, rest, errors) == (0, "", "")
        finally:
            watching.kill()


def test_what_is_watched_has_headings(moved: Moved, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(_: float) -> None:
        if moved.groups["g"].state != "Stable":
            raise KeyboardInterrupt
        moved.groups["g"] = moved.groups["g"]._replace(state="PreparingRebalance")

    monkeypatch.setattr(groups_watch, "time", SimpleNamespace(sleep=change, time_ns=time.time_ns))
    told = offset_shim("groups", "watch", "--admin", admin).stdout
    assert [line[22:] for line in told.splitlines()] == [
        "GROUP  STATE   MEMBERS  STEP   LAG",
        "g      Stable  2        kafka  12",
        "g      PreparingRebalance  2        kafka  12",
    ]


def test_watching_a_group_that_is_not_there(admin: str) -> None:
    told = offset_shim("groups", "watch", "nobody", "--admin", admin)
    assert (told.status, told.stderr) == (1, "Error: there is no group nobody\n")


def test_completion_of_names(moved: Moved, admin: str) -> None:
    from click.shell_completion import ShellComplete

    moved.add("billing", "bids")

    def completed(*args: str, begun: str) -> list[str]:
        completion = ShellComplete(cli, {}, "offset-shim", "_OFFSET_SHIM_COMPLETE")
        return [each.value for each in completion.get_completions(list(args), begun)]

    assert completed("groups", "describe", "--admin", admin, begun="bi") == ["bids", "billing"]
    assert completed("groups", "delete", "--admin", admin, "g", begun="bil") == ["billing"]
    assert completed("groups", "describe", "--admin", "127.0.0.1:1", begun="bi") == []
    assert "reset" in completed("groups", begun="re")


def test_watching_goes_on_where_no_shim_answers_for_a_while(moved: Moved) -> None:
    told: list[str] = []
    with admin_of(moved) as address:
        command = [sys.executable, "-m", "shim.main", "groups", "watch", "--interval", "0.1", "--json"]
        watching = subprocess.Popen(
            [*command, "--admin", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert watching.stdout is not None
        assert watching.stderr is not None
        told.append(json.loads(watching.stdout.readline())["group"])
    with watching:
        try:
            assert watching.stderr.readline().endswith("; still looking\n")
        finally:
            watching.kill()
    assert told == ["g"]
