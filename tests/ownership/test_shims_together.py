"""Three shims in front of three brokers, with one log on topics: each has some of the offsets partitions, and another
one has them when it is killed, held up for longer than its session, cut off from the brokers, or stopped, with a broker
that hangs meanwhile. No commit that was acknowledged is lost, and no offset is told that is older than one."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from protocol.partition import partition_for
from shim.demo.parts import Cluster
from tests.conftest import TopicFactory
from tests.ownership.registers import PATIENCE_S, AtWork, Register
from tests.shim_process import Shim

PARTITIONS: Final = 5  # as the cluster's own topic has in tests
GROUPS: Final = tuple(
    next(name for i in range(1000) if partition_for(name := f"group-{i}", PARTITIONS) == number)
    for number in range(PARTITIONS)
)
SHIMS: Final = 3

CUT_OFF: Final = """
import asyncio, signal
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError
ask, cut = BrokerConnection._ask, []
async def nothing_comes(self, *args, **kwargs):
    if cut:
        self.close()
        await asyncio.sleep(0.5)
        raise UpstreamError(f"{self.address}: cut off")
    return await ask(self, *args, **kwargs)
BrokerConnection._ask = nothing_comes
signal.signal(signal.SIGUSR1, lambda *_: cut.clear() if cut else cut.append(True))
"""
"""What the shim asks for itself gets nowhere, from one SIGUSR1 to the next."""


def shims_of(cluster: Cluster, topic: str, folder: Path, **settings: str | int) -> list[Shim]:
    given: dict[str, str | int] = {
        "offsets.log": "kafka",
        "offsets.log.topics.prefix": f"__{topic}",
        "offsets.topic.num.partitions": PARTITIONS,
        "offsets.mirror.upstream": "false",
        **settings,
    }
    return [
        Shim(
            cluster.bootstrap_servers,
            folder / f"data-{place}",
            settings=given,
            start_timeout=PATIENCE_S,
            patch=CUT_OFF,
            offsets_log="local",  # they share one, of which the settings say the name
        )
        for place in range(SHIMS)
    ]


async def started(shim: Shim) -> None:
    await asyncio.to_thread(shim.start)


@asynccontextmanager
async def at_work(cluster: Cluster, topic: str, folder: Path) -> AsyncIterator[AtWork]:
    shims = shims_of(cluster, topic, folder)
    its = AtWork(shims, [Register(group, topic) for group in GROUPS], [1, 2, 3])
    try:
        for shim in shims:
            await started(shim)
        its.begin()
        try:
            await its.commits()
            yield its
            await its.commits()
        finally:
            await its.end()
    finally:
        for shim in shims:
            with suppress(RuntimeError):
                shim.kill()


async def fault(kind: str, its: AtWork, cluster: Cluster, rng: random.Random, pause_s: float) -> None:
    """Everybody can commit in the middle of it, and behind it."""
    shim = rng.choice(its.shims)
    match kind:
        case "killed":
            shim.kill()
            await its.commits()
            await started(shim)
        case "killed, and back at once":
            shim.kill()
            await started(shim)
        case "held up" | "held up, and nothing to write":
            async with its.avoided(shim) if kind != "held up" else AsyncExitStack():
                os.kill(shim.pid, signal.SIGSTOP)
                try:
                    await asyncio.gather(its.commits(), asyncio.sleep(pause_s))
                finally:
                    os.kill(shim.pid, signal.SIGCONT)
                await its.asked(shim)
        case "cut off":
            os.kill(shim.pid, signal.SIGUSR1)
            try:
                await asyncio.gather(its.commits(), asyncio.sleep(pause_s))
            finally:
                os.kill(shim.pid, signal.SIGUSR1)
        case "stopped":
            assert await asyncio.to_thread(shim.stop) == 0, shim.log()[-2000:]
            await its.commits()
            await started(shim)
        case "broker":
            pid = rng.choice([each for each in cluster.brokers if not each.is_controller]).pid
            os.kill(pid, signal.SIGSTOP)
            try:
                await its.commits(2)
            finally:
                os.kill(pid, signal.SIGCONT)
    await its.commits()
    await its.answers()


KINDS: Final = (
    "held up, and nothing to write",
    "held up",
    "killed",
    "stopped",
    "cut off",
    "broker",
    "killed, and back at once",
)


@pytest.mark.parametrize(("faults", "pause_s"), [(len(KINDS), 8.0), pytest.param(100, 20.0, marks=pytest.mark.soak)])
async def test_shims_together(
    cluster: Cluster, make_topic: TopicFactory, tmp_path: Path, faults: int, pause_s: float
) -> None:
    rng = random.Random(faults)
    async with at_work(cluster, make_topic(), tmp_path) as its:
        for number in range(faults):
            await fault(KINDS[number] if number < len(KINDS) else rng.choice(KINDS), its, cluster, rng, pause_s)
        assert all(register.told.total() > 10 for register in its.registers)
