"""Details, history, resets and deletions of groups as the admin interface and ``--json`` show them."""

from __future__ import annotations

from typing import Final

from shim.admin.live.asked.groups import (
    NO_OFFSET,
    Change,
    Deleted,
    Details,
    Generation,
    Member,
    Moved,
    OffsetAt,
    Plan,
    awaited,
)
from shim.admin.live.shown.documents import Row, renamed

NAMES_OF_MOVED: Final = {"before": "from", "offset": "to"}


def details_row(details: Details) -> Row:
    """All but the offsets."""
    last = details.last_commit
    return {
        "protocol_type": details.protocol_type,
        "member_details": [member_row(each) for each in details.members],
        "zookeeper_consumers": details.zookeeper_consumers,
        "last_commit": None if last is None else moved_row(last),
        "generation": None if details.generation is None else generation_row(details.generation, details.now_ms),
        "now_ms": details.now_ms,
    }


def generation_row(generation: Generation, now_ms: int) -> Row:
    """``since_ms`` is null where nobody knows. ``words``: of who is awaited, for people."""
    since = generation.since_ms
    return {
        **generation._asdict(),
        "since_ms": None if since < 0 else since,
        "awaited": [{**each._asdict(), "words": awaited(each, now_ms)} for each in generation.awaited],
    }


def member_row(member: Member) -> Row:
    assigned = member.partitions
    return {
        **member._asdict(),
        "partitions": None if assigned is None else [{"topic": topic, "partition": at} for topic, at in assigned],
    }


def offset_row(at: OffsetAt) -> Row:
    return {
        "topic": at.topic,
        "partition": at.partition,
        "offset": _or_none(at.offset),
        "log_end_offset": at.log_end_offset,
        "lag": at.lag,
        "committed_ms": at.committed_ms,
        "why": at.why,
    }


def moved_row(moved: Moved) -> Row:
    """``from`` is null where nobody knows, and -1 where there was none."""
    return renamed(moved._asdict(), NAMES_OF_MOVED)


def plan_row(plan: Plan) -> Row:
    return {
        "group": plan.group,
        "state": plan.state,
        "hindrance": plan.hindrance,
        "undoes": None if plan.undoes is None else plan.undoes._asdict(),
        "offsets": [change_row(each) for each in plan.changes],
    }


def change_row(change: Change) -> Row:
    return {**change._asdict(), "offset": _or_none(change.offset), "new_offset": _or_none(change.new_offset)}


def deleted_row(deleted: Deleted, *, dry_run: bool) -> Row:
    return {**deleted._asdict(), "deleted": not dry_run}


def _or_none(offset: int) -> int | None:
    return None if offset == NO_OFFSET else offset
