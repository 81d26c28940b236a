"""`offset-shim groups` and `offset-shim migrate`, at an admin interface with groups that are in memory."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from shim.admin.commands import admin_client, running_shim
from shim.admin.commands.causes import cause_of
from shim.admin.commands.history_elsewhere import HISTORY_ELSEWHERE
from shim.admin.errors import NotOffered
from shim.admin.live.asked.groups import Moved as MovedOffset
from shim.admin.live.asked.groups import Window
from shim.admin.live.asked.migration import Difference, GroupStatus, Source
from shim.admin.live.asked.migration import Refused as MoveRefused
from shim.config import parse_host_port
from shim.demo.parts import free_port
from shim.main import cli
from shim.relocation.words import LogPlaces
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import KAFKA, STEPS, UPSTREAM, Moved
from tests.admin.live.running import TIME_LIMIT_SECONDS, admin_of, in_a_process, offset_shim
from tests.admin.live.test_choosing import NAMES
from tests.admin.live.watching import OVERVIEW, Relocated

NO_GROUP = "no group that this shim has heard of (`migrate plan` shows those of the cluster)\n"


@pytest.fixture
def moved() -> Moved:
    return Moved()


@pytest.fixture
def admin(moved: Moved) -> Iterator[str]:
    with admin_of(moved) as address:
        yield address


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_a_list(moved: Moved, admin: str) -> None:
    for command in (["groups", "list"], ["migrate", "status"]):
        assert offset_shim(*command, "--admin", admin) == (0, "", NO_GROUP)
    moved.add("web", "etl-1")
    moved.add("etl-2", storage="kafka")
    assert offset_shim("groups", "list", "--admin", admin).stdout.splitlines() == [
        "GROUP  OFFSETS.STORAGE  STATE   TYPE     MEMBERS",
        "etl-1  upstream         Stable  Classic        2",
        "etl-2  kafka            Stable  Classic        2",
        "web    upstream         Stable  Classic        2",
    ]
    listed = offset_shim("groups", "list", "--pattern", "etl-*", "--json", "--admin", admin)
    assert [each["group"] for each in listed.json["groups"]] == ["etl-1", "etl-2"]


@pytest.mark.parametrize("command", [["groups", "list"], *(["migrate", each] for each in ("plan", "status", "verify"))])
def test_groups_of_other_shims_are_told_of(moved: Moved, command: list[str]) -> None:
    whole = OVERVIEW._replace(owned=25, loaded=25, others=["10.0.0.5:19092", "10.0.0.6:19092"])
    told = (
        "this shim has 25 of 50 partitions; others: 10.0.0.5:19092, 10.0.0.6:19092 "
        "(clients' addresses; ask each one's --admin)\n"
    )
    with admin_of(moved, whole=whole) as admin:
        assert offset_shim(*command, "--admin", admin).stderr.startswith(told)
    with admin_of(moved, whole=whole._replace(owned=0, others=[])) as admin:
        assert offset_shim(*command, "--admin", admin).stderr.startswith("this shim has 0 of 50 partitions\n")


def test_one_group(moved: Moved, admin: str) -> None:
    moved.add("g")
    assert offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines() == [
        "group: g",
        "offsets.storage: upstream",
        "dual.commit.enabled: false",
        "copies behind: -",
        "state: Stable, Classic, 2 members",
        "last commit: not known here, as the cluster has the group",
        "TOPIC   PARTITION               OFFSET  LOG-END-OFFSET  LAG  COMMITTED",
        "bills           0                    0  -               -    -",
        "orders          2  9223372036854775807  -               -    -",
        "orders         10                    7  -               -    -",
    ]
    moved.tell("g", 12.34, "clients go past\x1b[2J the shim")
    assert offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()[3:5] == [
        "copies behind: 12.3 s",
        "alarm: clients go past\\x1b[2J the shim",
    ]
    described = offset_shim("groups", "describe", "g", "--json", "--admin", admin).json
    assert (described["lag_seconds"], described["alarm"]) == (12.34, "clients go past\x1b[2J the shim")
    assert described["offsets"][-1] == {
        "topic": "orders",
        "partition": 10,
        "offset": 7,
        "log_end_offset": None,
        "lag": None,
        "committed_ms": None,
        "why": "",
    }
    assert offset_shim("groups", "describe", "nobody", "--admin", admin) == (1, "", "Error: there is no group nobody\n")


def test_a_plan(moved: Moved, admin: str) -> None:
    moved.add("etl-1", "unheard")
    moved.add("etl-2", storage="zookeeper")
    moved.add("web", storage="kafka")
    moved.unheard.add("unheard")
    assert offset_shim("migrate", "plan", "--admin", admin) == (
        0,
        "GROUP    OFFSETS.STORAGE  STATE   MEMBERS  HERE  OFFSETS  HINDRANCE\n"
        "etl-1    upstream         Stable        2     1        3\n"
        "etl-2    zookeeper        Stable        2     1        3\n"
        "unheard  upstream         Stable        2     1        3\n",
        "",
    )
    moved.refused["etl-2"] = "a member is elsewhere"
    planned = offset_shim("migrate", "plan", "--pattern", "etl*", "--json", "--admin", admin)
    assert planned.status == 1
    assert [row["hindrance"] for row in planned.json["groups"]] == ["", "a member is elsewhere"]
    assert [row["offsets_storage"] for row in planned.json["groups"]] == ["upstream", "zookeeper"]
    assert offset_shim("migrate", "plan", "etl-1", "--admin", admin).status == 0


def test_a_plan_with_nothing_left(moved: Moved, admin: str) -> None:
    moved.add("etl-1", storage="kafka")
    none = "is left to be started: `migrate status` says where each is\n"
    assert offset_shim("migrate", "plan", "--admin", admin) == (0, "", f"no group {none}")
    told = offset_shim("migrate", "plan", "--pattern", "etl-*", "--admin", admin)
    assert told == (0, "", f"no group that fits etl-* {none}")


def test_status(moved: Moved, admin: str) -> None:
    moved.add("g", "h")
    moved.add("i", storage="kafka", dual=True)
    moved.tell("i", 12.34, "zookeeper is not reached,\x1b[2J since noon")
    offset_shim("migrate", "start", "g", "--cause", "change\x1b[2J 4711", "--admin", admin)
    told = offset_shim("migrate", "status", "--admin", admin)
    assert told.stdout.splitlines() == [
        "GROUP  OFFSETS.STORAGE  DUAL.COMMIT.ENABLED  BEHIND  STATE   MEMBERS  SINCE                     CAUSE",
        "g      kafka            false                -       Stable        2  2023-11-14T22:13:20.000Z  "
        + cause_of("migrate start", "change\\x1b[2J 4711"),
        "h      upstream         false                -       Stable        2  -                         it was there",
        "i      kafka            true                 12.3 s  Stable        2  -                         it was there",
    ]
    assert (told.status, told.stderr) == (0, "i: zookeeper is not reached,\\x1b[2J since noon\n")
    some = offset_shim("migrate", "status", "h", "i", "--json", "--admin", admin)
    assert [(row["group"], row["lag_seconds"], row["alarm"]) for row in some.json["groups"]] == [
        ("h", None, ""),
        ("i", 12.34, "zookeeper is not reached,\x1b[2J since noon"),
    ]
    assert (some.json["not_done"], some.stderr) == ([], "")


def test_offsets_that_are_the_same(moved: Moved, admin: str) -> None:
    """Without names: of all that the shim serves."""
    none = "no group is served by the shim: `migrate status` says where each is\n"
    assert offset_shim("migrate", "verify", "--admin", admin) == (0, "", none)
    moved.add("passed-through")
    moved.add("etl-1", storage="zookeeper")
    moved.add("etl-2", storage="kafka", dual=True)
    assert offset_shim("migrate", "verify", "--admin", admin) == (
        0,
        "GROUP  OFFSETS  DIFFERING\netl-1        3          0\netl-2        3          0\n",
        "",
    )
    assert len(offset_shim("migrate", "verify", "--pattern", "*1", "--json", "--admin", admin).json["groups"]) == 1


def test_offsets_that_differ(moved: Moved, admin: str) -> None:
    moved.add("a", "b", "c", storage="kafka", dual=True)
    moved.differing["a"] = [Difference("orders", 3, 5, None, "zookeeper")]
    moved.differing["b"] = [Difference("bills", 0, 0, 2**63 - 1, "zookeeper")]
    told = offset_shim("migrate", "verify", "--admin", admin)
    assert (told.status, told.stderr) == (1, "")
    assert told.stdout.splitlines() == [
        "GROUP  OFFSETS  DIFFERING",
        "a            3          1",
        "b            3          1",
        "c            3          0",
        "",
        "GROUP  PARTITION  LOG  ELSEWHERE            WHERE",
        "a      orders-3     5  none                 zookeeper",
        "b      bills-0      0  9223372036854775807  zookeeper",
    ]
    assert offset_shim("migrate", "verify", "c", "--admin", admin).status == 0
    one = offset_shim("migrate", "verify", "a", "--json", "--admin", admin)
    assert one.status == 1
    assert one.json["groups"][0]["differences"] == [
        {"topic": "orders", "partition": 3, "log": 5, "elsewhere": None, "where": "zookeeper"}
    ]


def test_offsets_that_cannot_be_compared(moved: Moved, admin: str) -> None:
    moved.add("a", "b", storage="kafka", dual=True)
    moved.refused["b"] = "zookeeper cannot be reached"
    told = offset_shim("migrate", "verify", "--admin", admin)
    assert told.status == 1
    assert [line.split()[0] for line in told.stdout.splitlines()] == ["GROUP", "a"]
    assert told.stderr == "b: refused: zookeeper cannot be reached\n"


@pytest.mark.parametrize("first", ["a", "b"])
def test_what_was_refused_is_no_part_of_what_is_done(
    moved: Moved, admin: str, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    moved.add("a", "b", storage="kafka", dual=True)
    moved.refused[first] = "zookeeper cannot be reached"
    monkeypatch.setattr("shim.admin.commands.console._LINE_EVERY_S", 0.0)
    told = offset_shim("migrate", "verify", "--admin", admin)
    assert told.stderr == f"verify: 50 %\n{first}: refused: zookeeper cannot be reached\n"


def test_very_many_differences(moved: Moved, admin: str) -> None:
    moved.add("g", storage="kafka", dual=True)
    moved.differing["g"] = [Difference("t", at, 1, 2, "zookeeper") for at in range(1_234)]
    told = offset_shim("migrate", "verify", "--admin", admin)
    assert len(told.stdout.splitlines()) == 2 + 2 + 1_000
    assert told.stderr == "g: 1,234 offsets differ, of which 1,000 are shown\n"


# --- what is done ----------------------------------------------------------------------------------------------------


def test_there_and_back(moved: Moved, admin: str) -> None:
    moved.add("g")
    started = offset_shim("migrate", "start", "g", "--json", "--admin", admin)
    assert started.status == 0
    assert started.json["not_done"] == []
    (row,) = started.json["groups"]
    assert (row["group"], row["offsets_storage"], row["cause"]) == ("g", "kafka", cause_of("migrate start", None))
    assert offset_shim("migrate", "rollback", "g", "--admin", admin).stdout.splitlines()[1].split()[:2] == [
        "g",
        "upstream",
    ]


def test_every_step(moved: Moved, admin: str) -> None:
    moved.add("g", storage="zookeeper")
    expected = [("start", 1), *(("advance", at) for at in (2, 3, 4)), *(("rollback", at) for at in (3, 2, 1, 0))]
    for move, at in expected:
        (row,) = offset_shim("migrate", move, "g", "--json", "--admin", admin).json["groups"]
        assert (row["offsets_storage"], row["dual_commit_enabled"]) == STEPS[at]
        assert row["cause"] == cause_of(f"migrate {move}", None)
    refused = offset_shim("migrate", "rollback", "g", "--admin", admin)
    assert refused == (1, "", "g: refused: it is at the first step\n")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(moved: Moved, admin: str) -> None:
    moved.add("old", "late", storage="zookeeper", dual=True)
    moved.add("mine", storage="kafka")
    moved.add("theirs")
    moved.differing["late"] = [Difference("orders", 0, 5, 7, "zookeeper")]
    advanced = offset_shim("migrate", "advance", "old", "mine", "--dry-run", "--admin", admin)
    assert (advanced.status, advanced.stderr) == (0, "")
    assert [line.split() for line in advanced.stdout.splitlines()[1:]] == [
        ["mine", "kafka", "upstream+dual", "3", "0"],
        ["old", "zookeeper+dual", "kafka+dual", "3", "0"],
    ]
    differs = offset_shim("migrate", "advance", "--all", "--dry-run", "--json", "--admin", admin)
    assert differs.status == 1
    assert [(row["group"], row["at"], row["to"], row["differing"]) for row in differs.json["groups"]] == [
        ("late", "zookeeper+dual", "kafka+dual", 1),
        ("old", "zookeeper+dual", "kafka+dual", 0),
    ]
    shown = offset_shim("migrate", "advance", "late", "--dry-run", "--admin", admin).stdout.splitlines()
    assert shown[-1].split() == ["late", "orders-0", "5", "7", "zookeeper"]
    back = offset_shim("migrate", "rollback", "mine", "theirs", "--dry-run", "--json", "--admin", admin)
    assert back.status == 1
    assert [(row["group"], row["at"], row["to"]) for row in back.json["groups"]] == [("mine", "kafka", "upstream")]
    assert [(row["group"], row["kind"]) for row in back.json["not_done"]] == [("theirs", "refused")]
    started = offset_shim("migrate", "start", "theirs", "--dry-run", "--admin", admin)
    assert started == offset_shim("migrate", "plan", "theirs", "--admin", admin)
    assert started.status == 0
    moved.refused["theirs"] = "a member is elsewhere"
    assert offset_shim("migrate", "start", "theirs", "--dry-run", "--admin", admin).status == 1
    assert offset_shim("migrate", "start", "--pattern", "none*", "--dry-run", "--admin", admin).status == 2
    assert moved.begun == []


@pytest.mark.parametrize("name", [name for name in NAMES if "\0" not in name] + ["-x", "\n", "\x1b[2J"])
def test_any_name(moved: Moved, admin: str, name: str) -> None:
    moved.add(name, "another")
    started = offset_shim("migrate", "start", "--json", "--admin", admin, "--", name)
    assert (started.status, [row["group"] for row in started.json["groups"]]) == (0, [name])
    shown = offset_shim("migrate", "status", "--admin", admin, "--", name)
    assert len(shown.stdout.splitlines()) == 2
    assert "\x1b" not in shown.stdout
    assert offset_shim("groups", "describe", "--json", "--admin", admin, "--", name).json["group"] == name


def test_what_is_refused_is_told_beside_what_is_done(moved: Moved, admin: str) -> None:
    moved.add("a", "b", "c")
    moved.refused["b"] = "a member is elsewhere"
    moved.broken.add("c")
    started = offset_shim("migrate", "start", "a", "b", "c", "nobody", "--admin", admin)
    assert started.status == 1
    assert [line.split()[0] for line in started.stdout.splitlines()] == ["GROUP", "a"]
    assert started.stderr.splitlines() == [
        "b: refused: a member is elsewhere",
        "c: failed: failed, the shim's log says why",
        "nobody: not known: there is no group nobody",
    ]
    again = offset_shim("migrate", "start", "b", "nobody", "--json", "--admin", admin)
    assert again.status == 1
    assert (again.json["groups"], again.stderr) == ([], "")
    assert [row["kind"] for row in again.json["not_done"]] == ["refused", "not known"]


def test_patterns_and_all(moved: Moved, admin: str) -> None:
    moved.add("etl-1", "etl-2", "web")
    assert offset_shim("migrate", "start", "--pattern", "etl-?", "--admin", admin).status == 0
    assert sorted(moved.begun) == ["etl-1", "etl-2"]
    none_can = "can take that step: `migrate plan` and `migrate status` say where each is\n"
    again = ("migrate", "start", "--pattern", "etl-?", "--admin", admin)
    assert offset_shim(*again) == (0, "", f"no group that fits etl-? {none_can}")
    assert offset_shim(*again, "--dry-run") == (0, "", f"no group that fits etl-? {none_can}")
    unfit = offset_shim("migrate", "start", "--pattern", "elt-?", "--admin", admin)
    assert unfit == (2, "", "Error: no group fits elt-?\n")
    assert offset_shim("migrate", "rollback", "--all", "--admin", admin).status == 0
    assert {each.storage for each in moved.groups.values()} == {"upstream"}
    assert offset_shim("migrate", "rollback", "--all", "--admin", admin) == (0, "", f"no group {none_can}")
    assert offset_shim("migrate", "rollback", "--all", "--json", "--admin", admin).json == {
        "groups": [],
        "not_done": [],
    }


def test_none_is_moved_out_of_kafka_unless_it_is_named(moved: Moved, admin: str) -> None:
    moved.add("stays", storage="kafka")
    moved.add("goes", storage="upstream", dual=True)
    advance = ("migrate", "advance", "--admin", admin)
    assert offset_shim(*advance, "--pattern", "stay*").stderr.startswith("no group that fits stay* can take that step")
    assert offset_shim(*advance, "--all").status == 0
    assert (moved.begun, moved.place("stays"), moved.place("goes")) == (["goes"], KAFKA, UPSTREAM)
    assert offset_shim(*advance, "stays").status == 0
    assert moved.place("stays") == STEPS[4]


def test_a_start_means_groups_that_the_shim_has_not_heard_of(moved: Moved, admin: str) -> None:
    moved.add("heard", "unheard")
    moved.add("old", storage="zookeeper")
    moved.add("served", storage="kafka")
    moved.unheard.add("unheard")
    assert offset_shim("migrate", "start", "--pattern", "un*", "--admin", admin).status == 0
    assert moved.begun == ["unheard"]
    assert offset_shim("migrate", "start", "--all", "--admin", admin).status == 0
    assert sorted(moved.begun[1:]) == ["heard", "old"]


def test_candidates_that_cannot_be_told(moved: Moved, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused() -> list[str]:
        raise MoveRefused("ZooKeeper cannot be reached")

    moved.add("g")
    monkeypatch.setattr(moved, "candidates", refused)
    told = (2, "", "Error: ZooKeeper cannot be reached\n")
    assert offset_shim("migrate", "start", "--all", "--admin", admin) == told
    assert offset_shim("migrate", "plan", "--admin", admin) == told
    assert moved.begun == []


def test_many_groups(moved: Moved, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"g{n:04}-" + "ü" * 60 for n in range(2_000)]
    moved.add(*names)
    monkeypatch.setattr("shim.admin.commands.console._LINE_EVERY_S", 0.0)
    started = offset_shim("migrate", "start", *names, "--json", "--admin", admin)
    assert started.status == 0
    assert [row["group"] for row in started.json["groups"]] == names
    assert started.stderr.splitlines()[-1] == "start: 100 %"
    assert len(started.stderr.splitlines()) == 2_000
    assert len(offset_shim("migrate", "status", "--json", "--admin", admin).json["groups"]) == 2_000


# --- who asks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("move", "answer", "question", "status", "done"),
    [
        ("start", "y\n", "Start to move 2 groups?", 0, 2),
        ("start", "n\n", "Start to move 2 groups?", 2, 0),
        ("advance", "y\n", "Advance 2 groups by one step?", 0, 2),
        ("rollback", "n\n", "Roll 2 groups back by one step?", 2, 0),
    ],
)
def test_it_asks_on_a_terminal(
    moved: Moved, admin: str, move: str, answer: str, question: str, status: int, done: int
) -> None:
    if move == "start":
        moved.add("etl-1", "etl-2")
    else:
        moved.add("etl-1", "etl-2", storage="kafka", dual=True)
    moved.add("another", storage="zookeeper", dual=move == "start")
    result = in_a_process("migrate", move, "--all", "--admin", admin, answers=answer)
    assert f"  etl-1\r\n  etl-2\r\n{question} [y/N]:" in result.stderr
    assert "another" not in result.stderr
    assert (result.status, len(moved.begun)) == (status, done)


@pytest.mark.parametrize("args", [["etl-1"], ["--all", "--yes"]])
def test_it_does_not_ask_about_one_group_nor_with_yes(moved: Moved, admin: str, args: list[str]) -> None:
    moved.add("etl-1", "etl-2")
    result = in_a_process("migrate", "start", *args, "--admin", admin, answers="")
    assert result.status == 0
    assert "[y/N]" not in result.stderr
    assert moved.begun


def test_it_does_not_ask_where_there_is_no_terminal(moved: Moved, admin: str) -> None:
    moved.add("etl-1", "etl-2")
    assert in_a_process("migrate", "start", "--all", "--admin", admin).status == 0
    assert len(moved.begun) == 2


def test_a_bar_on_a_terminal(moved: Moved, admin: str) -> None:
    moved.add("etl-1", "etl-2")
    assert "start" in in_a_process("migrate", "start", "etl-1", "--admin", admin, answers="").stderr
    assert in_a_process("migrate", "start", "etl-2", "--admin", admin).stderr == ""


# --- bad usage, and no shim ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["migrate", "start"], "Which groups?"),
        (["migrate", "advance"], "Which groups?"),
        (["migrate", "rollback"], "Which groups?"),
        (["migrate", "verify", "g", "--all"], "one of them"),
        (["migrate", "start", "g", "--all"], "one of them"),
        (["migrate", "plan", "--pattern", "*", "--all"], "one of them"),
        (["migrate", "status", "--admin", "nowhere"], "is not host:port"),
        (["migrate", "start", "\udc80"], "not UTF-8"),
        (["migrate", "start", "--all", "--cause", "\udc80"], "not UTF-8"),
        (["groups", "list", "--pattern", "\udc80"], "not UTF-8"),
        (["groups", "describe", "\udc80"], "not UTF-8"),
        (["groups", "describe"], "Missing argument"),
        (["groups", "describe", "a", "b"], "unexpected extra argument"),
    ],
)
def test_bad_usage(args: list[str], told: str) -> None:
    result = offset_shim(*args)
    assert (result.status, result.stdout) == (2, "")
    assert told in result.stderr


def test_what_the_shim_does_not_take(admin: str) -> None:
    result = offset_shim("migrate", "start", "x" * 40_000, "--admin", admin)
    assert result == (2, "", "Error: a group's name is longer than 32767 bytes\n")


@pytest.mark.parametrize("command", [["groups", "list"], ["groups", "describe", "g"], ["migrate", "start", "g"]])
def test_no_shim_there(command: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    expected = f"Error: no shim answers at {address}: Connection refused. Does it run, with --admin {address}?\n"
    assert offset_shim(*command, "--admin", address) == (2, "", expected)


@pytest.mark.parametrize("command", [["groups", "list"], ["groups", "describe", "g"], ["migrate", "start", "g"]])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 404 Not Found\r\n\r\n<html>",
        b"HTTP/1.0 403 Forbidden\r\n\r\n[]",
    ],
)
def test_something_else_is_there(command: list[str], answer: bytes) -> None:
    with answering(answer) as address:
        result = offset_shim(*command, "--admin", address)
    if not answer and command[0] == "migrate":  # or a shim that has begun with it
        assert (result.status, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: the shim at {address} did not say what became of it: ")
        assert result.stderr.endswith("; if clients bootstrap there, it is the wrong port\n")
        return
    assert (result.status, result.stdout) == (2, "")
    told = f"something else than a shim's admin port answers at {address}"
    ended = "" if answer else ", or a shim that is ending: the connection was closed"
    assert result.stderr == f"Error: {told}{ended}; if clients bootstrap there, it is the wrong port\n"


_CHANGES = (
    (("migrate", "start", "g"), "migrate status"),
    (("migrate", "advance", "g"), "migrate status"),
    (("migrate", "rollback", "g"), "migrate status"),
    (("groups", "delete", "g"), "groups list"),
    (("log", "move", "--to", "kafka"), "log move"),
)


@pytest.mark.parametrize(("command", "look"), _CHANGES, ids=lambda value: value if isinstance(value, str) else value[1])
@pytest.mark.parametrize(
    ("answer", "hangs", "why"),
    [
        (b"", True, "timed out"),
        (b"", False, "Remote end closed connection without response"),
        (b"HTTP/1.0 504 Gateway Time-out\r\n\r\n<html>", False, "HTTP status 504"),
    ],
    ids=["it hangs", "it is gone", "a proxy gives up"],
)
def test_a_change_that_the_shim_is_silent_about(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], look: str, answer: bytes, hangs: bool, why: str
) -> None:
    """It took the request, so it may have begun: that is no "nothing was done", and what shows it is named."""
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    with answering(answer, hangs=hangs) as address:
        result = offset_shim(*command, "--admin", address)
    assert (result.status, result.stdout) == (1, "")
    told = (
        f"Error: the shim at {address} did not say what became of it: {why}. Look with `{look}` before you do it again"
    )
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("answer", [b"", b'{"groups"'])
def test_a_change_that_the_shim_goes_silent_about_before_its_first_line(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    for hangs, why in ((True, "timed out"), (False, "the answer was cut off")):
        with answering(HEAD + answer, hangs=hangs) as address:
            result = offset_shim("migrate", "advance", "g", "--json", "--admin", address)
        assert (result.status, result.json) == (1, {"groups": [], "not_done": []})
        assert f"did not say what became of it: {why}. Look with `migrate status`" in result.stderr


def test_what_only_looks_leaves_nothing_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    for command in (("groups", "delete", "g", "--dry-run"), ("migrate", "advance", "g", "--dry-run")):
        with answering(HEAD, hangs=True) as address:
            result = offset_shim(*command, "--admin", address)
        assert (result.status, result.stderr) == (2, f"Error: {silent_at(address)}\n")


@pytest.mark.parametrize("command", [("groups", "list"), ("migrate", "plan")])
def test_a_shim_that_hangs(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    """The kernel takes the connection, and nobody reads it."""
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        result = offset_shim(*command, "--admin", address)
    assert (result.status, result.stdout) == (2, "")
    assert result.stderr == f"Error: {silent_at(address)}\n"


@pytest.mark.parametrize("command", [("groups", "list"), ("migrate", "plan")])
def test_a_shim_that_hangs_in_the_middle(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    with answering(HEAD, hangs=True) as address:
        result = offset_shim(*command, "--admin", address)
    assert (result.status, result.stdout) == (2, "")
    assert result.stderr == f"Error: {silent_at(address)}\n"


def silent_at(address: str) -> str:
    return f"the shim at {address} was reached, and has said nothing for 0.1 s: it hangs, or its disk does"


HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"
ROW = (
    b'{"group":"a","offsets_storage":"kafka","dual_commit_enabled":false,"state":"Empty","members":0,'
    b'"changed_ms":null,"cause":"","lag_seconds":null,"alarm":""}\n'
)


@pytest.mark.parametrize("rest", [b"", b"\n\n", b'{"group":"b","offs', b"nonsense\n"])
def test_a_shim_that_goes_away_in_the_middle(rest: bytes) -> None:
    """What it has told is shown all the same."""
    with answering(HEAD + b'{"groups":2}\n' + ROW + rest) as address:
        result = offset_shim("migrate", "start", "a", "b", "--admin", address)
    assert result.status == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["GROUP", "a"]
    assert result.stderr.startswith(f"Error: the shim at {address} told of 1 of 2 groups: ")
    assert result.stderr.endswith(". What became of the others is not certain: look with `migrate status`\n")


def test_a_shim_that_is_gone_between_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "_MOST_NAMES", 1)
    with answering(HEAD + b'{"groups":1}\n' + ROW + b'{"done":1}\n') as address:
        result = offset_shim("migrate", "start", "a", "b", "--json", "--admin", address)
    assert result.status == 1
    assert [row["group"] for row in result.json["groups"]] == ["a"]
    assert result.stderr.startswith(f"Error: no shim answers at {address}")


@contextmanager
def answering(answer: bytes, *, hangs: bool = False) -> Iterator[str]:
    """Takes one request, answers so, and closes the port; ``hangs``: and says nothing more until it is given up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_one() -> None:
            connection, _ = listening.accept()
            listening.close()
            with connection:
                read = b""
                while b"\r\n\r\n" not in read and (piece := connection.recv(65_536)):
                    read += piece
                connection.sendall(answer)
                if not hangs:
                    connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        address = f"127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=answer_one)
        thread.start()
        try:
            yield address
        finally:
            thread.join(30)


