"""The admin interface over HTTP, with groups that are in memory."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from shim.admin.live.asked.groups import NotCertain
from shim.admin.live.asked.migration import STEPS, Difference, Refused, Source
from shim.admin.live.asked.shim import NotReady
from shim.admin.live.over_http import receiving, sending
from shim.admin.live.paths import groups, migration
from shim.admin.live.port import connections
from shim.admin.live.port.serving import CannotListen, serve_admin
from shim.admin.live.streamed import in_lines
from shim.config import HostPort
from tests.admin.live.moved import CHANGED_MS, SHOWN, Moved
from tests.admin.live.test_choosing import NAMES
from tests.admin.live.watching import Watching

TIME_LIMIT_SECONDS = 20


@pytest.fixture
async def client(port: int) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(TIME_LIMIT_SECONDS)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=timeout) as session:
        yield session


async def lines(client: aiohttp.ClientSession, step: str, **question: Any) -> list[dict[str, Any]]:
    async with client.post(f"/v1/migrate/{step}", json=question) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "application/x-ndjson"
        return [json.loads(line) for line in (await response.text()).splitlines() if line]


async def error(response: aiohttp.ClientResponse) -> str:
    """The one line, which is all that there is."""
    document = json.loads(await response.text())
    assert response.content_type == "application/json"
    assert list(document) == ["error"]
    reason: str = document["error"]
    assert reason
    assert "\n" not in reason
    return reason


# --- what is shown ---------------------------------------------------------------------------------------------------


async def test_all_groups_by_name(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("b", "a")
    moved.add("c", step="kafka")
    async with client.get("/v1/groups") as response:
        assert response.status == 200
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        groups = (await response.json())["groups"]
    assert [each["group"] for each in groups] == ["a", "b", "c"]
    assert groups[2] == {
        "group": "c",
        "offsets_storage": "kafka",
        "dual_commit_enabled": False,
        "state": "Stable",
        "state_since_ms": None,
        "type": "Classic",
        "members": 2,
        "silent_members": 0,
        "changed_ms": None,
        "cause": "it was there",
        "lag_seconds": None,
        "alarm": "",
    }


async def test_lag_and_alarm(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("g", step="kafka+dual")
    moved.tell("g", 0.25, "zookeeper cannot be reached:\n  timed out")
    async with client.get("/v1/groups/describe?group=g") as response:
        described = await response.json()
    _, row, _ = await lines(client, "status", groups=["g"])
    for shown in (described, row):
        assert (shown["offsets_storage"], shown["dual_commit_enabled"]) == ("kafka", True)
        assert (shown["lag_seconds"], shown["alarm"]) == (0.25, "zookeeper cannot be reached: timed out")


async def test_a_plan(moved: Moved, client: aiohttp.ClientSession) -> None:
    """Groups that the shim has not heard of are in it."""
    moved.add("old", step="zookeeper")
    moved.add("etl", "etl-unheard")
    moved.add("served", step="kafka")
    moved.add("begun", step="zookeeper+dual")
    moved.unheard.add("etl-unheard")
    moved.refused["etl"] = "members elsewhere"
    _, *rows, _ = await lines(client, "plan", all=True)
    assert rows[0] == {
        "group": "etl",
        "offsets_storage": "upstream",
        "state": "Stable",
        "members": 2,
        "members_here": 1,
        "offsets": 3,
        "hindrance": "members elsewhere",
    }
    assert [(row["group"], row["offsets_storage"]) for row in rows[1:]] == [
        ("etl-unheard", "upstream"),
        ("old", "zookeeper"),
    ]


@pytest.mark.parametrize(
    ("move", "steps", "expected"),
    [
        ("start", STEPS, ["a-unheard", "upstream", "zookeeper"]),
        ("advance", STEPS[:2], ["zookeeper+dual"]),
        ("rollback", (STEPS[0], STEPS[3], STEPS[5]), ["kafka"]),
    ],
)
async def test_candidates(
    moved: Moved, client: aiohttp.ClientSession, move: str, steps: Sequence[str], expected: list[str]
) -> None:
    """Those that the move is then made with, of all and of a pattern."""
    at_each(moved, steps)
    moved.add("a-unheard")
    moved.unheard.add("a-unheard")
    async with client.get("/v1/migrate/candidates", params={"move": move, "pattern": "[!u]*"}) as response:
        fitting = [name for name in expected if not name.startswith("u")]
        assert await response.json() == {"groups": fitting}
    async with client.get("/v1/migrate/candidates", params={"move": move}) as response:
        assert await response.json() == {"groups": expected}
    assert moved.begun == []
    assert (await lines(client, move, pattern="[!u]*"))[-1] == {"done": len(fitting)}
    assert sorted(moved.begun) == fitting


async def test_candidates_that_cannot_be_told(
    moved: Moved, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused() -> list[str]:
        raise Refused("ZooKeeper cannot be reached")

    monkeypatch.setattr(moved, "candidates", refused)
    async with client.get("/v1/migrate/candidates?move=start") as response:
        assert (response.status, await error(response)) == (409, "ZooKeeper cannot be reached")
    async with client.post("/v1/migrate/start", json={"all": True}) as response:
        assert (response.status, await error(response)) == (409, "ZooKeeper cannot be reached")


@pytest.mark.parametrize(
    ("move", "steps"),
    [
        ("advance", {"kafka+dual", "upstream+dual", "zookeeper+dual"}),
        ("rollback", {"kafka", "kafka+dual", "upstream+dual", "zookeeper+dual"}),
    ],
)
async def test_groups_at_different_steps_are_moved_at_one_of_them(
    moved: Moved, client: aiohttp.ClientSession, move: str, steps: set[str]
) -> None:
    at_each_step(moved)
    expected = "these groups are at different steps, say at which: "
    async with client.get("/v1/migrate/candidates", params={"move": move}) as response:
        told = await error(response)
        assert (response.status, told[: len(expected)]) == (400, expected)
        assert set(told[len(expected) :].split(", ")) == {f"1 at {step}" for step in steps}
    async with client.post(f"/v1/migrate/{move}", json={"all": True}) as response:
        assert (response.status, await error(response)) == (400, told)
    assert moved.begun == []
    for step in steps:
        async with client.get("/v1/migrate/candidates", params={"move": move, "at": step}) as response:
            assert await response.json() == {"groups": [step]}
    assert (await lines(client, move, all=True, at="kafka+dual"))[-1] == {"done": 1}
    assert moved.begun == ["kafka+dual"]


@pytest.mark.parametrize("what", ["verify", "advance", "rollback"])
async def test_for_groups_that_are_served_the_cluster_is_not_asked(
    moved: Moved, client: aiohttp.ClientSession, what: str
) -> None:
    """It has those alone that are passed through, which none of these is about, and a broker that hangs takes 3 s."""
    moved.add("served", step="kafka+dual")
    moved.add("passed")
    assert (await lines(client, what, all=True))[-1] == {"done": 1}
    assert moved.looks == []


def at_each_step(moved: Moved) -> None:
    at_each(moved, STEPS)


def at_each(moved: Moved, steps: Sequence[str]) -> None:
    for step in steps:
        moved.add(step, step=step)


async def test_verify(moved: Moved, client: aiohttp.ClientSession) -> None:
    at_each_step(moved)
    moved.differing["kafka+dual"] = [
        Difference("orders", 3, 5, 7, "zookeeper"),
        Difference("orders", 4, None, 2**63 - 1, "zookeeper"),
        Difference("bills", 0, 0, None, "upstream"),
    ]
    moved.refused["upstream+dual"] = "the cluster cannot be reached"
    _, *rows, end = await lines(client, "verify", all=True)
    told = {row.pop("group"): row for row in rows}
    assert end == {"done": 5}
    assert told.pop("kafka+dual") == {
        "offsets": 3,
        "differing": 3,
        "differences": [
            {"topic": "orders", "partition": 3, "log": 5, "elsewhere": 7, "where": "zookeeper"},
            {"topic": "orders", "partition": 4, "log": None, "elsewhere": 2**63 - 1, "where": "zookeeper"},
            {"topic": "bills", "partition": 0, "log": 0, "elsewhere": None, "where": "upstream"},
        ],
    }
    assert told.pop("upstream+dual") == {"error": "the cluster cannot be reached", "kind": "refused"}
    same = {"offsets": 3, "differing": 0, "differences": []}
    assert told == {"zookeeper": same, "zookeeper+dual": same, "kafka": same}
    _, row, _ = await lines(client, "verify", groups=["upstream"])
    assert row["kind"] == "refused"


async def test_very_many_differences(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("g", step="kafka+dual")
    moved.differing["g"] = [Difference("t" * 249, at, 2**63 - 1, None, "zookeeper") for at in range(1_001)]
    _, row, _ = await lines(client, "verify", groups=["g"])
    assert (row["differing"], [each["partition"] for each in row["differences"]]) == (1_001, list(range(1_000)))


@pytest.mark.parametrize("count", [0, 1, 500, 501, 5_000])
async def test_a_list_in_pieces(moved: Moved, client: aiohttp.ClientSession, count: int) -> None:
    moved.add(*(f"g{n:05}" for n in range(count)))
    async with client.get("/v1/groups") as response:
        assert [each["group"] for each in (await response.json())["groups"]] == list(moved.groups)


async def test_groups_by_pattern_and_by_name(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("etl-1", "etl-2", "web")
    async with client.get("/v1/groups", params={"pattern": "etl-*"}) as response:
        assert [each["group"] for each in (await response.json())["groups"]] == ["etl-1", "etl-2"]
    async with client.get("/v1/groups?group=web&group=etl-2") as response:
        assert [each["group"] for each in (await response.json())["groups"]] == ["web", "etl-2"]
    async with client.get("/v1/groups?group=web&group=nobody") as response:
        assert response.status == 404
        assert await error(response) == "there is no group nobody"


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_there_and_back(moved: Moved, port: int, name: str) -> None:
    moved.add(name)
    described = await raw(port, f"GET /v1/groups/describe?group={quote(name, safe='')} HTTP/1.1\r\nHost: [::1]\r\n\r\n")
    status, document = read(described)
    assert (status, document["group"]) == (200, name)
    assert [(at["topic"], at["partition"], at["offset"]) for at in document["offsets"]] == [
        ("bills", 0, 0),
        ("orders", 2, 2**63 - 1),
        ("orders", 10, 7),
    ]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        _, row, end = await lines(client, "start", groups=[name])
    assert (row["group"], row["offsets_storage"], end) == (name, "kafka", {"done": 1})


# --- what is done ----------------------------------------------------------------------------------------------------


async def test_where_the_right_offsets_are_is_said_at_the_start_alone(
    moved: Moved, client: aiohttp.ClientSession
) -> None:
    moved.add("g")
    assert (await lines(client, "start", groups=["g"], **{"from": "zookeeper"}))[-1] == {"done": 1}
    assert moved.sources == [Source.ZOOKEEPER]
    async with client.post("/v1/migrate/advance", json={"groups": ["g"], "from": "zookeeper"}) as answered:
        assert (answered.status, (await answered.json())["error"]) == (400, "from is for start alone")


async def test_start_and_rollback(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("g")
    first, row, end = await lines(client, "start", groups=["g"], cause="change 4711")
    assert (first, end) == ({"groups": 1}, {"done": 1})
    assert (row["offsets_storage"], row["changed_ms"], row["cause"]) == ("kafka", CHANGED_MS, "change 4711")
    _, row, _ = await lines(client, "rollback", groups=["g"])
    assert (row["offsets_storage"], row["cause"]) == (
        "upstream",
        "/v1/migrate/rollback, asked for at the admin interface",
    )


async def test_every_step_there_and_back(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("g", step="zookeeper")
    moves = ["start", *["advance"] * 3, *["rollback"] * 4, "start", *["advance"] * 4]
    rows = [(await lines(client, move, groups=["g"], cause=f"so: {move}"))[1] for move in moves]
    shown = [(row["offsets_storage"], row["dual_commit_enabled"]) for row in rows]
    assert shown == [*SHOWN[1:5], *reversed(SHOWN[:4]), *SHOWN[1:]]
    assert [row["cause"] for row in rows] == [f"so: {move}" for move in moves]
    _, row, _ = await lines(client, "advance", groups=["g"])
    assert (row["kind"], row["error"]) == ("refused", "it is at the last step")


async def test_one_that_cannot_be_moved_stops_no_other(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("a", "b", "bug")
    moved.refused["a"] = "members elsewhere:\n  1 of 2"
    moved.broken.add("bug")
    _, *rows, end = await lines(client, "start", groups=["a", "nobody", "bug", "b"])
    assert end == {"done": 4}
    told = {row["group"]: (row.get("kind"), row.get("error")) for row in rows}
    assert told == {
        "a": ("refused", "members elsewhere: 1 of 2"),
        "nobody": ("not known", "there is no group nobody"),
        "bug": ("failed", "failed, the shim's log says why"),
        "b": (None, None),
    }


@pytest.mark.parametrize("error", [NotReady("worker 1 is not there;\n it may have done it"), NotCertain("not certain")])
async def test_what_is_not_known_of_one_is_said_in_the_words_that_it_came_with(
    moved: Moved, client: aiohttp.ClientSession, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    moved.add("a", "b")
    moved.uncertain["a"] = error
    _, *rows, end = await lines(client, "start", groups=["a", "b"])
    assert end == {"done": 2}
    told = {row["group"]: (row.get("kind"), row.get("error")) for row in rows}
    assert told == {"a": ("failed", " ".join(str(error).split())), "b": (None, None)}
    assert "Traceback" not in caplog.text


async def test_a_pattern_means_those_that_can_be_moved_so(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("etl-1", "etl-2", "web")
    moved.add("etl-3", step="kafka")
    assert (await lines(client, "start", pattern="etl-*"))[-1] == {"done": 2}
    assert moved.begun == ["etl-1", "etl-2"]
    assert (await lines(client, "rollback", all=True))[-1] == {"done": 3}
    assert moved.begun[2:] == ["etl-1", "etl-2", "etl-3"]
    assert await lines(client, "rollback", all=True) == [{"groups": 0}, {"done": 0}]


async def test_many_groups(moved: Moved, client: aiohttp.ClientSession) -> None:
    names = [f"g{n:04}" for n in range(3_000)]
    moved.add(*names)
    _, *rows, end = await lines(client, "start", all=True)
    assert sorted(row["group"] for row in rows) == names
    assert end == {"done": 3_000}
    assert 1 < moved.most_at_once <= 8


@pytest.mark.parametrize("step", ["plan", "status"])
async def test_looks_are_in_parts(moved: Moved, client: aiohttp.ClientSession, step: str) -> None:
    names = [f"g{n:04}" for n in range(250)]
    moved.add(*names)
    _, *rows, end = await lines(client, step, groups=names)
    assert ([row["group"] for row in rows], end) == (names, {"done": 250})
    assert moved.looks == [100, 100, 50]


async def test_one_unknown_name_among_many(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("a", "b")
    moved.refused["b"] = "members elsewhere"
    _, *rows, _ = await lines(client, "plan", groups=["a", "nobody", "b"])
    assert [row.get("hindrance", row.get("kind")) for row in rows] == ["", "not known", "members elsewhere"]


async def test_each_line_when_its_group_is_done(moved: Moved, client: aiohttp.ClientSession) -> None:
    moved.add("quick", "slow")
    moved.held["slow"] = asyncio.Event()
    async with client.post("/v1/migrate/start", json={"groups": ["slow", "quick"]}) as response:
        assert json.loads(await response.content.readline()) == {"groups": 2}
        assert json.loads(await response.content.readline())["group"] == "quick"
        moved.held["slow"].set()
        assert json.loads(await response.content.readline())["group"] == "slow"


async def test_empty_lines_while_nothing_is_done(
    moved: Moved, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_lines, "BEAT_SECONDS", 0.01)
    moved.add("slow")
    moved.held["slow"] = asyncio.Event()
    async with client.post("/v1/migrate/start", json={"groups": ["slow"]}) as response:
        await response.content.readline()
        assert [await response.content.readline() for _ in range(3)] == [b"\n"] * 3
        moved.held["slow"].set()
        assert (await response.text()).strip().endswith('{"done":1}')


# --- who goes away, and who stops ------------------------------------------------------------------------------------


async def test_a_client_that_goes_away(moved: Moved, client: aiohttp.ClientSession) -> None:
    """What is under way is brought to its end, and nothing more begun."""
    names = [f"g{n:02}" for n in range(20)]
    moved.add(*names)
    moved.held = {name: asyncio.Event() for name in names}
    async with client.post("/v1/migrate/start", json={"groups": names}) as response:
        await response.content.readline()
        await moved.until(lambda: bool(moved.begun))
    response.close()
    await moved.until(lambda: moved.at_once == 8)
    async with client.get("/v1/groups") as after:  # by then the end of the other connection has come in
        assert after.status == 200
    for held in moved.held.values():
        held.set()
    await moved.until(lambda: not moved.at_once)
    async with client.get("/v1/groups") as after:  # in that time more could have begun
        assert after.status == 200
    assert moved.begun == names[:8]
    assert moved.cancelled == []
    assert {moved.groups[name].storage for name in names[:8]} == {"kafka"}


async def test_a_shim_that_stops(moved: Moved) -> None:
    names = [f"g{n:02}" for n in range(20)]
    moved.add(*names)
    moved.held = {name: asyncio.Event() for name in names}
    async with asyncio.timeout(TIME_LIMIT_SECONDS), aiohttp.ClientSession() as client:
        async with serve_admin(HostPort("127.0.0.1", 0), Watching(moved)) as port:
            url = f"http://127.0.0.1:{port}/v1/migrate/start"
            asking = asyncio.create_task(client.post(url, json={"groups": names}))
            await moved.until(lambda: bool(moved.begun))
            response = await asking
            asyncio.get_running_loop().call_soon(moved.held["g00"].set)
        # What has not ended within two seconds is given up; nothing else was begun for the one that has.
        assert moved.begun == names[:8]
        assert sorted(moved.cancelled) == names[1:8]
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.text()
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(f"http://127.0.0.1:{port}/v1/groups")


async def test_who_takes_nothing_is_cut_off(moved: Moved, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "TAKEN_SECONDS", 0.2)
    moved.add(*(f"{n:05}" + "x" * 5_000 for n in range(4_000)))
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(TIME_LIMIT_SECONDS):
            # Nobody else is let in until then.
            while not await raw(port, "GET /v1 HTTP/1.1\r\nHost: localhost\r\n\r\n"):
                pass


async def test_a_look_that_takes_too_long(
    moved: Moved, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: object) -> list[Any]:
        return [await asyncio.get_running_loop().create_future()]

    for paths in (groups, migration):
        monkeypatch.setattr(paths, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(moved, "status", never)
    monkeypatch.setattr(moved, "plan", never)
    async with client.get("/v1/groups") as response:
        assert (response.status, await error(response)) == (504, "no answer in time")
    _, row, _ = await lines(client, "plan", groups=["g"])
    assert row == {"group": "g", "error": "no answer in time", "kind": "failed"}


# --- what nobody should send -----------------------------------------------------------------------------------------


async def raw(port: int, request: str | bytes) -> bytes:
    """All that comes back until the shim closes the connection."""
    async with asyncio.timeout(TIME_LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request.encode() if isinstance(request, str) else request)
            return await reader.read()
        finally:
            writer.close()


def read(answer: bytes) -> tuple[int, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" in head:
        chunks, left = b"", body
        while left:
            size, _, left = left.partition(b"\r\n")
            chunks += left[: int(size, 16)]
            left = left[int(size, 16) + 2 :]
        body = chunks
    return int(head.split(b" ")[1]), json.loads(body)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/console/../v1/nothing", 404),
        ("GET", "/console/", 404),
        ("POST", "/", 405),
        ("GET", "/v1", 404),
        ("GET", "/v2/groups", 404),
        ("GET", "/v1/groups/", 404),
        ("GET", "/v1/migrate/advance", 405),
        ("GET", "/v1/migrate/verify", 405),
        ("GET", "/v1/migrate/forward", 404),
        ("POST", "/v1/migrate/candidates", 405),
        ("GET", "/v1/migrate/candidates", 400),
        ("GET", "/v1/migrate/candidates?move=verify", 400),
        ("POST", "/v1/groups", 405),
        ("GET", "/v1/migrate/start", 405),
        ("HEAD", "/v1/groups", 405),
        ("DELETE", "/v1/groups?group=g", 405),
        ("GET", "/v1/groups?nonsense=1", 400),
        ("GET", "/v1/groups/describe", 400),
        ("GET", "/v1/groups/describe?group=a&group=b", 400),
        ("GET", "/v1/groups/describe?group=nobody", 404),
    ],
)
async def test_paths_that_are_not_there(client: aiohttp.ClientSession, method: str, path: str, status: int) -> None:
    async with client.request(method, path, json={"all": True} if method == "POST" else None) as response:
        assert response.status == status
        if method != "HEAD":
            await error(response)


async def test_a_bug(moved: Moved, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture) -> None:
    moved.add("g")
    moved.broken.add("g")
    async with client.get("/v1/groups/describe?group=g") as response:
        assert (response.status, await error(response)) == (500, "failed, the shim's log says why")
    assert "RuntimeError: a bug" in caplog.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example", "Content-Type": "application/json"}, 403),
        ({"Host": "evil.example", "Content-Type": "application/json"}, 421),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_what_a_browser_could_be_made_to_send(
    moved: Moved, client: aiohttp.ClientSession, headers: dict[str, str], status: int
) -> None:
    moved.add("g")
    async with client.post("/v1/migrate/start", data=b'{"all": true}', headers=headers) as response:
        assert response.status == status
        await error(response)
    assert moved.begun == []


@pytest.mark.parametrize("body", [b"", b"{", b"null", b'{"all": "yes"}', b'{"groups": [{}]}', b"\xff"])
async def test_bodies_that_mean_nothing(moved: Moved, client: aiohttp.ClientSession, body: bytes) -> None:
    moved.add("g")
    headers = {"Content-Type": "application/json"}
    async with client.post("/v1/migrate/start", data=body, headers=headers) as response:
        assert response.status == 400
        await error(response)
    assert moved.begun == []


async def test_a_small_body_that_would_be_a_large_one(moved: Moved, port: int) -> None:
    moved.add("g")
    body = gzip.compress(b'{"all": true' + b" " * 100_000_000 + b"}")
    head = f"Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = await raw(port, b"POST /v1/migrate/start HTTP/1.1\r\nHost: localhost\r\n" + head.encode() + body)
    assert read(answer) == (400, {"error": "the body is not JSON"})
    assert moved.begun == []


async def test_a_body_that_is_too_large(moved: Moved, client: aiohttp.ClientSession) -> None:
    body = io.BytesIO(json.dumps({"groups": ["g" * 30_000] * 40}).encode())
    async with client.post("/v1/migrate/start", data=body, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 413
        assert await error(response) == "Request Entity Too Large"
    assert moved.begun == []


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # a TLS hello
        b"\x00\x00\x00\x14\x00\x12\x00\x00\x00\x00\x00\x01\x00\x04test\r\n\r\n",  # a Kafka client
        b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/groups HTTP/1.1\r\n" + b"X: y\r\n" * 1_000 + b"\r\n",
        b"POST /v1/migrate/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/migrate/start HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_http(port: int, request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    status, document = read(await raw(port, request_))
    assert status == 400
    assert list(document) == ["error"]
    assert "\n" not in document["error"]
    assert caplog.records == []  # nobody can fill the log so


async def test_who_takes_long_to_ask(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    head = (
        b"POST /v1/migrate/start HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
    )
    assert connections._LIMITS["keepalive_timeout"] == receiving.REQUEST_SECONDS == 10
    with monkeypatch.context() as patched:
        patched.setitem(connections._LIMITS, "keepalive_timeout", 0.1)
        assert await raw(port, b"") == b""
        # Where the time is over before the shim has read them, closing resets the connection.
        with suppress(ConnectionResetError):
            assert await raw(port, head) == b""
    monkeypatch.setattr(receiving, "REQUEST_SECONDS", 0.1)
    assert read(await raw(port, head + b'\r\n{"al')) == (504, {"error": "no answer in time"})


async def test_a_client_that_goes_away_while_it_asks(port: int, caplog: pytest.LogCaptureFixture) -> None:
    head = (
        b"POST /v1/migrate/start HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
    )
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head + b'\r\n{"al')
    writer.close()
    await writer.wait_closed()
    assert read(await raw(port, "GET /v1/groups HTTP/1.1\r\nHost: localhost\r\n\r\n")) == (200, {"groups": []})
    assert caplog.records == []


async def test_one_request_a_connection(port: int) -> None:
    request = "GET /v1/groups HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert (await raw(port, request * 5)).count(b"HTTP/1.1 200 OK") == 1


START = b"POST /v1/migrate/start HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


async def test_connections_are_few(moved: Moved, port: int) -> None:
    """Those that are worked at: one more is closed, and there is room again once they are done."""
    most = connections.MOST_CONNECTIONS
    names = [f"g{number}" for number in range(most)]
    moved.add(*names)
    go_on = asyncio.Event()
    moved.held = dict.fromkeys(names, go_on)
    async with asyncio.timeout(TIME_LIMIT_SECONDS):
        held = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in names))
        for name, (_, writer) in zip(names, held, strict=True):
            body = json.dumps({"groups": [name]}).encode()
            writer.write(START + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await moved.until(lambda: moved.at_once == most)
        more = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(10)))
        assert await asyncio.gather(*(reader.read() for reader, _ in more)) == [b""] * 10
        go_on.set()
        for reader, writer in held:
            assert b'{"done":1}' in (await reader.read()).replace(b" ", b"")
            writer.close()
        for _, writer in more:
            writer.close()
    assert read(await raw(port, LIST))[0] == 200


LIST = "GET /v1/groups HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /v1/groups HTTP/1.1\r\nHo",
        START + b"Content-Length: 9\r\n\r\n{",
        START + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "half a body", "half a body in chunks", "half a body that nobody reads"],
)
async def test_who_keeps_the_shim_waiting_keeps_nobody_out(
    moved: Moved, port: int, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest of them makes room."""
    moved.add("at-work")
    moved.held["at-work"] = asyncio.Event()
    async with asyncio.timeout(TIME_LIMIT_SECONDS):
        at_work, working = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"groups": ["at-work"]}'
        working.write(START + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await moved.until(lambda: moved.at_once == 1)
        silent = []
        for _ in range(2 * connections.MOST_CONNECTIONS):
            silent.append(await asyncio.open_connection("127.0.0.1", port))
            silent[-1][1].write(said)
        for _ in range(3):
            assert read(await raw(port, LIST))[0] == 200
        with suppress(ConnectionResetError):
            await silent[0][0].read()
        moved.held["at-work"].set()
        assert b'"done"' in await at_work.read(), "what is worked at stays"
    for _, writer in (*silent, (at_work, working)):
        writer.close()
    assert [each for each in caplog.records if each.levelname in ("ERROR", "CRITICAL")] == []


# --- the port --------------------------------------------------------------------------------------------------------


async def test_a_port_that_is_taken(port: int) -> None:
    with pytest.raises(CannotListen, match=rf"^cannot listen on 127.0.0.1:{port} \(--admin\): Address already in use$"):
        async with serve_admin(HostPort("127.0.0.1", port), Watching(Moved())):
            raise AssertionError("two at one port")
