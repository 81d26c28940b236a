"""Three shims in front of three brokers, with one log on topics: each has some of the offsets partitions, and another
one has them when it is killed, held up for longer than its session, cut off from the brokers, or stopped, with a broker
that hangs or dies meanwhile. Raw clients write down all that they ask and are answered, and it has to be as of one
register for each group and partition: no commit that was acknowledged is lost, no offset is told that is older than
one, and no two shims accept commits. Beside them are groups of unmodified clients, which go on by themselves."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from protocol.own.history_log import decode_history
from protocol.partition import partition_for
from shim.config import HostPort
from shim.demo.parts import Broker, Cluster
from tests.clients.client_table import CLIENTS, Client
from tests.cluster.standing import batches_of
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.ownership.crowd import TOPIC_PARTITIONS, Crowd
from tests.ownership.history import wrong_order
from tests.ownership.registers import PARTITIONS_OF_A_COMMIT, PATIENCE_S, AtWork, Register, Watched
from tests.shim_process import Shim

PARTITIONS: Final = 5  # as the cluster's own topic has in tests
GROUPS: Final = tuple(
    next(name for i in range(1000) if partition_for(name := f"group-{i}", PARTITIONS) == number)
    for number in range(PARTITIONS)
)
SHIMS: Final = 3
NODE_IDS: Final = (1, 2, 3)
CLIENT: Final[Mapping[str, Client]] = {client.name: client for client in CLIENTS}

CUT_OFF: Final = """
import asyncio, json, pathlib, signal, sys, shim.tls
dial, made, cut = shim.tls.dial, [], {}

class Unreachable(OSError):
    pass

async def cut_off(factory, address, context):
    if address.host in cut.get("hosts", ()):
        await asyncio.sleep(0.5)
        raise Unreachable(f"{address}: cut off")
    if context is not None:  # to other shims, from whom nothing is cut off here
        return await dial(factory, address, context)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(factory, address.host, address.port)
    made[:] = [(each, host) for each, host in made if not each.is_closing()] + [(transport, address.host)]
    return protocol

def change():
    for transport, host in made:
        if host in cut.get("hosts", ()):
            transport.abort()
    cut.clear()
    cut.update(json.loads(FILE.read_text()))
    for transport, host in made:
        if host in cut["hosts"]:
            transport.pause_reading() if cut["hears_nothing"] else transport.abort()

for module in list(sys.modules.values()):
    if getattr(module, "dial", None) is dial:
        module.dial = cut_off
