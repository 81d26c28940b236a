"""The page as a whole. Names in it were chosen by others: everything is escaped, and it loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from pipeline.audit.report.charts import Part, bars, stacked, text
from pipeline.audit.report.tables import differences_table, groups_table, kind_of, left_out_table
from pipeline.audit.summary import Totals
from pipeline.audit.words import PAIRS, Verdict
from shim.counted import counted

MOST_DIFFERENCES: Final = 2_000
MOST_GROUPS: Final = 200
MOST_LEFT_OUT: Final = 2_000
_LONGEST_BARS: Final = 12


class Shown(NamedTuple):
    """``sources``: of each place, where it was read. ``began``: in ISO 8601. ``groups``: those that differ, most of all
    first, ``MOST_GROUPS`` of them; ``differences``: ``MOST_DIFFERENCES``; ``left_out``: ``MOST_LEFT_OUT``.
    ``outputs``: what else was written, and what is in it."""

    began: str
    sources: Mapping[str, str]
    totals: Totals
    groups: Sequence[Mapping[str, Any]]
    differences: Sequence[Mapping[str, Any]]
    left_out: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, str]
    second_look_seconds: float


def page(shown: Shown) -> str:
    """In UTF-8."""
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    totals = shown.totals
    title = _outcome(totals)
    sections = [
        f"<header><p>offset-pipeline audit · {text(shown.began)}</p><h1>{text(title)}</h1></header>",
        _tiles(totals),
        f"<section><h2>What agrees</h2>{_pairs(totals)}</section>",
        '<div class="side">',
        f"<section><h2>Lag, by partition</h2>{bars(totals.lags, 'lag')}"
        f"<h2>Groups by step</h2>{bars(totals.steps, 'step')}</section>",
        _most_differing(shown.groups),
        "</div>",
        _differing_groups(shown),
        _differences(shown),
        _left_out(shown),
        _how(shown),
    ]
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{style}</style></head><body><main>{''.join(sections)}</main><script>{script}</script></body></html>\n"
    )


def _outcome(totals: Totals) -> str:
    if not totals.groups:
        return "Nothing could be compared" if totals.left_out_partitions else "No offsets anywhere"
    if not totals.differences:
        return f"All places agree about {counted(totals.groups, 'group')}"
    partitions, groups = counted(totals.partitions, "partition"), counted(totals.differing_groups, "group")
    return f"{totals.differences:,} of {partitions} {'differs' if totals.differences == 1 else 'differ'}, in {groups}"


def _tiles(totals: Totals) -> str:
    tiles = {
        "groups": totals.groups,
        "partitions": totals.partitions,
        "differ": totals.differences,
        "were moving": totals.moving,
        "looked at twice": totals.looked_again,
        "out of their log": totals.outside,
        "lag": totals.lag,
        "groups left out": totals.left_out_groups,
        "partitions left out": totals.left_out_partitions,
    }
    bad = {"differ": totals.differences, "out of their log": totals.outside}
    each = "".join(
        f"<li{' class=bad' if bad.get(name) else ''}><b>{count:,}</b> {text(name)}</li>"
        for name, count in tiles.items()
    )
    return f'<ul class="tiles">{each}</ul>'


def _pairs(totals: Totals) -> str:
    made = []
    for pair in PAIRS:
        counts = totals.verdicts[pair.column]
        parts = [Part(kind_of(each), each.value, counts[each]) for each in Verdict]
        if any(part.number for part in parts):
            made.append(stacked(f"{pair.place} held against {pair.other}", parts))
    return "".join(made) or "<p>There was nothing to compare.</p>"


def _most_differing(groups: Sequence[Mapping[str, Any]]) -> str:
    most = {group["group"]: group["differing"] for group in groups[:_LONGEST_BARS]}
    return f"<section><h2>Most differences</h2>{bars(most, 'differing')}</section>" if most else ""


def _differing_groups(shown: Shown) -> str:
    if not shown.groups:
        return ""
    return (
        f"<section><h2>Groups that differ</h2>{_cut(shown, len(shown.groups), shown.totals.differing_groups)}"
        f"{groups_table(shown.groups)}</section>"
    )


def _differences(shown: Shown) -> str:
    if not shown.differences:
        return ""
    present = {row[pair.column] for row in shown.differences for pair in PAIRS}
    options = "".join(f"<option>{text(each)}</option>" for each in Verdict if each in present and each != Verdict.EQUAL)
    return (
        f"<section><h2>Differences</h2>{_cut(shown, len(shown.differences), shown.totals.differences)}"
        '<div class="filter"><label>Group or topic <input id="words" type="search" autocomplete="off"></label>'
        f'<label>Verdict <select id="verdict"><option value="">all</option>{options}</select></label>'
        '<output id="left"></output></div>'
        f"{differences_table(shown.differences)}</section>"
    )


def _left_out(shown: Shown) -> str:
    if not shown.left_out:
        return ""
    cut = f'<p class="note">The first {MOST_LEFT_OUT:,}.</p>' if len(shown.left_out) == MOST_LEFT_OUT else ""
    return f"<section><h2>Left out</h2>{cut}{left_out_table(shown.left_out)}</section>"


def _cut(shown: Shown, here: int, of_all: int) -> str:
    if here >= of_all:
        return ""
    rest = "; all are in the files beside this page" if shown.outputs else ""
    return f'<p class="note">The first {here:,} of {of_all:,}{rest}.</p>'


def _how(shown: Shown) -> str:
    rows = []
    for place, where in shown.sources.items():
        first, last = shown.totals.read.get(place, ("", ""))
        when = f"read from {first} to {last}" if first else "nothing read"
        rows.append(f"<dt>{text(place)}</dt><dd>{text(where)}<br>{text(when)}</dd>")
    rows += [f"<dt>{text(name)}</dt><dd>{text(what)}</dd>" for name, what in shown.outputs.items()]
    return (
        f"<section><h2>How it was read</h2><dl>{''.join(rows)}</dl>"
        "<p>No place gives a snapshot of all groups at one moment: each offset has the moment it was read at, and of "
        "ZooKeeper's the transaction (mzxid) and the time that set it. What differed was read again, all of that "
        f"group at all places, at least {shown.second_look_seconds:g} seconds later; <i>moving</i> is what still "
        "differed and had moved between the two so that it may have been alike, and is not counted as a difference. "
        "Times are UTC.</p></section>"
    )
