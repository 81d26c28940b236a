"""The documents and parameters of the admin interface, as JSON Schema has it.

Where a row is a NamedTuple as it is, or but for some fields, its schema is made of the tuple's types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from shim.admin.live.asked.groups import Deleted, Generation, Member, Moved, OffsetAt, Presence, Undone
from shim.admin.live.asked.migration import STEPS, Difference, GroupStatus, Planned, Source
from shim.admin.live.asked.overview import ClientsOf, Overview
from shim.admin.live.guard.access import TokenFor
from shim.admin.live.requests.choosing import LOOKED_AT, MOVES
from shim.admin.live.requests.paging import MOST_ROWS, Sort
from shim.admin.live.shown.documents import renamed
from shim.admin.live.shown.group_rows import NAMES_OF_MOVED
from shim.admin.live.shown.migration_rows import NAMES_OF_PLANNED
from shim.relocation.words import PartitionPlace, Side

Schema = dict[str, Any]

_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer"}
_FLAG: Final[Schema] = {"type": "boolean"}
_MAYBE: Final[Schema] = {"type": ["integer", "null"]}
_STEP: Final[Schema] = {"type": "string", "enum": list(STEPS)}


def _object(needed: Mapping[str, Schema], more: Mapping[str, Schema] | None = None) -> Schema:
    """``more``: what need not be there."""
    return {"type": "object", "properties": {**needed, **(more or {})}, "required": list(needed)}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _either(schema: Schema) -> Schema:
    """Or null."""
    return {"oneOf": [schema, {"type": "null"}]}


def _fields(row: type, /, **otherwise: Schema) -> dict[str, Schema]:
    """Of a NamedTuple. ``otherwise``: what is shown of it in another way, or besides."""
    return {name: otherwise.get(name) or _typed(hint) for name, hint in get_type_hints(row).items()} | otherwise


def _typed(hint: Any) -> Schema:
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if get_origin(hint) is UnionType:
        return {"type": [_TYPES[each] for each in get_args(hint)]}
    if get_origin(hint) is Sequence:
        return _list(_typed(*get_args(hint)))
    return _object(_fields(hint))


_AT: Final = {"topic": _TEXT, "partition": _COUNT}
_SAMPLE: Final[Schema] = {"type": "array", "prefixItems": [_COUNT, _MAYBE], "minItems": 2, "maxItems": 2}
_STATUS: Final = {
    "group": _TEXT,
    "offsets_storage": {"type": "string", "enum": ["zookeeper", "kafka", "upstream"]},
    "dual_commit_enabled": _FLAG,
    **{name: schema for name, schema in _fields(GroupStatus).items() if name not in ("group", "step")},
}
_WHICH: Final = {"groups": _list(_TEXT), "pattern": _TEXT, "all": {"const": True}}
_MOVE: Final = {**_WHICH, "cause": _TEXT, "at": _STEP}
_VERIFIED: Final = {
    "group": _TEXT,
    "offsets": _COUNT,
    "differing": _COUNT,
    "differences": _typed(Sequence[Difference]),
}
_CHANGE: Final = {**_AT, "offset": _MAYBE, "new_offset": _MAYBE}
_BURROW: Final = {"error": _FLAG, "message": _TEXT, "request": _object({"url": _TEXT, "host": _TEXT})}
_COMMIT: Final = _object({"offset": _COUNT, "timestamp": _COUNT, "observedTimestamp": _COUNT, "lag": _COUNT})

PARAMETERS: Final[Mapping[str, Schema]] = {
    "group": {"schema": _TEXT, "description": "A name; may stand several times where more than one group is meant"},
    "pattern": {"schema": _TEXT, "description": "With *, ? and […], as in a shell"},
    "topic": {"schema": _list(_TEXT)},
    "since_ms": {"schema": _COUNT, "description": "Milliseconds since the epoch"},
    "last": {"schema": _COUNT, "description": "So many of the newest, of those that are wanted"},
    "partition": {"schema": _list(_TEXT), "description": "TOPIC:NUMBER; beside topics: what is one of either"},
    "all": {"schema": _FLAG, "description": "Also commits of the offset that was there, for no cause; else left out"},
    "dry_run": {"schema": _FLAG, "description": "Brokers are waited for no longer than by who only looks"},
    "move": {"schema": {"type": "string", "enum": list(MOVES)}},
    "at": {"schema": _STEP},
    "search": {"schema": _TEXT, "description": "A part of the name, in any case"},
    "step": {"schema": _STEP},
    "state": {"schema": _TEXT},
    "sort": {"schema": {"type": "string", "enum": list(map(str, Sort))}},
    "order": {"schema": {"type": "string", "enum": ["asc", "desc"]}},
    "offset": {"schema": {"type": "integer", "minimum": 0}},
    "limit": {"schema": {"type": "integer", "minimum": 0, "maximum": MOST_ROWS}},
    "turn": {"schema": {"type": "integer", "minimum": 0}, "description": "Wait for another one than this"},
    "seconds": {"schema": {"type": "integer", "minimum": 0}, "description": "How long, 5 at most"},
}

_SIDE: Final[Schema] = {"type": "string", "enum": list(map(str, Side))}

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Alive": _object({"alive": _FLAG}),
    "Ready": _object({"ready": _FLAG, "missing": _list(_TEXT)}),
    "Text": _TEXT,
    "Any": {"type": "object"},
    "Error": _object({"error": _TEXT}),
    "NotDone": _object(
        {"group": _TEXT, "error": _TEXT, "kind": {"type": "string", "enum": ["refused", "not known", "failed"]}}
    ),
    "Access": _object({"token_for": {"type": "string", "enum": list(map(str, TokenFor))}}),
    "Overview": _object(
        {
            **_fields(Overview, log={"type": "string", "enum": ["local", "kafka", "moving"]}),
            "ready": _FLAG,
            "token_for": {"type": "string", "enum": list(map(str, TokenFor))},
        }
    ),
    "Client": _object(_fields(ClientsOf, dropped=_FLAG)),
    "Clients": _object({"clients": _list(_ref("Client"))}),
    "Status": _object(_STATUS),
    "Statuses": _object({"groups": _list(_ref("Status"))}, {"unanswered": _list(_TEXT)}),
    "Summary": _object(
        {
            "total": _COUNT,
            "matching": _COUNT,
            "offset": _COUNT,
            "steps": {"type": "object", "additionalProperties": _COUNT},
            "states": {"type": "object", "additionalProperties": _COUNT},
            "lag": _MAYBE,
            "alarms": _COUNT,
            "groups": _list(_object({**_STATUS, "step": _STEP, "lag": _MAYBE, "recent": _list(_SAMPLE)})),
        }
    ),
    "Generation": _object(_fields(Generation, since_ms=_MAYBE, awaited=_list(_object(_fields(Presence, words=_TEXT))))),
    "Member": _object(_fields(Member, partitions=_either(_list(_object(_AT))))),
    "Moved": _object(renamed(_fields(Moved), NAMES_OF_MOVED)),
    "Details": _object(
        {
            **_STATUS,
            "protocol_type": _TEXT,
            "member_details": _list(_ref("Member")),
            "zookeeper_consumers": {"type": ["array", "null"], "items": _TEXT},
            "last_commit": _either(_ref("Moved")),
            "generation": _either(_ref("Generation")),
            "now_ms": _COUNT,
            "offsets": _list(_object(_fields(OffsetAt, offset=_MAYBE, lag=_MAYBE))),
        }
    ),
    "Lags": _object({"groups": _list(_object({**_STATUS, "lag": _MAYBE, "why": _TEXT}))}, {"unanswered": _list(_TEXT)}),
    "RecentLag": _object({"group": _TEXT, "samples": _list(_SAMPLE)}),
    "History": _object({"group": _TEXT, "moves": _list(_ref("Moved"))}),
    "ResetWanted": _object(
        {"group": _TEXT},
        {
            **{
                name: {"const": True}
                for name in ("to_earliest", "to_latest", "to_current", "from_upstream", "undo", "all_topics")
            },
            **dict.fromkeys(("to_offset", "to_time_ms", "shift_by", "from_history_ms"), _COUNT),
            "offsets": _list(_object({**_AT, "offset": _COUNT})),
            "topics": _list(_object({"topic": _TEXT}, {"partitions": _list(_COUNT)})),
        },
    ),
    "Change": _object({**_CHANGE, "note": _TEXT}),
    "Undone": _object(_fields(Undone)),
    "ResetPlan": _object(
        {
            "group": _TEXT,
            "state": _TEXT,
            "hindrance": _TEXT,
            "undoes": _either(_ref("Undone")),
            "offsets": _list(_ref("Change")),
        }
    ),
    "Reset": _object({"group": _TEXT, "offsets": _list(_object(_CHANGE))}, {"cause": _TEXT}),
    "ResetDone": _object({"group": _TEXT, "cause": _TEXT, "offsets": _list(_ref("Change"))}),
    "Deletion": _object({"groups": _list(_TEXT)}, {"cause": _TEXT, "dry_run": _FLAG}),
    "Deleted": _object(_fields(Deleted, deleted=_FLAG)),
    "Names": _object(
        {"groups": _list(_TEXT)},
        {"left_alone": _list(_object({"group": _TEXT, "why": _TEXT})), "unanswered": _list(_TEXT)},
    ),
    "Which": _object({}, _WHICH),
    "Move": _object({}, _MOVE),
    "Start": _object({}, {**_MOVE, "from": {"type": "string", "enum": list(map(str, Source))}}),
    "Planned": _object(renamed(_fields(Planned), NAMES_OF_PLANNED)),
    "Verified": _object(_VERIFIED),
    "Look": _object({"move": {"type": "string", "enum": list(LOOKED_AT)}}, {**_WHICH, "at": _STEP}),
    "Looked": _object({**_VERIFIED, "at": _STEP, "to": _STEP, "hindrance": _TEXT}),
    "BurrowClusters": _object({**_BURROW, "clusters": _list(_TEXT)}),
    "BurrowConsumers": _object({**_BURROW, "consumers": _list(_TEXT)}),
    "LogMove": _object({"to": _SIDE}),
    "LogPlaces": _object(
        {
            "partitions": _list(
                _object(_fields(PartitionPlace, log={"type": "string", "enum": [*map(str, Side), "moving"]}))
            ),
            "to": _either(_SIDE),
            "turn": _COUNT,
            "warning": _TEXT,
        }
    ),
    "BurrowPartition": _object(
        {
            **_AT,
            "owner": _TEXT,
            "client_id": _TEXT,
            "status": {"type": "string", "enum": ["OK", "WARN", "STOP"]},
            "start": _COMMIT,
            "end": _COMMIT,
            "current_lag": _COUNT,
            "complete": {"type": "number"},
        }
    ),
    "BurrowGroup": _object(
        {
            **_BURROW,
            "status": _object(
                {
                    "cluster": _TEXT,
                    "group": _TEXT,
                    "status": {"type": "string", "enum": ["OK", "WARN", "ERR"]},
                    "complete": {"type": "number"},
                    "partitions": _list(_ref("BurrowPartition")),
                    "partition_count": _COUNT,
                    "maxlag": _either(_ref("BurrowPartition")),
                    "totallag": _COUNT,
                }
            ),
        }
    ),
}