class Awaited(Moved):
    """Its moves are seen, and let go on, from another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way, self.ended = threading.Event(), threading.Event()

    async def start(self, group: str, cause: str, source: Source | None = None) -> GroupStatus:
        self.loop = asyncio.get_running_loop()
        self.under_way.set()
        try:
            return await super().start(group, cause, source)
        finally:
            self.ended.set()


def interrupted(under_way: threading.Event, *args: str) -> tuple[int, str, str]:
    """Status, output and errors of a command that is told to stop then."""
    # Whoever runs this in the background has it ignored, and so would the child.
    begun = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from shim.main import cli; cli()"
    command = [sys.executable, "-c", begun, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert under_way.wait(TIME_LIMIT_SECONDS)
            child.send_signal(signal.SIGINT)
            stdout, stderr = child.communicate(timeout=TIME_LIMIT_SECONDS)
        finally:
            child.kill()
    return child.returncode, stdout, stderr


def test_ctrl_c() -> None:
    moved = Awaited()
    moved.add("g")
    moved.held["g"] = asyncio.Event()
    with admin_of(moved) as address:
        status, stdout, stderr = interrupted(moved.under_way, "migrate", "start", "g", "--json", "--admin", address)
        moved.loop.call_soon_threadsafe(moved.held["g"].set)
        assert moved.ended.wait(TIME_LIMIT_SECONDS)
    assert status == 1
    assert json.loads(stdout) == {"groups": [], "not_done": []}
    assert stderr == "Error: stopped; groups under way are brought to an end, no others begun\n"
    assert (moved.groups["g"].storage, moved.cancelled) == ("kafka", [])


class Unending(Relocated):
    """Partitions are being moved for longer than anybody looks."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = threading.Event()

    async def changed(self, turn: int, seconds: float) -> LogPlaces:
        self.under_way.set()
        await asyncio.sleep(0.05)  # as long as a turn
        return await super().changed(turn, seconds)


