"""That each change is in the log, however many there are."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
import pytest
from yarl import URL

from shim.admin.live.port.serving import serve_admin
from shim.config import HostPort
from shim.logs.repeats import event_of
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.watching import Watching


async def test_one_is_not_left_out_for_another(caplog: pytest.LogCaptureFixture) -> None:
    """`log.repeat.max.per.minute` counts events: each change is one of its own."""
    caplog.set_level("INFO")
    moved = Moved()
    moved.add("a")
    moved.add("b")
    async with (
        serve_admin(HostPort("127.0.0.1", 0), Watching(moved, Grouped(moved))) as port,
        aiohttp.ClientSession(URL(f"http://127.0.0.1:{port}")) as client,
    ):
        for group in ("a", "b"):
            async with client.post("/v1/groups/delete", json={"groups": [group]}) as response:
                assert response.status == 200
                await response.read()
    told = [each for each in caplog.records if "/v1/groups/delete" in each.getMessage()]
    events = {event_of(each.name, each.levelno, str(each.msg), each.getMessage()) for each in told}
    assert len(told) == len(events) == 2


async def told_of(
    path: str, body: Mapping[str, object], grouped: Grouped, caplog: pytest.LogCaptureFixture
) -> list[str]:
    """What the log has of it behind that it was asked for."""
    caplog.clear()
    async with (
        serve_admin(HostPort("127.0.0.1", 0), Watching(grouped.moved, grouped)) as port,
        aiohttp.ClientSession(URL(f"http://127.0.0.1:{port}")) as client,
        client.post(path, json=body) as response,
    ):
        await response.read()
    return [each.getMessage() for each in caplog.records if path in each.getMessage()][1:]


async def test_what_is_not_done_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    moved = Moved()
    moved.add("a", "b", "c")
    moved.refused["b"] = "group b: a member is elsewhere"
    grouped = Grouped(moved)
    grouped.uncertain.add("c")
    body = {"groups": ["a", "b", "nobody"]}
    assert sorted(await told_of("/v1/migrate/start", body, grouped, caplog)) == [
        "/v1/migrate/start: group b: refused: a member is elsewhere",
        "/v1/migrate/start: group nobody: not known: there is no group nobody",
    ]
    assert await told_of("/v1/migrate/plan", {"groups": ["b"]}, grouped, caplog) == [], "it changes nothing"
    assert await told_of("/v1/migrate/start", {"groups": []}, grouped, caplog) == [
        "/v1/migrate/start from 127.0.0.1, not done: groups is not a list of names"
    ]
    assert await told_of("/v1/groups/delete", {"groups": ["nobody"]}, grouped, caplog) == [
        "/v1/groups/delete: group nobody: not known: there is no group nobody"
    ]
    change = {"topic": "orders", "partition": 0, "offset": 3, "new_offset": 0}
    assert await told_of("/v1/groups/reset", {"group": "c", "offsets": [change]}, grouped, caplog) == [
        "/v1/groups/reset from 127.0.0.1, not done: it is in the log, and not in ZooKeeper"
    ]
