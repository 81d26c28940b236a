"""The description of the admin interface beside the interface itself: each path, and each document that it answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp
import pytest

from shim.admin.console import page_files
from shim.admin.live.asked.groups import Details, Generation, Member, Presence
from shim.admin.live.described.openapi import DESCRIBED, document
from shim.admin.live.guard.access import Access
from shim.admin.live.paths.burrow import BurrowPaths
from shim.admin.live.paths.console import ConsolePaths
from shim.admin.live.paths.groups import GroupPaths
from shim.admin.live.paths.log import LogPaths
from shim.admin.live.paths.migration import MigrationPaths
from shim.admin.live.paths.vital_signs import VitalSigns
from shim.admin.live.port.routes import Route, routes
from shim.admin.live.sampled.sampling import Sampler
from shim.admin.live.shown.group_rows import details_row
from tests.admin.live.grouped import NOW_MS, Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.watching import Watching

GROUP: Final = {"groups": ["g"]}
ASKED: Final[Mapping[tuple[str, str], tuple[str, object]]] = {
    ("GET", "/v1/access"): ("", None),
    ("GET", "/livez"): ("", None),
    ("GET", "/readyz"): ("", None),
    ("GET", "/metrics"): ("", None),
    ("GET", "/v1/openapi.json"): ("", None),
    ("GET", "/v1/overview"): ("", None),
    ("GET", "/v1/clients"): ("", None),
    ("GET", "/v1/groups"): ("", None),
    ("GET", "/v1/groups/summary"): ("?limit=1", None),
    ("GET", "/v1/groups/describe"): ("?group=g", None),
    ("GET", "/v1/groups/lag"): ("", None),
    ("GET", "/v1/groups/lag/recent"): ("?group=g", None),
    ("GET", "/v1/groups/history"): ("?group=g", None),
    ("POST", "/v1/groups/reset/plan"): ("", {"group": "g", "to_earliest": True, "all_topics": True}),
    ("POST", "/v1/groups/reset"): (
        "",
        {"group": "g", "offsets": [{"topic": "t", "partition": 0, "offset": 1, "new_offset": 0}]},
    ),
    ("POST", "/v1/groups/delete"): ("", GROUP),
    ("GET", "/v1/migrate/candidates"): ("?move=start", None),
    ("POST", "/v1/migrate/plan"): ("", GROUP),
    ("POST", "/v1/migrate/status"): ("", GROUP),
    ("POST", "/v1/migrate/verify"): ("", {"groups": ["served"]}),
    ("POST", "/v1/migrate/look"): ("", {"groups": ["served"], "move": "advance"}),
    ("POST", "/v1/migrate/start"): ("", GROUP),
    ("POST", "/v1/migrate/advance"): ("", {"groups": ["served"]}),
    ("POST", "/v1/migrate/rollback"): ("", {"groups": ["served"]}),
    ("GET", "/v1/log/places"): ("?turn=0&seconds=1", None),
    ("POST", "/v1/log/move"): ("", {"to": "kafka"}),
    ("GET", "/v3/kafka"): ("", None),
    ("GET", "/v3/kafka/{cluster}/consumer"): ("", None),
    ("GET", "/v3/kafka/{cluster}/consumer/{group}/lag"): ("", None),
    ("GET", "/v3/kafka/{cluster}/consumer/{group}/status"): ("", None),
}


async def the_routes() -> list[Route]:
    """Those of the interface, without the console's files."""
    moved, stopping = Moved(), asyncio.Event()
    watching = Watching(moved, Grouped(moved))
    sampler = Sampler(watching)
    table = routes(
        MigrationPaths(watching, stopping),
        GroupPaths(watching, stopping),
        LogPaths(watching),
        ConsolePaths(sampler, watching, Access()),
        BurrowPaths(watching, sampler),
        VitalSigns(watching),
    )
    files = page_files()
    return [route for route in table if route.path not in files]


async def test_each_route_is_described_and_nothing_else_is() -> None:
    table = {(route.method, route.path): route for route in await the_routes()}
    assert DESCRIBED.keys() == table.keys() == ASKED.keys()
    for key, described in DESCRIBED.items():
        assert (described.changes, described.open) == (table[key].changes, table[key].open), key


def test_it_is_whole() -> None:
    found = document()
    text = json.dumps(found)
    names = set(found["components"]["schemas"])
    assert found["openapi"] == "3.1.0"
    refs = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert refs <= names
    assert names - refs <= {"NotDone"}
    ids = [operation["operationId"] for path in found["paths"].values() for operation in path.values()]
    assert len(set(ids)) == len(ids)


@pytest.fixture
async def client(moved: Moved, port: int) -> AsyncIterator[aiohttp.ClientSession]:
    moved.add("g", "unknown")
    moved.silent("unknown", "its broker has not answered in 3 s")
    moved.add("served", step="kafka+dual")
    timeout = aiohttp.ClientTimeout(20)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=timeout) as session:
        yield session


@pytest.mark.parametrize(("method", "path"), ASKED)
async def test_what_is_answered_is_as_described(client: aiohttp.ClientSession, method: str, path: str) -> None:
    query, body = ASKED[method, path]
    url = path.replace("{cluster}", "c-1").replace("{group}", "served") + query
    async with client.request(method, url, json=body) as response:
        text = await response.text()
        assert response.status == 200, text
        kind = response.content_type
    answer = document()["paths"][path][method.lower()]["responses"]["200"]["content"]
    assert list(answer) == [kind]
    schema = answer[kind]["schema"]
    if kind == "text/plain":
        return fits(text, schema, path)
    rows = [json.loads(line) for line in text.splitlines() if line]
    if kind == "application/x-ndjson":
        rows = [row for row in rows if "group" in row]
    assert len(rows) == 1
    return fits(rows[0], schema, path)


def test_members_and_a_rebalance_are_told_as_described() -> None:
    presence = Presence("m-1", "etl", "/10.0.0.4", False, None, 45_000, None)
    generation = Generation(7, "PreparingRebalance", -1, "why", "whom", [presence], ["m-2"], None)
    members = [Member("m-1", None, "etl", "/10.0.0.4", [("orders", 0)], 1, 2, 3), Member("m-2", "i", "", "", None)]
    row = details_row(Details("consumer", members, [], None, generation, NOW_MS))
    described = document()["components"]["schemas"]["Details"]
    for name in ("generation", "member_details", "now_ms"):
        fits(row[name], described["properties"][name], name)


KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def fits(value: Any, schema: Mapping[str, Any], where: str) -> None:
    """As much of JSON Schema as the description uses. An object has what is described, all of it, and nothing else."""
    if "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        schema = schema["oneOf"][1 if value is None else 0]
        return fits(value, schema, where)
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    allowed = tuple(kind for name in kinds for kind in KINDS[name])
    assert isinstance(value, allowed), f"{where}: {value!r} is not {kinds}"
    assert not isinstance(value, bool) or bool in allowed, where
    if "enum" in schema:
        assert value in schema["enum"], where
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= set(value) <= set(schema["properties"]), where
        for name, each in value.items():
            fits(each, schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list):
        parts = schema.get("prefixItems")
        for number, each in enumerate(value):
            fits(each, schema["items"] if parts is None else parts[number], f"{where}[{number}]")
    return None
