"""What is told of groups that a running shim was asked about, and of the shim itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import click

from shim.admin.admin_client import RunningShim
from shim.admin.commands.asking import Chosen, Done, overview_of
from shim.admin.commands.console import SOMETHING_WRONG, print_json, tell_beside
from shim.admin.live.shown.documents import Row
from shim.counted import counted, some_of
from shim.terminal.showing import shown

T = TypeVar("T")

_NAMED: Final = 10
"""Groups, or members, in one line."""


def tell(
    done: Done, show: Callable[[Sequence[Row]], None], *, json_wanted: bool, none_of_them: str = "no group"
) -> None:
    """What was done on standard output, what was not on standard error, ``none_of_them`` where it was about no group.
    Raises what it broke off with; exits with 1 where something was not done, or not all groups are known.
    """
    if json_wanted:
        more = {"unanswered": done.unanswered, "left_alone": done.left_alone}
        print_json({"groups": done.rows, "not_done": done.not_done, **{name: its for name, its in more.items() if its}})
    else:
        if done.rows:
            show(done.rows)
        elif not done.not_done and done.broken_off is None and not done.unanswered:
            tell_beside(none_of_them)
        for line in done.unanswered:
            tell_beside(not_all_shown(line))
        by_reason: dict[tuple[str, str], list[Row]] = {}
        are_shown = {row["group"] for row in done.rows}
        for row in done.left_alone:
            if row["group"] not in are_shown:
                by_reason.setdefault(("left alone", row["why"]), []).append(row)
        for row in done.not_done:  # what is the same of many is one line
            by_reason.setdefault((row["kind"], behind_name(row, row["error"])), []).append(row)
        for (kind, why), its in by_reason.items():
            tell_beside(f"{some_shown(its, name_shown)}: {kind}: {shown(why)}")
    if done.broken_off is not None:
        raise done.broken_off
    if done.not_done or done.unanswered:
        sys.exit(SOMETHING_WRONG)


def tell_of_others(shim: RunningShim) -> None:
    """On standard error, where not all partitions are that shim's: what is shown, or done, is of its groups alone."""
    whole = overview_of(shim)
    if whole["owned"] == whole["partitions"]:
        return
    others = ", ".join(map(shown, whole["others"]))
    where = f"; others: {others} (clients' addresses; ask each one's --admin)" if others else ""
    click.echo(f"this shim has {whole['owned']} of {counted(whole['partitions'], 'partition')}{where}", err=True)


def none_heard_of(pattern: str | None = None) -> str:
    fits = "" if pattern is None else f" fits {shown(pattern)}"
    return f"no group that this shim has heard of{fits} (`migrate plan` shows those of the cluster)"


def name_shown(row: Row) -> str:
    """Of a group, before what is said of it."""
    return shown(row["group"]) or "(no name)"


def behind_name(row: Row, line: str) -> str:
    """What is said of a group, behind its name: many a line begins with that."""
    return line.removeprefix(f"group {row['group']}: ")


def not_all_shown(why: str) -> str:
    return f"not all groups are known: {shown(why)}"


def some_shown(items: Sequence[T], told: Callable[[T], str]) -> str:
    """The first of them, each as ``told``."""
    return some_of(items, told, _NAMED) + (" (--json has all)" if len(items) > _NAMED else "")


def groups_shown(rows: Sequence[Row]) -> str:
    """Of one or more groups, of which the same is said: its name, or how many they are."""
    return name_shown(rows[0]) if len(rows) == 1 else counted(len(rows), "group")


def fitting_shown(choice: Chosen) -> str:
    """Behind `no group`."""
    return "" if choice.pattern is None else f" that fits {shown(choice.pattern)}"