def test_who_stops_looking_at_a_move_stops_nothing() -> None:
    its = Unending()
    with admin_of(Moved(), relocates=lambda: its) as address:
        told = interrupted(its.under_way, "log", "move", "--to", "kafka", "--admin", address)
    assert told == (1, "", "stopped looking; the shim goes on, and the same command watches it again\n")


@pytest.mark.parametrize(("log", "where"), [("local", "its data directory"), ("kafka", "topics of the cluster")])
def test_where_a_log_is_that_is_not_moved(log: str, where: str) -> None:
    with admin_of(Moved(), whole=OVERVIEW._replace(log=log), relocates=lambda: None) as address:
        for more in ((), ("--to", "kafka")):
            told = offset_shim("log", "move", *more, "--admin", address)
            assert (told.status, told.stderr) == (
                2,
                f"Error: this shim has its log in one place, {where} (50 partitions): started with "
                "offsets.log=moving, it moves partitions\n",
            )


def test_a_shim_that_is_gone_amid_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()

    def change(self: admin_client.RunningShim, path: str, wanted: object, look: str) -> object:
        return {"partitions": [{"log": "local"}], "to": "kafka", "turn": 1}

    monkeypatch.setattr(admin_client.RunningShim, "change", change)
    told = offset_shim("log", "move", "--to", "kafka", "--admin", f"127.0.0.1:{port}")
    assert told.status == 1
    assert told.stderr.endswith(
        f"with --admin 127.0.0.1:{port}? Partitions were being moved: once it runs, give this command again\n"
    )


