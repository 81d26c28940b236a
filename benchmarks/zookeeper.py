"""`python -m benchmarks.zookeeper [--groups N] [--offsets N] [--seconds S]`: offsets in a real ZooKeeper, on this
machine: how long all of them take to be read, and how many are written a second."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from shim.demo.parts import ZooKeeper
from shim.offsets.store import StoredOffset
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets

TIMEOUT_S = 20.0
TOPICS = 5  # of a group
AT_ONCE = 256


async def rate(write: Callable[[int], Awaitable[object]], seconds: float, at_once: int = 1) -> float:
    """How often a second, with so many under way."""
    done = 0
    begun = time.perf_counter()

    async def one_by_one() -> None:
        nonlocal done
        while time.perf_counter() - begun < seconds:
            done += 1
            await write(done)

    await asyncio.gather(*(one_by_one() for _ in range(at_once)))
    return done / (time.perf_counter() - begun)


async def measure(connect: str, groups: int, offsets: int, seconds: float) -> None:
    ensemble = Ensemble(connect)
    await ensemble.start(TIMEOUT_S)
    store = ZooKeeperOffsets(ensemble)
    begun = time.perf_counter()
    for number in range(groups):
        await store.commit(
            f"group-{number}",
            {(f"topic-{each % TOPICS}", each): StoredOffset(each) for each in range(offsets // groups)},
        )
    print(f"written at first: {time.perf_counter() - begun:.1f} s")
    begun = time.perf_counter()
    found = [await store.fetch(group) for group in await store.groups()]
    count = sum(map(len, found))
    print(f"{count:,} offsets in {len(found):,} groups read, one after the other: {time.perf_counter() - begun:.1f} s")

    paths = [f"/consumers/group-{number}/offsets/topic-0/0" for number in range(min(groups, AT_ONCE))]

    async def set_one(number: int) -> None:
        await ensemble.set(paths[number % len(paths)], b"%d" % number)

    print(f"sets, one by one: {await rate(set_one, seconds):,.0f} a second")
    print(f"sets, {AT_ONCE} under way: {await rate(set_one, seconds, AT_ONCE):,.0f} a second")
    for partitions in (1, 10, 100):
        names = [("topic", each) for each in range(partitions)]

        async def commit_unconditionally(number: int, names: list[tuple[str, int]] = names) -> None:
            await store.commit(f"writer-{number % AT_ONCE}", dict.fromkeys(names, StoredOffset(number)))

        for number in range(AT_ONCE):
            await commit_unconditionally(number)
        alone = await rate(commit_unconditionally, seconds)
        together = await rate(commit_unconditionally, seconds, 32)
        print(f"commits of {partitions}: {alone:,.0f} a second one by one, {together:,.0f} with 32 under way")
    await ensemble.close()


@click.command()
@click.option("--groups", default=2_000, show_default=True)
@click.option("--offsets", default=100_000, show_default=True, help="Of all groups together.")
@click.option("--seconds", default=5.0, show_default=True, help="Of each measurement of writes.")
def main(groups: int, offsets: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, ZooKeeper(Path(folder), heap_mb=256) as zookeeper:
        asyncio.run(measure(zookeeper.connect_string, groups, offsets, seconds))


if __name__ == "__main__":
    main()
