"""Groups as the admin interface and ``--json`` show them; everything is ASCII, in one line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from shim.admin.live.asked.migration import GroupStatus, Looked, NotKnown, Planned, Refused, Verified

REFUSED = "refused"
NOT_KNOWN = "not known"
FAILED = "failed"

MOST_DIFFERENCES: Final = 1_000
"""Of one group, so many are told one by one."""

_ROWS_A_PIECE = 500

Row = dict[str, Any]
"""Of one group; with ``error`` (a line) and ``kind`` (one of the three above) where it could not be done."""


def status_row(status: GroupStatus) -> Row:
    return {
        "group": status.group,
        "offsets_storage": status.storage,
        "dual_commit_enabled": status.dual_commit,
        "state": status.state,
        "type": status.type,
        "members": status.members,
        "changed_ms": status.changed_ms,
        "cause": status.cause,
        "lag_seconds": status.lag_seconds,
        "alarm": one_line(status.alarm),
    }


def planned_row(planned: Planned) -> Row:
    row = planned._asdict()
    return {"group": row.pop("group"), "offsets_storage": row.pop("storage"), **row}


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
        "at": str(looked.at),
        "to": str(looked.to),
        "hindrance": one_line(looked.hindrance),
    }


def refused_row(group: str, error: Refused | NotKnown) -> Row:
    if isinstance(error, NotKnown):
        return {"group": group, "error": one_line(error) or "there is no such group", "kind": NOT_KNOWN}
    return {"group": group, "error": one_line(error), "kind": REFUSED}


def failed_row(group: str, reason: str) -> Row:
    return {"group": group, "error": reason, "kind": FAILED}


def encoded(document: object) -> bytes:
    """Without an end of line."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def list_in_pieces(document: Row, name: str, rows: Iterable[Row | str]) -> Iterator[bytes]:
    """``document``, and in it at last the list ``name`` of all ``rows``: each piece is some milliseconds' work."""
    left = iter(rows)
    separator = encoded({**document, name: []})[:-2]
    while some := list(itertools.islice(left, _ROWS_A_PIECE)):
        yield separator + encoded(some)[1:-1]
        separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


def one_line(error: object) -> str:
    return " ".join(str(error).split())
