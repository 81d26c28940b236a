"""Metrics pushed as datagrams, to a socket and to nobody."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from shim.config import HostPort, SettingError, load_configuration
from shim.demo.parts import Broker, free_port
from shim.metrics import Kind, Metric, Sample, Series
from shim.serve.statsd import QUEUED, StatsdPush
from tests.serve import scraped
from tests.serve.scraped import AdminPort
from tests.serve.test_connections import commit
from tests.shim_process import Shim
from tests.waiting import until
from tests.wire import WireClient

COMMITS = 12


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(30)
        yield listening


def settings_for(port: int, dialect: str = "dogstatsd") -> dict[str, str | int]:
    return {
        "metrics.statsd.address": f"127.0.0.1:{port}",
        "metrics.statsd.interval.ms": 100,
        "metrics.statsd.dialect": dialect,
        "offsets.topic.num.partitions": 1,
    }


@pytest.mark.parametrize(
    ("dialect", "commits", "requests"),
    [
        (
            "dogstatsd",
            "offset_shim.offsets_committed",
            "offset_shim.requests#api:OffsetCommit,version:8,treatment:served",
        ),
        ("statsd", "offset_shim.offsets_committed", "offset_shim.requests.OffsetCommit.8.served"),
    ],
)
def test_what_is_pushed_adds_up_to_the_counters(
    broker: Broker, tmp_path: Path, topic_t: str, group: str, receiver: socket.socket, dialect: str, commits: str,
    requests: str,
) -> None:  # fmt: skip
    admin = AdminPort(f"127.0.0.1:{free_port()}")
    settings = settings_for(receiver.getsockname()[1], dialect)
    totals, sizes = defaultdict[str, float](float), set[int]()
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings, args=["--admin", admin.address]) as shim:
        with WireClient(shim.broker_port(1)) as client:
            for offset in range(COMMITS):
                commit(client, group, offset)
        found = admin.scrape()
        while totals[commits] < COMMITS or totals[requests] < COMMITS:
            datagram = receiver.recv(65_536)
            sizes.add(len(datagram))
            for line in datagram.decode().split("\n"):
                name, _, rest = line.partition(":")
                value, kind, *tags = rest.split("|")
                if kind == "c":
                    totals[name + "".join(tags)] += float(value)
        sent = admin.scrape().value("statsd_datagrams_total")
    assert totals[commits] == found.value("offsets_committed_total") == COMMITS
    assert (
        totals[requests]
        == found.value("requests_total", api="OffsetCommit", version="8", treatment="served")
        == COMMITS
    )
    assert max(sizes) <= 1432
    assert sent >= len(sizes)


def test_nobody_listens(broker: Broker, tmp_path: Path, topic_t: str, group: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = taken.getsockname()[1]
    admin = AdminPort(f"127.0.0.1:{free_port()}")
    with Shim(
        broker.bootstrap_servers, tmp_path / "data", settings=settings_for(nobody), args=["--admin", admin.address]
    ) as shim:
        scraped.until(lambda: admin.scrape().value("statsd_datagrams_dropped_total") > 2)
        with WireClient(shim.broker_port(1)) as client:
            commit(client, group, 5)
        assert admin.scrape().value("offsets_committed_total") == 1
    assert shim.log().count(f"metrics are not received for now: 127.0.0.1:{nobody}: nobody listens") == 1
    assert "Traceback" not in shim.log()


def test_an_address_that_is_none() -> None:
    with pytest.raises(SettingError, match=r"^metrics\.statsd\.address: '9125' is not host:port"):
        load_configuration(None, ["metrics.statsd.address=9125"])


def _looks(samples: int) -> Callable[[], asyncio.Future[Sequence[Series]]]:
    metric = Metric("m", Kind.GAUGE, "", ("number",))

    async def look() -> Sequence[Series]:
        return [Series(metric, [Sample((f"{number}" * 300,), 1) for number in range(samples)])]

    return lambda: asyncio.ensure_future(look())


async def test_a_name_that_nobody_knows() -> None:
    push = StatsdPush(HostPort("nobody.invalid", 8125), 0.01, "statsd", _looks(3))
    pushing = asyncio.create_task(push.run())
    await until(lambda: push.dropped >= 2)
    pushing.cancel()
    await asyncio.gather(pushing, return_exceptions=True)
    assert push.sent == 0


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch, receiver: socket.socket) -> None:
    """While a name is looked up, say."""
    never = asyncio.Event()

    async def connect(_: object) -> None:
        await never.wait()

    monkeypatch.setattr("shim.serve.statsd.asyncio_dgram.connect", connect)
    push = StatsdPush(HostPort("127.0.0.1", receiver.getsockname()[1]), 0.01, "statsd", _looks(QUEUED))
    pushing = asyncio.create_task(push.run())
    await until(lambda: push.dropped >= QUEUED)
    pushing.cancel()
    await asyncio.gather(pushing, return_exceptions=True)
    assert push.sent == 0


@pytest.mark.parametrize("samples", [1, 5])
async def test_that_somebody_listens_again_is_a_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, samples: int
) -> None:
    """Not before the socket's own datagrams were heard of, or one that is sent in vain each time were two lines."""
    monkeypatch.setattr("shim.serve.statsd._HEARD_SECONDS", 0.1)
    caplog.set_level(logging.INFO, "shim.serve.statsd")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = taken.getsockname()[1]
    push = StatsdPush(HostPort("127.0.0.1", nobody), 0.05, "statsd", _looks(samples))
    pushing = asyncio.create_task(push.run())
    await until(lambda: push.dropped >= 10)
    failed = f"metrics are not received for now: 127.0.0.1:{nobody}: nobody listens"
    assert caplog.messages == [failed]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", nobody))
        await until(lambda: len(caplog.messages) > 1)
        assert caplog.messages == [failed, "this is over: metrics are not received"]
    pushing.cancel()
    await asyncio.gather(pushing, return_exceptions=True)
