"""`offset-shim migrate` has groups go from step to step, and asks before it does."""

from __future__ import annotations

import pytest

from shim.admin.commands.causes import cause_of
from shim.admin.live.asked.migration import Difference
from shim.admin.live.asked.migration import Refused as MoveRefused
from tests.admin.live.moved import SHOWN, Moved
from tests.admin.live.running import in_a_process, offset_shim
from tests.admin.live.test_choosing import NAMES


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
    moved.add("g", step="zookeeper")
    expected = [("start", 1), *(("advance", at) for at in (2, 3, 4)), *(("rollback", at) for at in (3, 2, 1, 0))]
    for move, at in expected:
        (row,) = offset_shim("migrate", move, "g", "--json", "--admin", admin).json["groups"]
        assert (row["offsets_storage"], row["dual_commit_enabled"]) == SHOWN[at]
        assert row["cause"] == cause_of(f"migrate {move}", None)
    refused = offset_shim("migrate", "rollback", "g", "--admin", admin)
    assert refused == (1, "", "g: refused: it is at the first step\n")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(moved: Moved, admin: str) -> None:
    moved.add("old", "late", step="zookeeper+dual")
    moved.add("mine", step="kafka")
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


def test_what_is_refused_of_many_for_the_same_reason_is_one_line(moved: Moved, admin: str) -> None:
    moved.add("a", "b")
    moved.refused |= {group: f"group {group}: nobody may move it" for group in "ab"}
    refused = offset_shim("migrate", "start", "a", "b", "--admin", admin)
    assert refused == (1, "", "a, b: refused: nobody may move it\n")


def test_patterns_and_all(moved: Moved, admin: str) -> None:
    moved.add("etl-1", "etl-2", "web")
    assert offset_shim("migrate", "start", "--pattern", "etl-?", "--admin", admin).status == 0
    assert sorted(moved.begun) == ["etl-1", "etl-2"]
    look = [f"`offset-shim migrate {each} --admin {admin}`" for each in ("plan", "status")]
    none_can = f"can take that step: {' and '.join(look)} say where each is\n"
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
    moved.add("stays", step="kafka")
    moved.add("goes", step="upstream+dual")
    advance = ("migrate", "advance", "--admin", admin)
    assert offset_shim(*advance, "--pattern", "stay*").stderr.startswith("no group that fits stay* can take that step")
    assert offset_shim(*advance, "--all").status == 0
    assert (moved.begun, moved.step("stays"), moved.step("goes")) == (["goes"], "kafka", "upstream")
    assert offset_shim(*advance, "stays").status == 0
    assert moved.step("stays") == "upstream+dual"


def test_a_start_means_groups_that_the_shim_has_not_heard_of(moved: Moved, admin: str) -> None:
    moved.add("heard", "unheard")
    moved.add("old", step="zookeeper")
    moved.add("served", step="kafka")
    moved.unheard.add("unheard")
    assert offset_shim("migrate", "start", "--pattern", "un*", "--admin", admin).status == 0
    assert moved.begun == ["unheard"]
    assert offset_shim("migrate", "start", "--all", "--admin", admin).status == 0
    assert sorted(moved.begun[1:]) == ["heard", "old"]


def test_groups_of_other_protocols_are_left_alone_and_told_of(moved: Moved, admin: str) -> None:
    """All is done that `--all` means: it is no failure, in which a script would stop, each time."""
    moved.add("etl", "web", "web-2")
    moved.left_alone = dict.fromkeys(("web", "web-2"), "its clients have used the consumer protocol")
    moved.refused |= moved.left_alone
    told = "web, web-2: left alone: its clients have used the consumer protocol\n"
    dry = offset_shim("migrate", "start", "--all", "--dry-run", "--admin", admin)
    assert (dry.status, [line.split()[0] for line in dry.stdout.splitlines()], dry.stderr) == (
        0,
        ["GROUP", "etl"],
        told,
    )
    started = offset_shim("migrate", "start", "--all", "--admin", admin)
    assert (started.status, started.stderr, moved.begun) == (0, told, ["etl"])
    again = offset_shim("migrate", "start", "--pattern", "*", "--admin", admin)
    assert again.status == 0
    assert again.stderr.startswith("no group that fits * can take that step")
    assert again.stderr.endswith(told)
    in_json = offset_shim("migrate", "start", "--pattern", "web", "--json", "--admin", admin)
    assert (in_json.status, in_json.stderr) == (0, "")
    assert in_json.json == {
        "groups": [],
        "not_done": [],
        "left_alone": [{"group": "web", "why": "its clients have used the consumer protocol"}],
    }
    assert moved.begun == ["etl"]
    named = offset_shim("migrate", "start", "web", "--admin", admin)
    assert (named.status, named.stderr) == (1, "web: refused: its clients have used the consumer protocol\n")


def test_a_plan_of_all_is_as_good_as_what_a_start_of_all_would_take(moved: Moved, admin: str) -> None:
    moved.add("etl", "web")
    moved.left_alone = {"web": "its clients have used the consumer protocol"}
    moved.refused |= moved.left_alone
    whole = offset_shim("migrate", "plan", "--admin", admin)
    assert (whole.status, whole.stderr) == (0, "")
    assert whole.stdout.splitlines()[2].endswith("its clients have used the consumer protocol")
    assert offset_shim("migrate", "plan", "web", "--admin", admin).status == 1
    moved.refused["etl"] = "a member is elsewhere"
    assert offset_shim("migrate", "plan", "--admin", admin).status == 1


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
    monkeypatch.setattr("shim.terminal.progress._LINE_EVERY_S", 0.0)
    started = offset_shim("migrate", "start", *names, "--json", "--admin", admin)
    assert started.status == 0
    assert [row["group"] for row in started.json["groups"]] == names
    assert started.stderr.splitlines()[-1] == "start: 100 %"
    assert len(started.stderr.splitlines()) == 2_000
    assert len(offset_shim("migrate", "status", "--json", "--admin", admin).json["groups"]) == 2_000


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
        moved.add("etl-1", "etl-2", step="kafka+dual")
    moved.add("another", step="zookeeper+dual" if move == "start" else "zookeeper")
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
    moved.add("etl-1", "etl-2", "etl-3")
    assert "start" in in_a_process("migrate", "start", "etl-1", "etl-2", "--yes", "--admin", admin, answers="").stderr
    assert in_a_process("migrate", "start", "etl-3", "--admin", admin).stderr == ""
