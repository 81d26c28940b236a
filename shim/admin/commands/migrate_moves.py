"""``migrate start``, ``advance`` and ``rollback``: one step of each group, forth or back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypedDict, Unpack

import click

from shim.admin.admin_client import RunningShim
from shim.admin.commands.asking import Chosen, Done, chosen, done_of
from shim.admin.commands.causes import cause_of
from shim.admin.commands.console import SOMETHING_WRONG, Refused, agree, in_one_line
from shim.admin.commands.hints import pasteable
from shim.admin.commands.migration_shown import show_looked, show_planned, show_statuses
from shim.admin.commands.shim_options import (
    admin_option,
    all_option,
    cause_option,
    groups_argument,
    pattern_option,
    shim_at,
)
from shim.admin.commands.telling import fitting_shown, tell, tell_of_others
from shim.admin.live.asked.migration import STEPS, Move, Source
from shim.admin.live.shown.documents import Row
from shim.config import HostPort
from shim.counted import counted
from shim.terminal.options import Command, dry_run_option, json_option, yes_option
from shim.terminal.showing import shown

_OPTIONS: Final = (
    *(groups_argument, pattern_option, all_option, cause_option("`migrate status`")),
    *(dry_run_option, yes_option, admin_option, json_option),
)

_QUESTIONS: Final[Mapping[Move, str]] = {
    "start": "Start to move {}?",
    "advance": "Advance {} by one step?",
    "rollback": "Roll {} back by one step?",
}


class _Given(TypedDict):
    groups: tuple[str, ...]
    pattern: str | None
    all_wanted: bool
    cause: str | None
    dry_run: bool
    yes: bool
    admin: HostPort
    json_wanted: bool


def _move_options(command: Command) -> Command:
    """Those of :class:`_Given`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _at_option(command: Command) -> Command:
    text = "Of the groups that --pattern or --all mean, those at this step."
    return click.option("--at", type=click.Choice(STEPS), metavar="STEP", help=text)(command)


@click.command("start", short_help="Take the first step with groups.")
@_move_options
@click.option(
    "--from",
    "source",
    type=click.Choice([each.value for each in Source]),
    help="Where the right offsets are, of groups in upstream that ZooKeeper has, too.",
)
@in_one_line
def start_command(source: str | None, **given: Unpack[_Given]) -> None:
    """Take the first step with groups.

    A group in zookeeper comes to zookeeper+dual: its offsets are in the shim's log, too, from then on. One in
    upstream comes to kafka: it is taken over from the cluster's coordinator, with its offsets; its members join
    again by themselves, which takes as long as a rebalance. Where ZooKeeper has other offsets of it than the cluster,
    it is refused until --from says which are right; from zookeeper it comes to zookeeper+dual.

    --pattern and --all mean groups that `plan` shows: those that could be started. One whose clients have another
    protocol (consumer, streams) is left alone, and a line on standard error says so: that is no failure. Where it is
    named it is refused. --dry-run is `plan` of these groups.
    On a terminal it asks first where there is more than one group, unless --yes is given. When it is broken off, groups
    under way are brought to an end and no others begun; begin again as often as you like.

    \b
    offset-shim migrate start billing --cause 'change 4711'
    offset-shim migrate start billing invoices
    offset-shim migrate start --pattern 'etl-*' --dry-run
    offset-shim migrate start --pattern 'etl-*'
    offset-shim migrate start --all --yes --json
    offset-shim migrate start billing --from zookeeper
    """
    _move("start", given, {} if source is None else {"from": source})


@click.command("advance", short_help="Take groups one step on.")
@_move_options
@_at_option
@in_one_line
def advance_command(at: str | None, **given: Unpack[_Given]) -> None:
    """Take groups one step on.

    The steps are zookeeper+dual, kafka+dual, kafka, upstream+dual, upstream. Begin with `start`. What would lose or
    invent an offset is refused, and `verify` shows what differs. The last step hands the group to the cluster's own
    coordinator; its members join again by themselves.

    --pattern and --all mean groups with dual.commit.enabled=true. They never move a group out of plain kafka, where it
    can stay: name it, if it is to go on to upstream+dual. They have to be at one step, or --at says which are meant:
    then the same command, given again after it was broken off, goes on with those that are left.

    --dry-run says to which step each would come, and how many of its offsets differ between their places now: these,
    and what is under HINDRANCE, have it refused. Exit status 1 then.

    \b
    offset-shim migrate advance billing --dry-run
    offset-shim migrate advance billing --cause 'a week without differences'
    offset-shim migrate advance --pattern 'etl-*' --at zookeeper+dual
    offset-shim migrate advance --all --yes --json
    """
    _move("advance", given, at=at)


