"""What `offset-shim groups` and `migrate` show, at an admin interface with groups that are in memory."""

from __future__ import annotations

from typing import Final

import pytest

from shim.admin.commands.causes import cause_of
from shim.admin.live.asked.migration import Difference
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of, offset_shim
from tests.admin.live.watching import OVERVIEW

NO_GROUP = "no group that this shim has heard of (`offset-shim migrate plan --admin {}` shows those of the cluster)\n"


def test_a_list(moved: Moved, admin: str) -> None:
    for command in (["groups", "list"], ["migrate", "status"]):
        assert offset_shim(*command, "--admin", admin) == (0, "", NO_GROUP.format(admin))
    fits = NO_GROUP.format(admin).replace("heard of", "heard of fits etl-*", 1)
    assert offset_shim("groups", "list", "--pattern", "etl-*", "--admin", admin) == (0, "", fits)
    moved.add("web", "etl-1")
    moved.add("etl-2", step="kafka")
    assert offset_shim("groups", "list", "--admin", admin).stdout.splitlines() == [
        "GROUP  STEP      STATE   TYPE     MEMBERS  SINCE",
        "etl-1  upstream  Stable  Classic        2  -",
        "etl-2  kafka     Stable  Classic        2  -",
        "web    upstream  Stable  Classic        2  -",
    ]
    listed = offset_shim("groups", "list", "--pattern", "etl-*", "--json", "--admin", admin)
    assert [each["group"] for each in listed.json["groups"]] == ["etl-1", "etl-2"]


OF_ALL: Final = (
    *(("groups", "list"), ("migrate", "plan"), ("migrate", "status"), ("migrate", "verify")),
    *(("migrate", move, "--all") for move in ("start", "advance", "rollback")),
    *(("migrate", "start", "--pattern", "g*"), ("migrate", "rollback", "--all", "--dry-run")),
    *(("migrate", each, "--pattern", "theirs*") for each in ("plan", "start")),
)


@pytest.mark.parametrize("command", OF_ALL)
def test_groups_of_other_shims_are_told_of(moved: Moved, command: tuple[str, ...]) -> None:
    moved.add("g")
    moved.add("h", step="kafka+dual")
    whole = OVERVIEW._replace(owned=25, loaded=25, others=["10.0.0.5:19092", "10.0.0.6:19092"])
    told = (
        "this shim has 25 of 50 partitions; others: 10.0.0.5:19092, 10.0.0.6:19092 "
        "(clients' addresses; ask each one's --admin)\n"
    )
    with admin_of(moved, whole=whole) as admin:
        assert offset_shim(*command, "--admin", admin).stderr.startswith(told)
    with admin_of(moved, whole=whole._replace(owned=0, others=[])) as admin:
        assert offset_shim(*command, "--admin", admin).stderr.startswith("this shim has 0 of 50 partitions\n")


@pytest.mark.parametrize("command", ["plan", "status", "start"])
def test_of_groups_that_are_named_no_others_are_told_of(moved: Moved, command: str) -> None:
    moved.add("g")
    with admin_of(moved, whole=OVERVIEW._replace(owned=25)) as admin:
        assert offset_shim("migrate", command, "g", "--admin", admin).stderr == ""


def test_groups_of_partitions_that_are_not_served_are_missed(moved: Moved, admin: str) -> None:
    """They would look like none, and what was done with all like done with all of them."""
    moved.add("g")
    moved.add("h", step="kafka+dual")
    moved.lacks.append("1 of 50 partitions is damaged and not served")
    told = "not all groups are known: 1 of 50 partitions is damaged and not served"
    of_all = (
        *(("groups", "list"), ("groups", "list", "--lag"), ("migrate", "status"), ("migrate", "plan")),
        *(("migrate", "verify"), ("migrate", "advance", "--all", "--dry-run"), ("migrate", "start", "--all")),
        *(("migrate", "advance", "--pattern", "h"), ("migrate", "rollback", "--pattern", "none*")),
    )
    for command in of_all:
        shown = offset_shim(*command, "--admin", admin)
        assert (shown.status, shown.stderr.splitlines().count(told)) == (1, 1), command
    assert moved.begun == ["g", "h"]
    assert offset_shim("migrate", "status", "--json", "--admin", admin).json["unanswered"] == moved.lacks
    named = offset_shim("migrate", "status", "g", "--admin", admin)
    assert (named.status, named.stderr) == (0, "")


