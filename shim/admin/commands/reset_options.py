"""The options of `groups reset`: those of Kafka's own tool, and those that need a history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from shim.admin.commands.offset_files import offsets_in
from shim.admin.live.shown.documents import Row
from shim.terminal.options import Command
from shim.terminal.times import parse_duration, parse_time, time_shown

_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)


class _Option(NamedTuple):
    """``field``: what the shim is asked for by it, and ``value``: of what was given and the group."""

    field: str
    settings: Mapping[str, Any]
    value: Callable[[Any, str], Any] = lambda given, _: given


_TARGETS: Final[Mapping[str, _Option]] = {
    "to-offset": _Option(
        "to_offset",
        {"type": click.IntRange(0, 2**63 - 1), "metavar": "N", "help": "To this offset."},
    ),
    "to-earliest": _Option("to_earliest", {"is_flag": True, "help": "To where the log begins."}),
    "to-latest": _Option("to_latest", {"is_flag": True, "help": "To where it ends."}),
    "to-current": _Option(
        "to_current",
        {"is_flag": True, "help": "To what is committed; to the log's end where nothing is."},
    ),
    "to-datetime": _Option(
        "to_time_ms",
        {"type": parse_time, "metavar": "TIME", "help": "To the first record at that time, or after it."},
    ),
    "by-duration": _Option(
        "to_time_ms",
        {"type": parse_duration, "metavar": "PnDTnHnMnS", "help": "To the first record of so long ago, or after."},
        lambda given, _: max(time.time_ns() // 1_000_000 - given, 0),
    ),
    "shift-by": _Option(
        "shift_by",
        {"type": click.IntRange(-(2**63) + 1, 2**63 - 1), "metavar": "N", "help": "By so many, back if negative."},
    ),
    "from-file": _Option(
        "offsets",
        {
            "type": _FILE,
            "metavar": "FILE",
            "help": "To those in a CSV (topic,partition,offset; a group may stand before; no heading), or in the "
            "Parquet of `offset-pipeline history state`.",
        },
        offsets_in,
    ),
    "from-history": _Option(
        "from_history_ms",
        {"type": parse_time, "metavar": "TIME", "help": "To what was committed at that time, by the shim's history."},
    ),
    "from-upstream": _Option(
        "from_upstream",
        {"is_flag": True, "help": "To what the cluster itself has, of a group that the shim serves."},
    ),
    "undo": _Option("undo", {"is_flag": True, "help": "Put back what the last reset has changed."}),
}
_BY_ITSELF: Final = ("from-file", "from-upstream", "undo")
"""Which partitions these are about they say themselves."""

_BY_HISTORY: Final = frozenset({"from_history_ms", "undo"})


def target_options(command: Command) -> Command:
    """Those of :func:`target_of`."""
    for name, option in reversed(list(_TARGETS.items())):
        settings = dict(option.settings)
        command = click.option(f"--{name}", **settings)(command)
    return command


def scope_options(command: Command) -> Command:
    """``topics`` and ``all_topics``, as :func:`target_of` takes them."""
    named = click.option(
        "--topic",
        "topics",
        multiple=True,
        type=_topic,
        metavar="T[:P,P…]",
        help="This topic, or these partitions of it; may be given many times.",
    )
    every = click.option("--all-topics", is_flag=True, help="All partitions that the group has offsets of.")
    return named(every(command))


def target_of(given: Mapping[str, Any], group: str, topics: tuple[Row, ...], *, all_topics: bool) -> tuple[Row, str]:
    """What the shim is asked to plan, and the options as they were given, in a line. Raises UsageError."""
    options = {name: given[name.replace("-", "_")] for name in _TARGETS}
    chosen = [name for name, value in options.items() if value is not None and value is not False]  # 0 is an offset
    if len(chosen) != 1:
        given_are = f", not {_listed(chosen)} at once" if chosen else ""
        raise click.UsageError(f"To where? Give one of {_listed(_TARGETS)}{given_are}.")
    (name,) = chosen
    if topics and all_topics:
        raise click.UsageError("Give --topic, or --all-topics: one of them.")
    if not (topics or all_topics or name in _BY_ITSELF):
        raise click.UsageError("Which offsets? Give --topic T, --topic T:0,1, or --all-topics.")
    option, value = _TARGETS[name], options[name]
    question: Row = {"group": group, option.field: option.value(value, group)}
    if topics:
        question["topics"] = _each_once(topics)
    if all_topics:
        question["all_topics"] = True
    return question, f"--{name}" if value is True else f"--{name} {_shown(name, value)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"--{name}" for name in names)


def _shown(name: str, value: object) -> str:
    if name in ("to-datetime", "from-history"):
        return time_shown(int(str(value)))
    return f"{int(str(value)) / 1000:g}s" if name == "by-duration" else str(value)


def _topic(text: str) -> Row:
    """As Kafka's tool takes it: ``orders``, or ``orders:0,1``. Raises BadParameter."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return {"topic": name}
    try:
        partitions = [int(number) for number in numbers.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r}: partitions are numbers, as in orders:0,1") from None
    if min(partitions) < 0 or max(partitions) > 2**31 - 1:
        raise click.BadParameter(f"{text!r}: there are no such partitions")
    return {"topic": name, "partitions": partitions}


def by_history(question: Row) -> bool:
    """Whether what :func:`target_of` gave is answered from the shim's history."""
    return not _BY_HISTORY.isdisjoint(question)


def _each_once(topics: tuple[Row, ...]) -> list[Row]:
    """A topic that is named more than once is meant with all the partitions that were named."""
    found: dict[str, Row] = {}
    for row in topics:
        before = found.get(row["topic"])
        if before is None:
            found[row["topic"]] = dict(row)
        elif "partitions" in before and "partitions" in row:
            before["partitions"] = [*before["partitions"], *row["partitions"]]
        else:
            before.pop("partitions", None)
    return list(found.values())
