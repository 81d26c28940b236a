"""/livez, /readyz and /metrics over HTTP, and what else is told while the shim starts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from shim.admin.live.port.serving import serve_admin
from shim.config import HostPort
from shim.metrics import Histogram, Kind, Metric, Sample, Series
from tests.admin.live.watching import OVERVIEW, Watching

LATENCY = Metric("latency_seconds", Kind.HISTOGRAM, "How long.", ("api",))
HITS = Metric("hits", Kind.COUNTER, "How often,\nby whom.", ("who",))
LEVEL = Metric("level", Kind.GAUGE, "How high.")


def some_series() -> list[Series]:
    histogram = Histogram((0.5, 1.0))
    histogram.observe(0.75, times=2)
    hits = [Sample(('a "b"\\\n',), 3), Sample(("half of \ud800",), 4)]
    return [Series(LATENCY, [Sample(("X",), histogram.read())]), Series(HITS, hits), Series(LEVEL, [])]


@pytest.fixture
def watching() -> Watching:
    return Watching(None, series=some_series())


@pytest.fixture
async def client(watching: Watching) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serve_admin(HostPort("127.0.0.1", 0), watching) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=aiohttp.ClientTimeout(20)) as session,
    ):
        yield session


async def test_it_lives(client: aiohttp.ClientSession) -> None:
    for method in ("GET", "HEAD"):
        async with client.request(method, "/livez") as response:
            assert response.status == 200


async def test_ready_or_what_is_missing(watching: Watching, client: aiohttp.ClientSession) -> None:
    watching.lacks = ["3 of 4 partitions are not loaded", "no broker\ncan be reached"]
    async with client.get("/readyz") as response:
        assert response.status == 503
        assert await response.json() == {
            "ready": False,
            "missing": ["3 of 4 partitions are not loaded", "no broker can be reached"],
        }
    watching.lacks = []
    async with client.get("/readyz") as response:
        assert response.status == 200
        assert await response.json() == {"ready": True, "missing": []}


async def test_the_overview_says_ready_where_that_path_does(watching: Watching, client: aiohttp.ClientSession) -> None:
    """Also of a shim that has a part of the partitions, or none."""
    watching.whole = OVERVIEW._replace(owned=0, loaded=0, others=["10.0.0.5:19092"])
    for watching.lacks in (["no broker can be reached"], []):
        async with client.get("/v1/overview") as response:
            told = await response.json()
        assert told["ready"] is (not watching.lacks)
        assert (told["owned"], told["loaded"], told["others"]) == (0, 0, ["10.0.0.5:19092"])


@pytest.mark.parametrize("path", ["/v1/groups", "/v1/groups/describe?group=g"])
async def test_while_it_starts_nothing_else_is_told(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as response:
        assert response.status == 503
        assert await response.json() == {"error": "the shim starts: 3 of 4 partitions are not loaded"}


async def test_while_it_starts_nothing_is_moved(client: aiohttp.ClientSession) -> None:
    async with client.post("/v1/migrate/start", json={"groups": ["g"]}) as response:
        assert response.status == 503


async def test_no_metrics_before_there_are_any(watching: Watching, client: aiohttp.ClientSession) -> None:
    watching.series = None
    async with client.get("/metrics") as response:
        assert response.status == 503


async def test_web_pages_are_turned_away(client: aiohttp.ClientSession) -> None:
    for headers in ({"Origin": "http://example.org"}, {"Host": "example.org"}):
        async with client.get("/metrics", headers=headers) as response:
            assert response.status in (403, 421)
            assert "hits" not in await response.text()


async def test_prometheus_text(client: aiohttp.ClientSession) -> None:
    async with client.get("/metrics") as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = {family.name: family for family in text_string_to_metric_families(await response.text())}
    latency = found["offset_shim_latency_seconds"]
    assert latency.type == "histogram"
    assert [(each.labels.get("le"), each.value) for each in latency.samples] == [
        ("0.5", 0), ("1.0", 2), ("+Inf", 2), (None, 2), (None, 1.5),
    ]  # fmt: skip
    hits = {each.labels["who"]: each.value for each in found["offset_shim_hits"].samples}
    assert hits == {'a "b"\\\n': 3, "half of \\ud800": 4}
    assert found["offset_shim_hits"].type == "counter"
    assert found["offset_shim_level"].samples == []


async def test_open_metrics_where_that_is_asked_for(client: aiohttp.ClientSession) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5"
    async with client.get("/metrics", headers={"Accept": accept}) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        text = await response.text()
    assert text.endswith("# EOF\n")
    found = {family.name: family for family in read_openmetrics(text)}  # type: ignore[no-untyped-call]
    assert found["offset_shim_hits"].samples[0].name == "offset_shim_hits_total"