def test_one_group(moved: Moved, admin: str) -> None:
    moved.add("g")
    assert offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines() == [
        "group: g",
        "step: upstream",
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
    assert offset_shim("groups", "describe", "g", "--admin", admin).stdout.splitlines()[4:6] == [
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
    moved.add("etl-2", step="zookeeper")
    moved.add("web", step="kafka")
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


def test_a_plan_that_may_lack_groups(moved: Moved, admin: str) -> None:
    moved.add("etl-1")
    moved.unanswered.append("broker 2 at b2:9092 has not answered\x1b[2J in 3 s")
    why = "not all groups are known: broker 2 at b2:9092 has not answered\\x1b[2J in 3 s\n"
    shown = offset_shim("migrate", "plan", "--admin", admin)
    assert (shown.status, shown.stdout.splitlines()[1].split()[0], shown.stderr) == (1, "etl-1", why)
    assert offset_shim("migrate", "plan", "--pattern", "web*", "--admin", admin) == (1, "", why)
    in_json = offset_shim("migrate", "plan", "--json", "--admin", admin)
    assert (in_json.status, in_json.json["unanswered"]) == (1, moved.unanswered)
    assert offset_shim("migrate", "plan", "etl-1", "--admin", admin).status == 0
    refused = offset_shim("migrate", "start", "--all", "--admin", admin)
    assert (refused.status, refused.stdout, moved.begun) == (2, "", [])
    assert "which groups there are is not known, name those that are meant: broker 2 at b2:9092" in refused.stderr


def test_a_plan_with_nothing_left(moved: Moved, admin: str) -> None:
    moved.add("etl-1", step="kafka")
    none = f"is left to be started: `offset-shim migrate status --admin {admin}` says where each is\n"
    assert offset_shim("migrate", "plan", "--admin", admin) == (0, "", f"no group {none}")
    told = offset_shim("migrate", "plan", "--pattern", "etl-*", "--admin", admin)
    assert told == (0, "", f"no group that fits etl-* {none}")


def test_status(moved: Moved, admin: str) -> None:
    moved.add("g", "h")
    moved.add("i", step="kafka+dual")
    moved.tell("i", 12.34, "zookeeper is not reached,\x1b[2J since noon")
    offset_shim("migrate", "start", "g", "--cause", "change\x1b[2J 4711", "--admin", admin)
    told = offset_shim("migrate", "status", "--admin", admin)
    assert told.stdout.splitlines() == [
        "GROUP  OFFSETS.STORAGE  DUAL.COMMIT.ENABLED  BEHIND  STATE   MEMBERS  STEP        SINCE                 CAUSE",
        "g      kafka            false                -       Stable        2  kafka       2023-11-14T22:13:20Z  "
        + cause_of("migrate start", "change\\x1b[2J 4711"),
        "h      upstream         false                -       Stable        2  upstream    -                     "
        "it was there",
        "i      kafka            true                 12.3 s  Stable        2  kafka+dual  -                     "
        "it was there",
    ]
    assert (told.status, told.stderr) == (1, "i: zookeeper is not reached,\\x1b[2J since noon\n")
    some = offset_shim("migrate", "status", "h", "i", "--json", "--admin", admin)
    assert [(row["group"], row["lag_seconds"], row["alarm"]) for row in some.json["groups"]] == [
        ("h", None, ""),
        ("i", 12.34, "zookeeper is not reached,\x1b[2J since noon"),
    ]
    assert (some.status, some.json["not_done"], some.stderr) == (1, [], "")
    assert offset_shim("migrate", "status", "g", "h", "--admin", admin).status == 0, "nothing is amiss with these"
    assert offset_shim("migrate", "rollback", "i", "--admin", admin).status == 0, "it is done"


def test_offsets_that_are_the_same(moved: Moved, admin: str) -> None:
    """Without names: of all that the shim serves."""
    none = f"no group is served by the shim: `offset-shim migrate status --admin {admin}` says where each is\n"
    assert offset_shim("migrate", "verify", "--admin", admin) == (0, "", none)
    moved.add("passed-through")
    moved.add("etl-1", step="zookeeper")
    moved.add("etl-2", step="kafka+dual")
    assert offset_shim("migrate", "verify", "--admin", admin) == (
        0,
        "GROUP  OFFSETS  DIFFERING\netl-1        3          0\netl-2        3          0\n",
        "",
    )
    assert len(offset_shim("migrate", "verify", "--pattern", "*1", "--json", "--admin", admin).json["groups"]) == 1


def test_offsets_that_differ(moved: Moved, admin: str) -> None:
    moved.add("a", "b", "c", step="kafka+dual")
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
    moved.add("a", "b", step="kafka+dual")
    moved.refused["b"] = "zookeeper cannot be reached"
    told = offset_shim("migrate", "verify", "--admin", admin)
    assert told.status == 1
    assert [line.split()[0] for line in told.stdout.splitlines()] == ["GROUP", "a"]
    assert told.stderr == "b: refused: zookeeper cannot be reached\n"


@pytest.mark.parametrize("first", ["a", "b"])
def test_what_was_refused_is_no_part_of_what_is_done(
    moved: Moved, admin: str, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    moved.add("a", "b", step="kafka+dual")
    moved.refused[first] = "zookeeper cannot be reached"
    monkeypatch.setattr("shim.terminal.progress._LINE_EVERY_S", 0.0)
    told = offset_shim("migrate", "verify", "--admin", admin)
    assert told.stderr == f"verify: 50 %\n{first}: refused: zookeeper cannot be reached\n"


def test_very_many_differences(moved: Moved, admin: str) -> None:
    moved.add("g", step="kafka+dual")
    moved.differing["g"] = [Difference("t", at, 1, 2, "zookeeper") for at in range(1_234)]
    told = offset_shim("migrate", "verify", "--admin", admin)
    assert len(told.stdout.splitlines()) == 2 + 2 + 1_000
    assert told.stderr == "g: 1,234 offsets differ, of which 1,000 are shown\n"