class WithoutMoves(Grouped):
    async def history(self, group: str, window: Window) -> list[MovedOffset]:
        return []


def test_a_history_that_stayed_where_the_log_was() -> None:
    moved = Moved()
    moved.add("g", storage="kafka")
    none = "the history has no such move of it"
    for log_moves, more in ((False, "\n"), (True, f"; {HISTORY_ELSEWHERE}\n")):
        with admin_of(moved, WithoutMoves(moved), whole=OVERVIEW._replace(log_moves=log_moves)) as address:
            told = offset_shim("groups", "history", "g", "--admin", address)
        assert (told.status, told.stderr) == (0, none + more)


# --- a shim that is older than the commands --------------------------------------------------------------------------


@pytest.fixture(params=["without keys", "without the path"])
def older(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the shim tells is as it was before its log could be anywhere else, and at first nothing was told of it as a
    whole."""
    how: str = request.param
    get = admin_client.RunningShim.get

    def told(self: admin_client.RunningShim, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        if path == "/v1/overview" and how == "without the path":
            return get(self, "/v1/nowhere", query)
        document = get(self, path, query)
        for name in ("owned", "others", "log", "log_moves", "warning"):
            document.pop(name, None)
        for each in document.get("moves", ()):
            del each["deleted"]
        return document

    monkeypatch.setattr(admin_client.RunningShim, "get", told)
    return how


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("command", [["groups", "list"], *(["migrate", each] for each in ("plan", "status", "verify"))])
def test_an_older_shim_has_all_groups(moved: Moved, admin: str, command: list[str]) -> None:
    moved.add("g")
    moved.add("h", storage="kafka")
    told = offset_shim(*command, "--admin", admin)
    assert (told.status, told.stderr) == (0, "")


@pytest.mark.usefixtures("older")
def test_an_older_shim_knows_of_no_deletions_and_of_no_other_place(moved: Moved, admin: str) -> None:
    moved.add("g", storage="kafka")
    shown = offset_shim("groups", "history", "g", "--admin", admin)
    assert (shown.status, len(shown.stdout.splitlines())) == (0, 4)
    with admin_of(moved, WithoutMoves(moved)) as address:
        none = offset_shim("groups", "history", "g", "--admin", address)
    assert (none.status, none.stderr) == (0, "the history has no such move of it\n")


@pytest.mark.usefixtures("older")
def test_a_shim_that_has_nothing_to_warn_of(admin: str) -> None:
    told = offset_shim("log", "move", "--json", "--admin", admin)
    assert (told.status, told.json["warning"]) == (0, "")


def test_what_an_older_shim_does_not_offer(admin: str) -> None:
    with pytest.raises(NotOffered, match=rf"^the shim at {admin} has no /v1/nowhere: it is an older one$"):
        admin_client.RunningShim(parse_host_port(admin)).get("/v1/nowhere", [("group", "g")])


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [["groups"], ["groups", "list"], ["groups", "describe"]]
    + [["migrate", *rest] for rest in ([], ["plan"], ["status"], ["start"], ["advance"], ["verify"], ["rollback"])],
    ids=" ".join,
)
def test_every_help_has_an_example_that_is_understood(command: list[str]) -> None:
    text = offset_shim(*command, "--help").stdout
    examples = [line.partition("#")[0].strip() for line in text.splitlines() if line.strip().startswith("offset-shim")]
    assert examples
    for example in examples:
        for one in example.split(" && "):
            _, group, name, *args = one.split()
            found = cli.commands[group]
            assert isinstance(found, click.Group)
            found.commands[name].make_context(name, args)


def test_the_default_is_on_loopback() -> None:
    assert running_shim.DEFAULT_ADMIN == "127.0.0.1:9644"
    assert running_shim.DEFAULT_ADMIN in (Path(__file__).parents[3] / "docs" / "admin.md").read_text()
