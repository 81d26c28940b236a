"""The page's tables: the groups that differ, and the differences one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pipeline.audit.report.charts import text
from pipeline.audit.summary import step_shown
from pipeline.audit.words import NO_PARTITION, PAIRS, PLACES, Verdict

Row = Mapping[str, Any]

_GROUP_HEADINGS: Final = ("group", "step", "partitions", *PLACES, "differing", "moving", "lag")
_HEADINGS: Final = ("group", "topic", "partition", "step", *PLACES, "verdict", "lag", "read", "set in ZooKeeper")

_NUMBERS: Final = frozenset({"partition", "partitions", *PLACES, "differing", "moving", "lag"})
_RIGHT: Final = ' class="number"'


def kind_of(verdict: str) -> str:
    """The class of a verdict in the page's style sheet."""
    return f"v-{verdict.replace(' ', '-')}"


def groups_table(groups: Sequence[Row]) -> str:
    rows = [
        [
            _cell("group", group["group"]),
            _cell("step", step_shown(group["step"])),
            *(_number(each, group[each]) for each in _GROUP_HEADINGS[2:]),
        ]
        for group in groups
    ]
    return _table("groups", _GROUP_HEADINGS, rows, [""] * len(rows))


def differences_table(differences: Sequence[Row]) -> str:
    """Each row says in ``data-verdicts`` which verdicts it has, for the filter."""
    rows, marks = [], []
    for each in differences:
        verdicts = [each[pair.column] for pair in PAIRS if each[pair.column]]
        rows.append(
            [
                _cell("group", each["group"]),
                _cell("topic", each["topic"]),
                _number("partition", None if each["partition"] == NO_PARTITION else each["partition"]),
                _cell("step", step_shown(each["step"])),
                *(_number(place, each[place]) for place in PLACES),
                f'<td data-name="verdict">{_verdicts(each)}</td>',
                _number("lag", each["lag"]),
                _cell("read", "; ".join(f"{place} {_clock(each[f'{place}_read'])}" for place in _read(each))),
                _cell("set in ZooKeeper", _moment(each["mtime"])),
            ]
        )
        marks.append(f' data-verdicts="{text("|".join(verdicts))}"')
    return _table("differences", _HEADINGS, rows, marks)


def left_out_table(left_out: Sequence[Row]) -> str:
    rows = [
        [
            _cell("group", each["group"]),
            _cell("step", step_shown(each["step"])),
            _number("partitions", each["partitions"]),
            _cell("why", each["why"]),
        ]
        for each in left_out
    ]
    return _table("left-out", ("group", "step", "partitions", "why"), rows, [""] * len(rows))


def _verdicts(row: Row) -> str:
    said = [
        f'<span class="verdict {kind_of(row[pair.column])}">{text(pair.place)} {text(row[pair.column])}'
        f"<small> / {text(pair.other)}</small></span>"
        for pair in PAIRS
        if row[pair.column] and row[pair.column] != Verdict.EQUAL
    ]
    problem = f'<span class="problem">{text(row["problem"])}</span>' if row["problem"] else ""
    return "".join(said) + problem


def _read(row: Row) -> list[str]:
    return [place for place in PLACES if row[f"{place}_read"] is not None]


def _table(name: str, headings: Sequence[str], rows: Sequence[Sequence[str]], marks: Sequence[str]) -> str:
    head = "".join(f'<th scope="col"{_RIGHT if each in _NUMBERS else ""}>{text(each)}</th>' for each in headings)
    body = "".join(f"<tr{mark}>{''.join(row)}</tr>" for row, mark in zip(rows, marks, strict=True))
    return f'<div class="scroll"><table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(name: str, value: object) -> str:
    return f'<td data-name="{name}">{text(value)}</td>'


def _number(name: str, value: int | None) -> str:
    return f'<td{_RIGHT} data-name="{name}">{"&ndash;" if value is None else f"{value:,}"}</td>'


def _clock(moment: datetime) -> str:
    return f"{_utc(moment):%H:%M:%S}"


def _moment(moment: datetime | None) -> str:
    return "none" if moment is None else f"{_utc(moment):%Y-%m-%d %H:%M:%S}"


def _utc(moment: datetime) -> datetime:
    """PySpark gives times of this machine's zone, without saying so."""
    return moment.astimezone(UTC)