@click.command("rollback", short_help="Take groups one step back.")
@_move_options
@_at_option
@in_one_line
def rollback_command(at: str | None, **given: Unpack[_Given]) -> None:
    """Take groups one step back.

    The steps are upstream+dual, kafka, kafka+dual, zookeeper+dual, zookeeper. A group in kafka whose offsets were
    never in ZooKeeper is handed back to the cluster's own coordinator, with its offsets; its members join again by
    themselves.

    --pattern and --all mean groups that the shim serves, those that began there among them, and not those that are in
    zookeeper without dual commit. They have to be at one step, as for `advance`, or --at says which are meant.

    --dry-run says what would be done, as for `advance`.

    \b
    offset-shim migrate rollback billing --dry-run
    offset-shim migrate rollback billing --cause 'the dashboard is wrong'
    offset-shim migrate rollback --all --at kafka --yes
    """
    _move("rollback", given, at=at)


def _move(move: Move, given: _Given, more: Row | None = None, at: str | None = None) -> None:
    shim = shim_at(given["admin"])
    choice = chosen(given["groups"], given["pattern"], given["all_wanted"], otherwise_all=False)
    if choice.names and at is not None:
        raise click.UsageError("Groups that are named are tried wherever they are: --at goes with --pattern or --all.")
    meant = _to_move(shim, move, choice, at)
    if given["dry_run"]:
        _look(shim, move, meant, choice, json_wanted=given["json_wanted"])
        return
    done = Done([], [], None)
    if meant.groups:
        question = _QUESTIONS[move].format(counted(len(meant.groups), "group"))
        agree(question, meant.groups, yes=given["yes"] or len(meant.groups) == 1)
        cause = cause_of(f"migrate {move}", given["cause"])
        asked: Row = {"cause": cause, **(more or {})}
        done = done_of(
            *(shim, move, f"/v1/migrate/{move}", Chosen(meant.groups, None), asked),
            look="migrate status",
            waiting_for=_waiting_for(move, *meant.groups) if len(meant.groups) == 1 else None,
        )
    _tell(done, meant, choice, show_statuses, json_wanted=given["json_wanted"])


def _waiting_for(move: Move, group: str) -> str:
    name = shown(group)
    return pasteable(f"the {move} of {name}: `migrate status {name}` says which members it waits for, if any")


class _Meant(NamedTuple):
    """``groups``: by name. ``left_alone`` and ``unanswered``: as of :class:`Done`."""

    groups: tuple[str, ...]
    left_alone: Sequence[Row] = ()
    unanswered: Sequence[str] = ()


def _look(shim: RunningShim, move: Move, meant: _Meant, choice: Chosen, *, json_wanted: bool) -> None:
    """What the move would find and do. Exits with 1 where something stands in its way."""
    starts = move == "start"
    path, more = ("/v1/migrate/plan", {}) if starts else ("/v1/migrate/look", {"move": move})
    done = done_of(shim, move, path, Chosen(meant.groups, None), more) if meant.groups else Done([], [], None)
    _tell(done, meant, choice, show_planned if starts else show_looked, json_wanted=json_wanted)
    if any(row["hindrance"] or row.get("differing") for row in done.rows):
        sys.exit(SOMETHING_WRONG)


def _tell(
    done: Done, meant: _Meant, choice: Chosen, show: Callable[[Sequence[Row]], None], *, json_wanted: bool
) -> None:
    done = done._replace(left_alone=meant.left_alone, unanswered=meant.unanswered)
    tell(done, show, json_wanted=json_wanted, none_of_them=_none_can(choice))


def _none_can(choice: Chosen) -> str:
    return f"no group{fitting_shown(choice)} can take that step: `migrate plan` and `migrate status` say where each is"


def _to_move(shim: RunningShim, move: Move, choice: Chosen, at: str | None) -> _Meant:
    """By name, so that what somebody said yes to is what is moved; where they were not named, other shims that may have
    more are told of before. Raises Refused for a pattern that nothing fits."""
    if choice.names:
        return _Meant(choice.names)
    fitting = [] if choice.pattern is None else [("pattern", choice.pattern)]
    of_step = [] if at is None else [("at", at)]
    found = shim.get("/v1/migrate/candidates", [("move", move), *fitting, *of_step])
    tell_of_others(shim)
    meant = _Meant(tuple(found["groups"]), found.get("left_alone", ()), found.get("unanswered", ()))
    if fitting and not any(meant) and not shim.get("/v1/groups", fitting)["groups"]:
        raise Refused(f"no group fits {choice.pattern}")
    return meant
