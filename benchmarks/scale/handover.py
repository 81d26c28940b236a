"""What a hand-over of a large partition costs: `python -m benchmarks.scale.handover [--entries N]… [--rounds N]`.

Two shims that share a log of one partition on the topics of a real broker. The one that owns it is killed, and a client
commits as soon as the other one takes it; that one has followed the partition, or reads all of it. The one that was
killed is started again, and the other one is next.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

import click
from confluent_kafka.cimpl import NewTopic

from benchmarks import shown
from benchmarks.failover.sides import Side
from benchmarks.servers import make_topics
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.own.topic_log import Owner
from shim.config import HostPort, Settings, parse_servers
from shim.demo.parts import Broker, free_port_range
from shim.kafka_log.copies.snapshots import SNAPSHOTS_NAME
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.topics.ready import make_ready
from shim.kafka_log.topics.wanted import TopicsWanted
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from tests.shim_process import Shim

_PROPERTIES: Final = {"offsets.topic.num.partitions": 1}
_SETTINGS: Final = Settings()
_TOPIC: Final = "orders"
_PARTITIONS_OF_A_GROUP: Final = 1000
_IN_A_WRITE: Final = 20_000
_IN_A_SET: Final = 500
_READY_SECONDS: Final = 3600.0
"""For 10 million entries that are read from the beginning, on a machine that has other things to do."""
_NODE_ID: Final = 1
_STANDBYS: Final = re.compile(r'^offset_shim_standby_partitions\{state="current"\} (\d+)', re.MULTILINE)
_TAKEN_OVER: Final = re.compile(r"taken over, ([\d,]+) records? read")


async def _nothing_moves() -> None:
    """The broker is not killed."""


class HandOver(NamedTuple):
    """``seconds``: from the SIGKILL to the first commit that is acknowledged. ``records``: that were read for it.
    MiB of resident memory: ``owner_mib`` before, ``other_mib`` of the one that takes over, before."""

    seconds: float
    records: int
    owner_mib: float
    other_mib: float


class Pair:
    """Two shims, of which one owns the partition."""

    def __init__(self, broker: Broker, folder: Path, prefix: str, standbys: int) -> None:
        self._admin: dict[int, int] = {}
        self._follows = standbys > 0
        self.shims = [
            Shim(
                broker.bootstrap_servers,
                folder / f"shim-{number}",
                settings={
                    "offsets.log": "kafka",
                    "offsets.log.topics.prefix": prefix,
                    "offsets.topic.num.partitions": 1,
                    "offsets.topic.replication.factor": 1,
                    "offsets.mirror.upstream": "false",
                    "standby.replicas": standbys,
                },
                offsets_log="local",  # they share one, of which the settings say the name
                passes_groups=True,
                start_timeout=_READY_SECONDS,
            )
            for number in range(2)
        ]
        for shim in self.shims:
            self._admin[shim.port] = free_port_range(1)
            shim.args += ("--admin", f"127.0.0.1:{self._admin[shim.port]}")
        self.side = Side(
            "shims",
            [(each, lambda each=each: {HostPort("127.0.0.1", each.broker_port(_NODE_ID))}) for each in self.shims],  # type: ignore[misc]
            lambda: [HostPort("127.0.0.1", each.port) for each in self.shims if each.running],
            ["measured"],
            _nothing_moves,
            _READY_SECONDS,
        )

    def followed_by(self) -> list[Shim]:
        """Who follows the partition to its end."""
        return [shim for shim in self.shims if self._standby_of(shim)]

    def _standby_of(self, shim: Shim) -> bool:
        with urlopen(f"http://127.0.0.1:{self._admin[shim.port]}/metrics") as answer:
            found = _STANDBYS.search(answer.read().decode())
        return found is not None and int(found[1]) > 0

    def hand_over(self, rng: random.Random) -> HandOver:
        until = time.monotonic() + _READY_SECONDS
        while self._follows and not self.followed_by():
            assert time.monotonic() < until, "nobody follows"
            time.sleep(0.2)  # nobody tells when it has come that far
        if not self._follows:  # all is to be read, and not what is behind a snapshot of an earlier round
            for shim in self.shims:
                shutil.rmtree(shim.data_dir / SNAPSHOTS_NAME, ignore_errors=True)
        before = {shim.port: (resident_mib(shim.pid), len(shim.log())) for shim in self.shims}
        seconds = asyncio.run(self.side.gap(rng))
        for shim in self.shims:
            mib, shown = before[shim.port]
            found = _TAKEN_OVER.findall(shim.log()[shown:])
            if found:
                (owner,) = (before[each.port][0] for each in self.shims if each is not shim)
                return HandOver(seconds, int(found[0].replace(",", "")), owner, mib)
        raise AssertionError("nobody has taken the partition over")


def resident_mib(pid: int) -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


@contextmanager
def a_broker(folder: Path) -> Iterator[Broker]:
    with Broker(folder / "broker", properties=_PROPERTIES) as broker:
        make_topics(broker.bootstrap_servers, NewTopic(_TOPIC, 1, 1))
        yield broker


async def fill(broker: Broker, prefix: str, entries: int) -> None:
    """So many offsets of groups with 1,000 each, as if a shim had written them and was stopped then."""
    cluster = Cluster(parse_servers(broker.bootstrap_servers), _SETTINGS)
    following = asyncio.create_task(cluster.run())
    try:
        wanted = TopicsWanted(prefix, 1, 1, _SETTINGS.offsets_topic_segment_bytes, 10_080)
        topics = await make_ready(cluster, _SETTINGS, wanted)
        its = OwnedTopic(
            *(cluster, _SETTINGS, topics.offsets, Owner(uuid.uuid4().bytes, "a benchmark", 0)),
            patience_seconds=60.0,
            silent_seconds=3600.0,
            max_message_bytes=topics.max_message_bytes,
        )
        await its.take_over(0)
        async for _ in its.read(0, lambda _records: None):
            pass
        now = time.time_ns() // 1_000_000
        for first in range(0, entries, _IN_A_WRITE):
            sets = [
                [_entry(number, now) for number in range(at, min(at + _IN_A_SET, entries))]
                for at in range(first, min(first + _IN_A_WRITE, entries), _IN_A_SET)
            ]
            await its.write({0: sets}, now, _check)
        await its.release([0])
        its.close()
    finally:
        following.cancel()
        await asyncio.wait([following])


def _entry(number: int, now: int) -> tuple[bytes, bytes]:
    group, partition = divmod(number, _PARTITIONS_OF_A_GROUP)
    key = OffsetCommitKey(f"group-{group}", _TOPIC, partition)
    return encode_key(key), encode_value(OffsetCommitValue(number, commit_timestamp=now))


def _check(told: Mapping[int, UpstreamError | None]) -> None:
    for error in told.values():
        if error is not None:
            raise error


@click.command()
@click.option("--entries", multiple=True, default=[1_000_000], show_default=True, help="Of the partition.")
@click.option("--rounds", default=3, show_default=True, help="Hand-overs with and without a standby.")
@click.option("--json", "as_json", is_flag=True)
def main(entries: tuple[int, ...], rounds: int, as_json: bool) -> None:
    """From SIGKILL of the owner to the next commit, with a standby and without."""
    rng = random.Random(rounds)
    found: dict[tuple[int, int], list[HandOver]] = {}
    with tempfile.TemporaryDirectory() as folder, a_broker(Path(folder)) as broker:
        for count in entries:
            prefix = f"__scale_{count}"
            asyncio.run(fill(broker, prefix, count))
            for standbys in (1, 0):
                with ExitStack() as running:
                    pair = Pair(broker, Path(folder) / f"{count}-{standbys}", prefix, standbys)
                    for shim in pair.shims:
                        running.enter_context(shim)
                    found[count, standbys] = [pair.hand_over(rng) for _ in range(rounds)]
    here = shown.conditions(rounds, 0.0, ["offsets.log=kafka", "offsets.topic.num.partitions=1"])
    if as_json:
        lines = [
            {"entries": count, "standby": standbys, "hand_overs": [each._asdict() for each in its]}
            for (count, standbys), its in found.items()
        ]
        print(json.dumps({**here, "lines": lines}))
        return
    table = shown.results(
        *("entries", "standby", "s, p50", "least s", "most s", "records read", "owner MiB", "other MiB")
    )
    for (count, standbys), its in found.items():
        seconds = [each.seconds for each in its]
        table.add_row(
            *(f"{count:,}", "yes" if standbys else "no"),
            *(f"{each:.2f}" for each in (statistics.median(seconds), min(seconds), max(seconds))),
            f"{max(each.records for each in its):,}",
            *(
                f"{statistics.median(each):.0f}"
                for each in zip(*((it.owner_mib, it.other_mib) for it in its), strict=True)
            ),
        )
    shown.show(table, f"{here['date']}, {here['kafka']}, {here['cores']} cores, load average {here['load_average']:g}")


if __name__ == "__main__":
    main()
