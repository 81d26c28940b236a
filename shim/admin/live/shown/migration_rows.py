"""Where groups are, and what a move has come to, as the admin interface and ``--json`` show it."""

from __future__ import annotations

from typing import Final

from shim.admin.live.asked.migration import GroupStatus, Looked, NotKnown, Planned, Refused, Verified, step_name
from shim.admin.live.shown.documents import Row, one_line, renamed

NAMES_OF_PLANNED: Final = {"storage": "offsets_storage"}
"""Kafka's."""

REFUSED: Final = "refused"
NOT_KNOWN: Final = "not known"
FAILED: Final = "failed"
"""The ``kind`` of a row with ``error`` is one of these three."""

MOST_DIFFERENCES: Final = 1_000
"""Of one group, so many are told one by one."""


def status_row(status: GroupStatus) -> Row:
    return {
        "group": status.group,
        "offsets_storage": status.storage,
        "dual_commit_enabled": status.dual_commit,
        "state": status.state,
        "state_since_ms": status.state_since_ms,
        "type": status.type,
        "members": status.members,
        "silent_members": status.silent_members,
        "changed_ms": status.changed_ms,
        "cause": status.cause,
        "lag_seconds": status.lag_seconds,
        "alarm": one_line(status.alarm),
    }


def step_of(row: Row) -> str:
    """Of a group's status, as `--at` takes it: ``kafka+dual``."""
    return step_name(row["offsets_storage"], dual_commit=row["dual_commit_enabled"])


def planned_row(planned: Planned) -> Row:
    row = renamed(planned._asdict(), NAMES_OF_PLANNED)
    return {"group": row.pop("group"), "offsets_storage": row.pop("offsets_storage"), **row}


def verified_row(verified: Verified) -> Row:
    return {
        "group": verified.group,
        "offsets": verified.offsets,
        "differing": len(verified.differences),
        "differences": [each._asdict() for each in verified.differences[:MOST_DIFFERENCES]],
    }


def looked_row(looked: Looked) -> Row:
    nothing: Row = {"offsets": 0, "differing": 0, "differences": []}
    return {
        **(nothing if looked.verified is None else verified_row(looked.verified)),
        "group": looked.group,
        "at": looked.at,
        "to": looked.to,
        "hindrance": one_line(looked.hindrance),
    }


def refused_row(group: str, error: Refused | NotKnown) -> Row:
    if isinstance(error, NotKnown):
        return {"group": group, "error": one_line(error) or "there is no such group", "kind": NOT_KNOWN}
    return {"group": group, "error": one_line(error), "kind": REFUSED}


def failed_row(group: str, reason: str) -> Row:
    return {"group": group, "error": reason, "kind": FAILED}
