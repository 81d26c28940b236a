"""Groups and their steps, as the `migrate` commands show them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from shim.admin.commands.console import number_shown, print_table, tell_beside
from shim.admin.commands.telling import behind_name, groups_shown, name_shown
from shim.admin.live.shown.documents import Row
from shim.admin.live.shown.migration_rows import step_of
from shim.terminal.showing import shown
from shim.terminal.times import since_shown


def show_planned(rows: Sequence[Row]) -> None:
    print_table(
        ("GROUP", "OFFSETS.STORAGE", "STATE", "MEMBERS", "HERE", "OFFSETS", "HINDRANCE"),
        [
            (
                row["group"],
                row["offsets_storage"],
                row["state"],
                *(number_shown(row[name]) for name in ("members", "members_here", "offsets")),
                row["hindrance"],
            )
            for row in rows
        ],
    )


def show_statuses(rows: Sequence[Row]) -> None:
    """Alarms on standard error."""
    print_table(
        ("GROUP", "OFFSETS.STORAGE", "DUAL.COMMIT.ENABLED", "BEHIND", "STATE", "MEMBERS", "STEP", "SINCE", "CAUSE"),
        [
            (
                row["group"],
                row["offsets_storage"],
                "true" if row["dual_commit_enabled"] else "false",
                behind_shown(row),
                row["state"],
                number_shown(row["members"]),
                step_of(row),
                since_shown(row["changed_ms"]),
                row["cause"],
            )
            for row in rows
        ],
    )
    tell_alarms(rows)


def tell_alarms(rows: Sequence[Row]) -> None:
    """What somebody should look at, on standard error: a line a group; of those whose broker does not answer, a line a
    broker."""
    unanswered: dict[str, list[Row]] = {}
    for row in rows:
        if row["members"] is None:
            unanswered.setdefault(row["alarm"], []).append(row)
        elif row["alarm"]:
            tell_beside(f"{name_shown(row)}: {shown(behind_name(row, row['alarm']))}")
    for why, its in unanswered.items():
        tell_beside(f"state and members of {groups_shown(its)} are not known: {shown(why)}")


def show_looked(rows: Sequence[Row]) -> None:
    """With every difference that was told."""
    columns = ("group", "at", "to", "offsets", "differing", "hindrance")
    print_table([each.upper() for each in columns], [[row[each] for each in columns] for row in rows])
    _show_differences(rows)


def show_verified(rows: Sequence[Row]) -> None:
    """Every difference that was told, by group; that there are more, on standard error."""
    print_table(("GROUP", "OFFSETS", "DIFFERING"), [(row["group"], row["offsets"], row["differing"]) for row in rows])
    _show_differences(rows)


def _show_differences(rows: Sequence[Row]) -> None:
    differences = [
        (
            row["group"],
            f"{each['topic']}-{each['partition']}",
            _offset_shown(each["log"]),
            _offset_shown(each["elsewhere"]),
            each["where"],
        )
        for row in rows
        for each in row["differences"]
    ]
    if differences:
        click.echo()
        print_table(("GROUP", "PARTITION", "LOG", "ELSEWHERE", "WHERE"), differences)
    for row in rows:
        if row["differing"] > (told := len(row["differences"])):
            click.echo(f"{name_shown(row)}: {row['differing']:,} offsets differ, of which {told:,} are shown", err=True)


def behind_shown(row: Row) -> str:
    seconds: float | None = row["lag_seconds"]
    return "-" if seconds is None else f"{seconds:.1f} s"


def _offset_shown(offset: int | None) -> int | str:
    return "none" if offset is None else offset
