"""``groups watch``: groups as they change."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Final

import click

from shim.admin.admin_client import RunningShim
from shim.admin.commands.asking import of_one_group
from shim.admin.commands.console import in_one_line, number_shown
from shim.admin.commands.lags import with_lags
from shim.admin.commands.shim_options import admin_option, groups_argument, shim_at
from shim.admin.errors import NotDone
from shim.admin.live.asked.migration import NotKnown
from shim.admin.live.shown.documents import Row
from shim.admin.live.shown.migration_rows import step_of
from shim.config import HostPort
from shim.terminal.options import json_option
from shim.terminal.showing import shown
from shim.terminal.times import since_shown

_HEADINGS: Final = ("GROUP", "STATE", "MEMBERS", "STEP", "LAG")

_Show = Callable[[Mapping[str, Row]], None]


@click.command("watch", short_help="State, members, step and lag, again and again.")
@groups_argument
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@admin_option
@json_option
@in_one_line
def watch_command(groups: tuple[str, ...], interval: float, admin: HostPort, json_wanted: bool) -> None:
    """State, members, step and lag of groups, again and again, until Ctrl-C. Without groups: all of them.

    On a terminal it is a table; otherwise headings, and a line for each group that has changed, with when that was
    seen. With --json there are no headings. A group that goes is told as gone.

    \b
    offset-shim groups watch
    offset-shim groups watch billing invoices --interval 0.5
    offset-shim groups watch --json | jq -c 'select(.lag > 1000)'
    """
    shim = shim_at(admin, nullcontext)  # it looks again and again, and a table is there meanwhile
    names = tuple(dict.fromkeys(groups))
    if names:
        with of_one_group():
            shim.get("/v1/groups", [("group", name) for name in names])  # one that is misspelt is told of now
    try:
        with _shown_live() if sys.stdout.isatty() and not json_wanted else _lines(json_wanted=json_wanted) as show:
            show(_looked(shim, names))
            said = ""
            while True:
                time.sleep(interval)
                try:
                    show(_looked(shim, names))
                    said = ""
                except NotDone as error:  # a shim that is started again is what one watches
                    if said != str(error):
                        said = str(error)
                        click.echo(f"{said}; still looking", err=True)
    except KeyboardInterrupt:
        return


def _looked(shim: RunningShim, names: Sequence[str]) -> dict[str, Row]:
    """The groups that are there, by name."""
    queries = [[("group", name)] for name in names] or [[]]
    found: dict[str, Row] = {}
    for query in queries:
        try:
            rows, _ = with_lags(shim, query)
        except NotKnown:
            continue  # it has gone since
        for row in rows:
            found[row["group"]] = {
                "group": row["group"],
                "state": row["state"],
                "members": row["members"],
                "step": step_of(row),
                "lag": row["lag"],
            }
    return found


def cells(row: Row) -> tuple[str, ...]:
    members, lag = (str(number_shown(row[name])) for name in ("members", "lag"))
    return shown(row["group"]), shown(row["state"]), members, row["step"], lag


@contextmanager
def _shown_live() -> Iterator[_Show]:
    # Only now: the other commands do without.
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    def table(found: Mapping[str, Row]) -> Table:
        made = Table(box=None, pad_edge=False)
        for heading in _HEADINGS:
            made.add_column(heading, justify="right" if heading in ("MEMBERS", "LAG") else "left")
        for _, row in sorted(found.items()):
            made.add_row(*map(Text, cells(row)))
        made.caption = f"{datetime.now(UTC):%H:%M:%S}Z, Ctrl-C ends it"
        return made

    with Live(table({}), auto_refresh=False) as live:
        yield lambda found: live.update(table(found), refresh=True)


@contextmanager
def _lines(*, json_wanted: bool) -> Iterator[_Show]:
    last: dict[str, Row] = {}
    to_head: list[tuple[str, ...]] = [("TIME", *_HEADINGS)]
    widths = [0 for _ in to_head[0]]

    def in_columns(rows: Sequence[Row], now: str) -> Iterator[str]:
        """As wide as any before them."""
        table = [*to_head, *((now, *cells(row)) for row in rows)]
        to_head.clear()
        widths[:] = [
            max(width, *map(len, column)) for width, column in zip(widths, zip(*table, strict=True), strict=True)
        ]
        return ("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)

    def show(found: Mapping[str, Row]) -> None:
        now = since_shown(time.time_ns() // 1_000_000)
        changed = [
            found.get(name) or {"group": name, "state": "gone", "members": 0, "step": "-", "lag": None}
            for name in sorted(found.keys() | last.keys())
            if found.get(name) != last.get(name)
        ]
        if changed:
            in_json = (json.dumps({"time": now, **row}) for row in changed)
            for line in in_json if json_wanted else in_columns(changed, now):
                click.echo(line)
            sys.stdout.flush()
        last.clear()
        last.update(found)

    yield show
