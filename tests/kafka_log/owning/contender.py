"""A process that owns partition 0 of a topic whenever it can, counts there, and tells what it counts: a line for each.

    python -m tests.kafka_log.owning.contender BOOTSTRAP TOPIC LEASE_MS

Lines are JSON: ["owns", value, at], ["wrote", value, begun, ended], ["told", value, begun, ended], times of
CLOCK_BOOTTIME, which is the machine's own, so that several processes' lines can be compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Mapping

from protocol.own.record_sets import LoggedRecord
from protocol.own.topic_log import Owner
from shim.boottime import boottime
from shim.config import Settings, parse_servers
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError

_KEY = b"\x00\x00counter"
_TELLS = 20  # times for each write


def _say(*what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _raise_failed(told: Mapping[int, UpstreamError | None]) -> None:
    for error in told.values():
        if error is not None:
            raise error


async def _count(owned: OwnedTopic) -> None:
    await owned.take_over(0)
    found: list[LoggedRecord] = []
    async for _ in owned.read(0, found.extend):
        pass
    values = [int(each.value) for each in found if each.key == _KEY and each.value is not None]
    value = values[-1] if values else 0
    _say("owns", value, boottime())
    while True:
        begun = boottime()
        await owned.write({0: [[(_KEY, b"%d" % (value + 1))]]}, 0, _raise_failed)
        value += 1
        _say("wrote", value, begun, boottime())
        for _ in range(_TELLS):
            begun = boottime()
            if not owned.may_tell(0):
                break
            _say("told", value, begun, boottime())
            await asyncio.sleep(0.005)  # told some times between two writes


async def main(bootstrap: str, topic: str, lease_ms: int) -> None:
    settings = Settings()
    cluster = Cluster(parse_servers(bootstrap), settings)
    following = asyncio.create_task(cluster.run())
    owner = Owner(uuid.uuid4().bytes, f"process {os.getpid()}", lease_ms)
    owned = OwnedTopic(
        *(cluster, settings, topic, owner), patience_seconds=5.0, silent_seconds=3600.0, max_message_bytes=1 << 20
    )
    while not following.done():
        try:
            await _count(owned)
        except UpstreamError as error:
            print(f"{os.getpid()}: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(3 * lease_ms / 1000 + 1)  # the other one has its turn


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
