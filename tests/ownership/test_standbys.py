"""Three shims in front of three brokers, with one log on topics: whoever takes a partition over has followed it, and
reads only what is behind that; and whoever had it and comes back is refused."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from shim.demo.parts import Cluster, free_port_range
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.ownership.registers import PARTITIONS_OF_A_COMMIT, PATIENCE_S
from tests.ownership.test_shims_together import PARTITIONS, assert_it_is_in_the_log, at_work, shims_of, started
from tests.shim_process import Shim
from tests.waiting import until_told

_TAKEN_OVER: Final = re.compile(
    r"offsets-(\d+): taken over, ([\d,]+) records? read (?:behind ([\d,]+)|from the beginning)"
)
_SAMPLE: Final = re.compile(r"^(offset_shim_\w+)\{\w+=\"(\w+)\"\} (\d+)", re.MULTILINE)
_FOLLOWED_COMMITS: Final = 25
"""Of each group, and so of each partition, since standbys were seen to be at the end. However busy the machine is, one
that goes on following has most of it before the last ones are acknowledged."""
_SESSION_S: Final = 8.0
"""Longer than a shim may be silent."""


def with_admin(shim: Shim) -> str:
    """Where it tells its metrics."""
    admin = f"127.0.0.1:{free_port_range(1)}"
    shim.args += ("--admin", admin)
    return f"http://{admin}/metrics"


def counts(metrics: str) -> Counter[tuple[str, str]]:
    """Of one shim, by name and label."""
    with urlopen(metrics) as answer:
        found = _SAMPLE.findall(answer.read().decode())
    return Counter({(name.removeprefix("offset_shim_"), label): int(value) for name, label, value in found})


async def all_are_followed(urls: Collection[str]) -> None:
    async def ask() -> bool:
        told = sum([await asyncio.to_thread(counts, url) for url in urls], Counter())
        return (told["standby_partitions", "current"], told["standby_partitions", "behind"]) == (PARTITIONS, 0)

    await until_told(ask, PATIENCE_S, again_seconds=0.2)


def taken_over(log: str) -> list[tuple[int, int, int]]:
    """Partition, how many records were read then, and how many had been before."""
    return [
        (int(number), int(read.replace(",", "")), int((before or "0").replace(",", "")))
        for number, read, before in _TAKEN_OVER.findall(log)
    ]


async def test_a_standby_takes_over_with_the_tail_alone(
    cluster: Cluster, make_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = make_topic(len(PARTITIONS_OF_A_COMMIT))
    shims = shims_of(cluster, topic, tmp_path)
    admins = {shim.port: with_admin(shim) for shim in shims}
    async with at_work(shims, topic, tmp_path) as its:
        await its.commits(10)
        await all_are_followed(admins.values())
        assert not any(followed for shim in shims for _, _, followed in taken_over(shim.log())), "by the first ones"
        for is_killed in (True, False):
            await its.commits(_FOLLOWED_COMMITS)
            gone = max(shims, key=lambda shim: counts(admins[shim.port])["partitions", "loaded"])
            others = [shim for shim in shims if shim is not gone]
            before = {shim.port: len(shim.log()) for shim in others}
            had = counts(admins[gone.port])["partitions", "loaded"]
            if is_killed:
                gone.kill()
                await its.commits(10)
            else:
                with hung(gone.pid):
                    await asyncio.gather(its.commits(10), asyncio.sleep(_SESSION_S))
                await its.asked(gone)
            told = [each for shim in others for each in taken_over(shim.log()[before[shim.port] :])]
            first = {number: (read, followed) for number, read, followed in reversed(told)}
            assert len(first) >= had > 0, told
            # Who had followed no further than to where all were seen to would have had to read that much.
            most = _FOLLOWED_COMMITS * len(PARTITIONS_OF_A_COMMIT)
            had_followed = [read for read, followed in first.values() if followed > 10]
            assert all(read < most for read in had_followed), told
            # Not all, where one that followed has missed a heartbeat, too, and others have got its part.
            assert 2 * len(had_followed) >= len(first), told
            if is_killed:
                await started(gone)
            await its.commits()
            await all_are_followed(admins.values())
        assert "another process has it" in gone.log()
    assert_it_is_in_the_log(its, cluster, topic)
