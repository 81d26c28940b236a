"""What a request about resets, deletions and history asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from shim.admin.live.asked.groups import NO_OFFSET, Change, Kind, Partition, Scope, Target, Window
from shim.admin.live.requests.fields import (
    INT32_MAX,
    INT64_MAX,
    BadRequest,
    cause_in,
    digits_in,
    fields_of,
    fields_of_body,
    group_in,
    names_in,
    number_in,
    number_of,
    once_in,
    text_of,
)

_LONGEST_TOPIC: Final = 249
_FLAGS: Final = {"true": True, "false": False}


class PlanWanted(NamedTuple):
    group: str
    target: Target
    scope: Scope


class ResetWanted(NamedTuple):
    """``cause``: empty where none was given."""

    group: str
    changes: Sequence[Change]
    cause: str


class DeletionWanted(NamedTuple):
    """``cause``: empty where none was given."""

    groups: Sequence[str]
    cause: str
    dry_run: bool


def plan_wanted(body: bytes) -> PlanWanted:
    """Reads ``{"group": G, TARGET, "topics": [{"topic": T, "partitions": [0, 1]}], "all_topics": true}``. Raises
    BadRequest."""
    document = fields_of_body(body, ("group", *_TARGETS, "topics", "all_topics"))
    given = [name for name in _TARGETS if name in document]
    if len(given) != 1:
        raise BadRequest(f"one of {', '.join(_TARGETS)} has to be given")
    target = _TARGETS[given[0]](document[given[0]], given[0])
    scope = Scope(_topics(document.get("topics", [])), _flag(document.get("all_topics", False), "all_topics"))
    if scope.all_topics and scope.topics:
        raise BadRequest("topics or all_topics, not both")
    if not (scope.all_topics or scope.topics or target.kind in (Kind.FILE, Kind.UPSTREAM, Kind.UNDO)):
        raise BadRequest("topics or all_topics has to be given")
    return PlanWanted(group_in(document), target, scope)


def is_dry_run(query: str) -> bool:
    """Reads ``dry_run=true``, beside a plan: a field of its body an older shim would refuse. Raises BadRequest."""
    return _flag_in(fields_of(query, ("dry_run",)), "dry_run")


def reset_wanted(body: bytes) -> ResetWanted:
    """Reads ``{"group": G, "offsets": [{"topic", "partition", "offset", "new_offset"}…], "cause": TEXT}``; null is no
    offset. Raises BadRequest."""
    document = fields_of_body(body, ("group", "offsets", "cause"))
    changes = [
        Change(*at, _offset_or_none(row, "offset"), _offset_or_none(row, "new_offset"))
        for at, row in _rows(document.get("offsets"), ("offset", "new_offset"))
    ]
    return ResetWanted(group_in(document), changes, cause_in(document))


def deletion_wanted(body: bytes) -> DeletionWanted:
    """Reads ``{"groups": [name…], "cause": TEXT, "dry_run": true}``. Raises BadRequest."""
    document = fields_of_body(body, ("groups", "cause", "dry_run"))
    return DeletionWanted(names_in(document), cause_in(document), _flag(document.get("dry_run", False), "dry_run"))


def history_wanted(query: str) -> tuple[str, Window]:
    """Reads ``group=name``, and beside it ``topic=name`` and ``partition=topic:number`` any number of times,
    ``since_ms=time``, ``last=count`` and ``all=true``. Raises BadRequest."""
    given = fields_of(query, ("group", "topic", "partition", "since_ms", "last", "all"))
    if len(given["group"]) != 1:
        raise BadRequest("one group has to be named: history?group=…")
    since_ms, last = number_in(given, "since_ms"), number_in(given, "last")
    partitions = frozenset(map(_partition, given["partition"]))
    return given["group"][0], Window(since_ms, given["topic"], last, partitions, _flag_in(given, "all"))


def _partition(text: str) -> Partition:
    topic, _, digits = text.rpartition(":")
    number = digits_in(digits)
    if not topic or number is None or number > INT32_MAX:
        raise BadRequest(f"partition is {text!r}, and not topic:number")
    return topic, number


# --- fields ----------------------------------------------------------------------------------------------------------


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadRequest(f"{name} can be true or false")
    return value


def _flag_in(given: Mapping[str, Sequence[str]], name: str) -> bool:
    """Of a query; false where it is not there."""
    text = once_in(given, name)
    if text is not None and text not in _FLAGS:
        raise BadRequest(f"{name} can be true or false")
    return text is not None and _FLAGS[text]


def _offset_or_none(row: Mapping[str, object], name: str) -> int:
    return NO_OFFSET if row[name] is None else number_of(row[name], name)


def _rows(value: object, numbers: Sequence[str]) -> list[tuple[Partition, Mapping[str, object]]]:
    """Of a list with a row a partition, no partition twice."""
    if not isinstance(value, list) or not value:
        raise BadRequest("offsets is not a list of offsets")
    names = ("topic", "partition", *numbers)
    found: dict[Partition, Mapping[str, object]] = {}
    for row in value:
        if not isinstance(row, dict) or row.keys() != set(names):
            raise BadRequest(f"offsets: each has {', '.join(names[:-1])} and {names[-1]}")
        at = (_topic(row["topic"]), number_of(row["partition"], "partition", most=INT32_MAX))
        if at in found:
            raise BadRequest(f"offsets: partition {at[1]} of a topic is there twice")
        found[at] = row
    return list(found.items())


def _topic(value: object) -> str:
    return text_of(value, "topic", _LONGEST_TOPIC)


def _topics(value: object) -> dict[str, Sequence[int] | None]:
    if not isinstance(value, list):
        raise BadRequest("topics is not a list of topics")
    found: dict[str, Sequence[int] | None] = {}
    for row in value:
        if not isinstance(row, dict) or not {"topic"} <= row.keys() <= {"topic", "partitions"}:
            raise BadRequest("topics: each has topic, and may have partitions")
        name, numbers = _topic(row["topic"]), row.get("partitions")
        if name in found:
            raise BadRequest("topics: one is there twice")
        if numbers is not None and (not isinstance(numbers, list) or not numbers):
            raise BadRequest("partitions is not a list of numbers")
        found[name] = None if numbers is None else [number_of(each, "partition", most=INT32_MAX) for each in numbers]
    return found


# --- targets ---------------------------------------------------------------------------------------------------------


def _bare(kind: Kind) -> Callable[[object, str], Target]:
    def target(value: object, name: str) -> Target:
        if value is not True:
            raise BadRequest(f"{name} can be true alone")
        return Target(kind)

    return target


def _numbered(kind: Kind, least: int = 0) -> Callable[[object, str], Target]:
    return lambda value, name: Target(kind, number_of(value, name, least))


def _file(value: object, _: str) -> Target:
    return Target(Kind.FILE, offsets={at: number_of(row["offset"], "offset") for at, row in _rows(value, ("offset",))})


_TARGETS: Final[Mapping[str, Callable[[object, str], Target]]] = {
    "to_offset": _numbered(Kind.OFFSET),
    "to_earliest": _bare(Kind.EARLIEST),
    "to_latest": _bare(Kind.LATEST),
    "to_current": _bare(Kind.CURRENT),
    "to_time_ms": _numbered(Kind.TIME),
    "shift_by": _numbered(Kind.SHIFT, -INT64_MAX),
    "offsets": _file,
    "from_history_ms": _numbered(Kind.HISTORY),
    "from_upstream": _bare(Kind.UPSTREAM),
    "undo": _bare(Kind.UNDO),
}