signal.signal(signal.SIGUSR1, lambda *_: asyncio.get_running_loop().call_soon_threadsafe(change))
"""
"""With each SIGUSR1 the shim reads which brokers it is cut off from, for itself and for its clients: what it had open
to them is gone; or nothing is heard of it any more, and what is sent gets there all the same."""


def cut_file(folder: Path, place: int) -> Path:
    return folder / f"cut-{place}"


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
            late_patch=f"import pathlib\nFILE = pathlib.Path({str(cut_file(folder, place))!r})\n{CUT_OFF}",
            offsets_log="local",  # they share one, of which the settings say the name
        )
        for place in range(SHIMS)
    ]


async def started(shim: Shim) -> None:
    await asyncio.to_thread(shim.start)


@asynccontextmanager
async def at_work(shims: Sequence[Shim], topic: str, folder: Path) -> AsyncIterator[AtWork]:
    """They are started, and killed at the end. What was asked and answered is written there."""
    its = AtWork(shims, [Register(group, topic) for group in GROUPS], NODE_IDS)
    try:
        for shim in shims:
            await started(shim)
        its.begin()
        try:
            await its.commits()
            yield its
            await its.commits()
        finally:
            its.write(folder / "history.jsonl")
            await its.end()
    finally:
        for shim in shims:
            with suppress(RuntimeError):
                shim.kill()


class Faults:
    """Each at some shim, some broker, or both. Everybody can commit behind it, and in the middle of it unless it says
    why not."""

    def __init__(self, its: AtWork, cluster: Cluster, folder: Path, rng: random.Random, pause_s: float) -> None:
        self._its = its
        self._cluster = cluster
        self._folder = folder
        self._rng = rng
        self._pause_s = pause_s

    async def happen(self, kind: str) -> None:
        its, shim = self._its, self._rng.choice(self._its.shims)
        match kind:
            case "killed":
                shim.kill()
                await its.commits()
                await started(shim)
            case "killed, and back at once":
                shim.kill()
                await started(shim)
            case "held up" | "held up, and nothing to write" | "held up for a moment":
                async with its.avoided(shim) if kind == "held up, and nothing to write" else AsyncExitStack():
                    await self._held_up(shim, _MOMENT_S if kind == "held up for a moment" else self._pause_s)
                    await its.asked(shim)
            case "cut off":
                await self._cut_off(shim, self._cluster.brokers, hears_nothing=False)
            case "cut off from one broker":
                # It is a member of the group, where that one is not the coordinator, and keeps what this one leads.
                one = [self._rng.choice(self._cluster.brokers)]
                await self._cut_off(shim, one, hears_nothing=False, others_commit=False)
            case "hears nothing":
                await self._cut_off(shim, self._cluster.brokers, hears_nothing=True)
            case "cut off with a broker":
                with hung(self._a_broker().pid):
                    await self._cut_off(shim, self._cluster.brokers, hears_nothing=False)
            case "stopped":
                assert await asyncio.to_thread(shim.stop) == 0, shim.log()[-2000:]
                await its.commits()
                await started(shim)
            case "broker":
                with hung(self._a_broker().pid):
                    await its.commits(2)
            case "broker killed":
                broker = self._a_broker()
                broker.kill()
                await its.commits(2)
                await asyncio.to_thread(broker.start)
        await its.commits()
        await its.answers()
        its.check()

    def _a_broker(self) -> Broker:
        """Without the controller, of which there is one, nobody takes over."""
        return self._rng.choice([each for each in self._cluster.brokers if not each.is_controller])

    async def _held_up(self, shim: Shim, pause_s: float) -> None:
        with hung(shim.pid):
            await asyncio.gather(self._its.commits(), asyncio.sleep(pause_s))

    async def _cut_off(
        self, shim: Shim, brokers: Iterable[Broker], *, hears_nothing: bool, others_commit: bool = True
    ) -> None:
        file = cut_file(self._folder, self._its.shims.index(shim))
        hosts = [broker.host for broker in brokers]

        def change(hosts: list[str]) -> None:
            file.write_text(json.dumps({"hosts": hosts, "hears_nothing": hears_nothing}))
            os.kill(shim.pid, signal.SIGUSR1)

        change(hosts)
        try:
            await asyncio.sleep(min(self._pause_s, _CUT_OFF_S))
            if others_commit:
                await self._its.commits()
        finally:
            change([])


_MOMENT_S: Final = 3.0  # longer than a lease, and not than a session
_CUT_OFF_S: Final = 15.0  # longer than a session
KINDS: Final = (
    "held up",
    "killed",
    "stopped",
    "cut off",
    "broker",
    "killed, and back at once",
    "cut off with a broker",
    "hears nothing",
    "broker killed",
    "held up for a moment",
    "cut off from one broker",
)

_IN_SHORT: Final = ("stopped", "killed, and back at once", "cut off with a broker", "hears nothing")
"""What these have in them is not done once more for itself; one that is killed, or held up while there is something to
write, is in `test_standbys`."""


def named(count: int) -> list[str]:
    """Groups in so many offsets partitions."""
    return [
        next(name for i in range(1000) if partition_for(name := f"crowd-{i}", PARTITIONS) == n) for n in range(count)
    ]


def crowd_of(
    folder: Path, its: AtWork, topic: str, sizes: Mapping[str, int], producers: Iterable[str]
) -> tuple[Crowd, list[Watched]]:
    names = named(len(sizes))
    groups = {name: (CLIENT[library], size) for name, (library, size) in zip(names, sizes.items(), strict=True)}
    shims = [HostPort("127.0.0.1", shim.port) for shim in its.shims]
    crowd = Crowd(folder / "crowd", shims, topic, groups, [CLIENT[library] for library in producers])
    return crowd, [Watched(name, topic, TOPIC_PARTITIONS) for name in names]


def assert_it_is_in_the_log(its: AtWork, cluster: Cluster, topic: str) -> None:
    """What was acknowledged, in an order in which it can have been written; what was told of others' groups, in the
    order in which it is there; and no owner of a partition has written behind the next one."""
    places: dict[str, dict[int, int]] = {register.group: {} for register in its.registers}
    written: dict[str, dict[int, list[int]]] = {watched.group: {} for watched in its.watched}
    for kind in ("offsets", "history"):
        for partition in range(PARTITIONS):
            epochs: dict[int, int] = {}
            for header, records in batches_of(cluster, f"__{topic}_{kind}", partition):
                newest = epochs.setdefault(header.producer_id, header.producer_epoch)
                assert header.producer_epoch >= newest, (
                    f"{kind} {partition}: epoch {header.producer_epoch} behind {newest}"
                )
                epochs[header.producer_id] = header.producer_epoch
                for record in records if kind == "history" else ():
                    assert record.key is not None
                    for key, value in decode_history(record.key, record.value) or ():
                        if key.group in places:
                            places[key.group].setdefault(value.offset, record.offset)
                for record in records if kind == "offsets" else ():
                    assert record.key is not None
                    committed = decode_key(record.key)
                    if isinstance(committed, OffsetCommitKey) and committed.group in written:
                        offset = decode_value(committed, record.value)
                        assert isinstance(offset, OffsetCommitValue), "nobody deletes any"
                        written[committed.group].setdefault(committed.partition, []).append(offset.offset)
    wrong = [each for register in its.registers for each in wrong_order(register.operations, places[register.group])]
    wrong += [each for watched in its.watched for each in watched.wrong(written[watched.group])]
    assert not wrong, wrong[:5]


async def test_shims_together(cluster: Cluster, make_topic: TopicFactory, tmp_path: Path) -> None:
    """A few kinds of faults once each, with clients of two libraries from the second one on, as they always have
    something to write."""
    topic = make_topic(len(PARTITIONS_OF_A_COMMIT), config={"min.insync.replicas": "2"})
    read = make_topic(TOPIC_PARTITIONS, config={"min.insync.replicas": "2"})
    async with at_work(shims_of(cluster, topic, tmp_path), topic, tmp_path) as its:
        faults = Faults(its, cluster, tmp_path, random.Random(1), 8.0)
        await faults.happen("held up, and nothing to write")
        crowd, watched = crowd_of(tmp_path, its, read, {"confluent-kafka": 1, "aiokafka": 1}, ["confluent-kafka"])
        async with crowd:
            its.watch(watched)
            await crowd.all_are_members()
            await crowd.goes_on()
            for kind in _IN_SHORT:
                await faults.happen(kind)
            await crowd.goes_on()
            await crowd.end()
        assert all(register.told.total() > 10 for register in its.registers)
        assert all(len(each.told) > 10 for each in watched)
    assert_it_is_in_the_log(its, cluster, topic)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
async def test_many_faults_at_random(cluster: Cluster, make_topic: TopicFactory, tmp_path: Path, seed: int) -> None:
    """Ten of a hundred, with twenty clients of four libraries, each of which goes on behind each fault."""
    rng = random.Random(seed)
    topic = make_topic(len(PARTITIONS_OF_A_COMMIT), config={"min.insync.replicas": "2"})
    read = make_topic(TOPIC_PARTITIONS, config={"min.insync.replicas": "2"})
    async with at_work(shims_of(cluster, topic, tmp_path), topic, tmp_path) as its:
        faults = Faults(its, cluster, tmp_path, rng, 60.0)
        sizes = {"kafka-python": 5, "aiokafka": 5, "confluent-kafka": 5, "java-console": 2}
        crowd, watched = crowd_of(tmp_path, its, read, sizes, ["kafka-python", "aiokafka", "confluent-kafka"])
        async with crowd:
            assert crowd.size == 20
            its.watch(watched)
            await crowd.all_are_members()
            await crowd.goes_on()
            for _ in range(10):
                kind = rng.choice(KINDS)
                begun = time.monotonic()
                await faults.happen(kind)
                over = time.monotonic()
                await crowd.goes_on()
                print(
                    f"{kind}: {over - begun:.0f} s, and each group reads on after {time.monotonic() - over:.0f} s more"
                )
            await crowd.end()
        assert all(register.told.total() > 100 for register in its.registers)
        assert all(len(each.told) > 100 for each in watched)
        print(f"{sum(len(each.operations) for each in its.registers)} requests of raw clients, ", end="")
        print(f"{sum(each.acknowledged for each in its.registers)} commits acknowledged")
    assert_it_is_in_the_log(its, cluster, topic)


WITHOUT_A_LEASE: Final = """
from shim.kafka_log.owning.owned_topic import OwnedTopic
OwnedTopic.may_tell = OwnedTopic.may_tell_behind = lambda *_: True
"""


async def held_up_thrice(cluster: Cluster, topic: str, folder: Path, patch: str) -> None:
    shims = shims_of(cluster, topic, folder)
    for shim in shims:
        shim.late_patch += patch
    async with at_work(shims, topic, folder) as its:
        faults = Faults(its, cluster, folder, random.Random(1), 10.0)
        for _ in range(3):
            await faults.happen("held up, and nothing to write")


@pytest.mark.soak
async def test_shims_that_tell_without_a_lease_are_found_out(
    cluster: Cluster, make_topic: TopicFactory, tmp_path: Path
) -> None:
    """One that was held up tells what was right before, until it hears of who has the partition now."""
    with pytest.raises(AssertionError, match="was there"):
        await held_up_thrice(cluster, make_topic(len(PARTITIONS_OF_A_COMMIT)), tmp_path, WITHOUT_A_LEASE)
