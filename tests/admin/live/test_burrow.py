"""Groups as Burrow tells of them."""

from __future__ import annotations

import time
from typing import Final

import aiohttp
import pytest
from yarl import URL

from shim.admin.live.asked.groups import Details, Member, OffsetAt
from shim.admin.live.port.serving import serve_admin
from shim.admin.live.sampled.as_burrow import GROWING_SAMPLES, STOPPED_SECONDS, group_row, is_growing, judged
from shim.config import HostPort
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.watching import Watching

NOW: Final = 1_700_000_000_000
LONG_AGO: Final = NOW - STOPPED_SECONDS * 1000 - 1
GROWING: Final = [(number, number) for number in range(GROWING_SAMPLES + 1)]


def at(partition: int, lag: int | None, committed_ms: int | None = NOW) -> OffsetAt:
    return OffsetAt("orders", partition, 5, None if lag is None else 5 + lag, committed_ms)


def details(*offsets: OffsetAt) -> Details:
    return Details("consumer", [Member("m", None, "etl", "/10.0.0.4", [("orders", 0)])], offsets, None, None, 0)


@pytest.mark.parametrize(
    ("offset", "growing", "status"),
    [
        (at(0, 0, LONG_AGO), True, "OK"),
        (at(0, None, LONG_AGO), True, "OK"),
        (at(0, 7), False, "OK"),
        (at(0, 7, None), False, "OK"),
        (at(0, 7), True, "WARN"),
        (at(0, 7, LONG_AGO + 1), False, "OK"),
        (at(0, 7, LONG_AGO), False, "STOP"),
        (at(0, 7, LONG_AGO), True, "STOP"),
    ],
)
def test_one_partition(offset: OffsetAt, growing: bool, status: str) -> None:
    (found,) = judged(details(offset), GROWING if growing else [], NOW)
    assert (found.status, found.owner, found.client_id) == (status, "10.0.0.4", "etl")


def test_a_lag_grows_that_never_falls() -> None:
    assert is_growing(GROWING)
    assert is_growing([(0, 99), *GROWING])
    assert not is_growing(GROWING[1:])
    assert not is_growing([*GROWING, (9, GROWING_SAMPLES)])
    assert not is_growing([*GROWING[:-2], (8, None), (9, 9)])


def test_one_group() -> None:
    partitions = judged(details(at(0, 2), at(1, 30, LONG_AGO), at(2, 0)), [], NOW)
    whole = group_row("c", "g", partitions, whole=True)
    assert (whole["status"], whole["totallag"], whole["partition_count"]) == ("ERR", 32, 3)
    assert [each["status"] for each in whole["partitions"]] == ["OK", "STOP", "OK"]
    assert (whole["maxlag"]["partition"], whole["maxlag"]["current_lag"], whole["maxlag"]["owner"]) == (1, 30, "")
    bad = group_row("c", "g", partitions, whole=False)
    assert [each["partition"] for each in bad["partitions"]] == [1]
    assert group_row("c", "g", judged(details(at(0, 2)), GROWING, NOW), whole=True)["status"] == "WARN"


def test_what_nobody_can_tell_is_not_told_as_0() -> None:
    row = group_row("c", "g", judged(details(at(0, 2), at(1, None)), [], NOW), whole=True)
    assert (row["complete"], row["totallag"], row["maxlag"]["partition"]) == (0.5, 2, 0)
    assert [each["complete"] for each in row["partitions"]] == [1.0, 0.0]
    unknown = group_row("c", "g", judged(details(at(0, None)), [], NOW), whole=True)
    assert (unknown["complete"], unknown["totallag"], unknown["maxlag"]) == (0.0, 0, None)


def test_a_group_without_offsets() -> None:
    row = group_row("c", "g", [], whole=True)
    assert (row["status"], row["maxlag"], row["totallag"], row["partitions"]) == ("OK", None, 0, [])


class Lagging(Grouped):
    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        self.moved.of(group)
        return details(at(0, 2, int(time.time() * 1000)), at(1, 30, LONG_AGO))


async def test_its_paths(moved: Moved) -> None:
    moved.add("a/b c", "g")
    async with (
        serve_admin(HostPort("127.0.0.1", 0), Watching(moved, Lagging(moved))) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}/v3/", timeout=aiohttp.ClientTimeout(20)) as client,
    ):
        async with client.get("kafka") as response:
            told = await response.json()
            assert (told["error"], told["clusters"]) == (False, ["c-1"])
        async with client.get("kafka/c-1/consumer") as response:
            told = await response.json()
            assert sorted(told["consumers"]) == ["a/b c", "g"]
            assert told["request"] == {"url": "/v3/kafka/c-1/consumer", "host": f"127.0.0.1:{port}"}
        async with client.get("kafka/c-1/consumer/g/lag") as response:
            told = await response.json()
            assert [each["partition"] for each in told["status"]["partitions"]] == [0, 1]
        async with client.get("kafka/c-1/consumer/g/status") as response:
            told = await response.json()
            assert [each["partition"] for each in told["status"]["partitions"]] == [1]
        for nowhere in ("kafka/c-2/consumer", "kafka/c-2/consumer/g/lag", "kafka/c-1/consumer/nobody/status"):
            async with client.get(nowhere) as response:
                told = await response.json()
                assert (response.status, told["error"]) == (404, True)
                assert "not found" in told["message"]


async def test_a_name_with_a_slash(moved: Moved) -> None:
    moved.add("a/b c")
    async with (
        serve_admin(HostPort("127.0.0.1", 0), Watching(moved, Lagging(moved))) as port,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as client,
    ):
        url = URL(f"http://127.0.0.1:{port}/v3/kafka/c-1/consumer/a%2Fb%20c/lag", encoded=True)
        async with client.get(url) as response:
            assert (await response.json())["status"]["group"] == "a/b c"
