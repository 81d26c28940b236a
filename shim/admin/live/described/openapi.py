"""The paths of the admin interface, described as OpenAPI 3.1 has it (https://spec.openapis.org/oas/v3.1.0).

A table beside :mod:`shim.admin.live.port.routes`, written by hand; a test holds each against the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from shim.admin.live.described.schemas import PARAMETERS, SCHEMAS
from shim.admin.live.shown.documents import JSON, LINES

TEXT: Final = "text/plain"

Schema = Mapping[str, Any]


class Described(NamedTuple):
    """``query``: names of :data:`PARAMETERS`, those with "!" have to be given. ``body`` and ``answer``: names of
    :data:`SCHEMAS`. ``lines``: the answer is one of these a line; ``text``: it is text, and no JSON."""

    summary: str
    answer: str
    query: Sequence[str] = ()
    body: str = ""
    lines: bool = False
    changes: bool = False
    open: bool = False
    text: bool = False


_CHOICE: Final = ("group", "pattern")

DESCRIBED: Final[Mapping[tuple[str, str], Described]] = {
    ("GET", "/livez"): Described("Whether the shim lives", "Alive", open=True),
    ("GET", "/readyz"): Described("Whether it can serve all groups, and what it lacks", "Ready", open=True),
    ("GET", "/metrics"): Described("Metrics, as Prometheus reads them", "Text", text=True),
    ("GET", "/v1/access"): Described("What the token is needed for", "Access", open=True),
    ("GET", "/v1/openapi.json"): Described("This description", "Any", open=True),
    ("GET", "/v1/overview"): Described("The shim and the cluster behind it", "Overview"),
    ("GET", "/v1/clients"): Described("Which clients have come, and how old they are", "Clients"),
    ("GET", "/v1/groups"): Described("Groups and their steps", "Statuses", _CHOICE),
    ("GET", "/v1/groups/summary"): Described(
        "A page of all groups, with lag over time",
        "Summary",
        ("search", "step", "state", "sort", "order", "offset", "limit"),
    ),
    ("GET", "/v1/groups/describe"): Described("One group in detail", "Details", ("group!",)),
    ("GET", "/v1/groups/lag"): Described("How far groups are behind", "Lags", _CHOICE),
    ("GET", "/v1/groups/lag/recent"): Described("The lag of one group over time", "RecentLag", ("group!",)),
    ("GET", "/v1/groups/history"): Described(
        "Who moved which offset of a group when",
        "History",
        ("group!", "topic", "partition", "since_ms", "last", "all"),
    ),
    ("POST", "/v1/groups/reset/plan"): Described(
        "What a reset would do", "ResetPlan", ("dry_run",), body="ResetWanted"
    ),
    ("POST", "/v1/groups/reset"): Described("Set offsets: all or none", "ResetDone", body="Reset", changes=True),
    ("POST", "/v1/groups/delete"): Described("Delete groups", "Deleted", body="Deletion", lines=True, changes=True),
    ("GET", "/v1/migrate/candidates"): Described(
        "The groups that a move would be made with", "Names", ("move!", "pattern", "at")
    ),
    ("POST", "/v1/migrate/plan"): Described("What a start would find", "Planned", body="Which", lines=True),
    ("POST", "/v1/migrate/status"): Described("At which step groups are", "Status", body="Which", lines=True),
    ("POST", "/v1/migrate/verify"): Described("Compare offsets", "Verified", body="Which", lines=True),
    ("POST", "/v1/migrate/look"): Described(
        "What an advance or a rollback would do", "Looked", body="Look", lines=True
    ),
    ("POST", "/v1/migrate/start"): Described("The first step", "Status", body="Start", lines=True, changes=True),
    ("POST", "/v1/migrate/advance"): Described("A step on", "Status", body="Move", lines=True, changes=True),
    ("POST", "/v1/migrate/rollback"): Described("A step back", "Status", body="Move", lines=True, changes=True),
    ("GET", "/v1/log/places"): Described("Where partitions of the log are", "LogPlaces", ("turn", "seconds")),
    ("POST", "/v1/log/move"): Described(
        "Begin to move all partitions of the log", "LogPlaces", body="LogMove", changes=True
    ),
    ("GET", "/v3/kafka"): Described("Clusters, as Burrow tells", "BurrowClusters"),
    ("GET", "/v3/kafka/{cluster}/consumer"): Described("Groups, as Burrow tells", "BurrowConsumers"),
    ("GET", "/v3/kafka/{cluster}/consumer/{group}/lag"): Described(
        "All partitions of a group, as Burrow tells", "BurrowGroup"
    ),
    ("GET", "/v3/kafka/{cluster}/consumer/{group}/status"): Described(
        "Partitions of a group that are not OK, as Burrow tells", "BurrowGroup"
    ),
}
"""By method and path; the console's own files are not part of the interface."""


@cache
def document() -> Schema:
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), described in DESCRIBED.items():
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, described)
    return {
        "openapi": "3.1.0",
        "info": {"title": "offset-shim, admin interface", "version": version("kafka-offset-shim")},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "admin.token.file"}},
        },
    }


def _operation(method: str, path: str, described: Described) -> Schema:
    operation: dict[str, Any] = {
        "summary": described.summary,
        "operationId": "_".join([method.lower(), *filter(str.isidentifier, path.replace(".", "/").split("/"))]),
        # Without a token file nobody is asked; with one, what only looks needs it where admin.token.for is all.
        "security": [] if described.open else [{"token": []}] if described.changes else [{}, {"token": []}],
        "responses": {"200": _answer(described), "default": _content("An error, in a line", JSON, "Error")},
    }
    parameters = [_in_path(name) for name in ("cluster", "group") if f"{{{name}}}" in path]
    parameters += [_in_query(name) for name in described.query]
    if parameters:
        operation["parameters"] = parameters
    if described.body:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(described.body)}}}
    return operation


def _answer(described: Described) -> Schema:
    if described.text:
        return _content("Done", TEXT, described.answer)
    if not described.lines:
        return _content("Done", JSON, described.answer)
    text = 'First {"groups": count}, then one of these for each group, or NotDone; at last {"done": count}'
    return _content(text, LINES, described.answer)


def _content(text: str, content_type: str, schema: str) -> Schema:
    return {"description": text, "content": {content_type: {"schema": _ref(schema)}}}


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _in_query(name: str) -> Schema:
    plain = name.removesuffix("!")
    return {"name": plain, "in": "query", "required": plain != name, **PARAMETERS[plain]}


def _ref(schema: str) -> Schema:
    return {"$ref": f"#/components/schemas/{schema}"}
