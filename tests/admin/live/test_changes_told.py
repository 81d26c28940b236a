"""That each change is in the log, however many there are."""

from __future__ import annotations

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
