"""All metrics, read when somebody asks: what was counted on the way, and what the parts say of themselves."""

from __future__ import annotations

import asyncio
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple, Protocol

from protocol.errors import ErrorCode
from shim.api import ROUTES, treatment
from shim.coordinator import GroupCoordinator
from shim.following import Lags
from shim.metrics import (
    Before,
    ClientsSeen,
    ForwardingCounts,
    Histogram,
    Metric,
    NotForwarded,
    Sample,
    Series,
    StandbyCounts,
    families,
)
from shim.migration.dual.dual_commit import DualCommit
from shim.migration.mirror.guard import Guard
from shim.migration.mirror.mirror import Mirror
from shim.migration.words import STEP_NAMES
from shim.net import Limits
from shim.runtime import Runtime
from shim.serve.clients import lowest_versions
from shim.serve.loop_delay import LoopDelay
from shim.serve.words import PROBES, api_name
from shim.upstream import Cluster

_LOG_SECONDS: Final = 1.0


class Datagrams(Protocol):
    """Who pushes metrics: what it has handed to the system, and what it has given up."""

    @property
    def sent(self) -> int: ...

    @property
    def dropped(self) -> int: ...


class Measured(NamedTuple):
    """Of one shim. ``dual_commit``: None without a ZooKeeper. ``forwarding``: None where nothing is forwarded."""

    runtime: Runtime
    cluster: Cluster
    limits: Limits
    lags: Lags
    mirror: Mirror
    guard: Guard
    dual_commit: DualCommit | None
    loop_delay: LoopDelay
    forwarding: ForwardingCounts | None


class Measuring:
    """For the event loop."""

    def __init__(self, parts: Measured) -> None:
        self._parts = parts
        self._began = time.time()
        self._version = _version()
        self.statsd: Datagrams | None = None

    @property
    def clients(self) -> ClientsSeen:
        return self._parts.limits.traffic.clients

    async def look(self, *, ready: bool) -> list[Series]:
        """All metrics, in the order of their table. Brokers and the disk are waited for, some seconds at most."""
        found = dict(
            (
                *_of_traffic(self._parts.limits),
                *_of_forwarding(self._parts.forwarding),
                *_of_log(self._parts.runtime),
                *await _of_groups(self._parts.runtime),
                *_of_places(self._parts),
                *await self._slow(),
                *self._of_process(ready),
            )
        )
        return [Series(metric, found.get(metric, ())) for metric in families.ALL]

    async def _slow(self) -> Iterable[tuple[Metric, Sequence[Sample]]]:
        lags = self._parts.lags
        look, log_bytes = await lags.look(), await self._parts.runtime.log_bytes(_LOG_SECONDS)
        known = [
            Sample((group, topic, str(partition)), each.lag)
            for group, partitions in look.groups.items()
            for (topic, partition), each in partitions.items()
            if each.lag is not None
        ]
        unknown = sum(map(len, look.groups.values())) - len(known)
        return (
            (families.LAG, known),
            (families.LAG_LEFT_OUT, _one(look.left_out)),
            (families.LAG_UNKNOWN, _one(unknown)),
            (families.LAG_AGE, () if lags.age_seconds is None else _one(lags.age_seconds)),
            (families.LOG_BYTES, () if log_bytes is None else _one(log_bytes)),
        )

    def _of_process(self, ready: bool) -> Iterable[tuple[Metric, Sequence[Sample]]]:
        statsd = self.statsd
        return (
            (families.LOOP_DELAY, _size(self._parts.loop_delay.seconds)),
            (families.READY, _one(ready)),
            (families.STATSD_DATAGRAMS, () if statsd is None else _one(statsd.sent)),
            (families.STATSD_DROPPED, () if statsd is None else _one(statsd.dropped)),
            (families.START_TIME, _one(self._began)),
            (families.BUILD, [Sample((self._version, platform.python_version()), 1)]),
        )


def _of_traffic(limits: Limits) -> Iterable[tuple[Metric, Sequence[Sample]]]:
    traffic, quotas = limits.traffic, limits.connections
    unnamed = traffic.clients.requests(named=False)
    oldest, newest = _versions(unnamed)
    errors = sorted(traffic.answers.errors.items())
    return (
        (families.REQUESTS, list(_requests(traffic.clients.requests(named=True) + unnamed))),
        (families.ERRORS, [Sample((api_name(both >> 16), _error(both)), count) for both, count in errors]),
        (families.MALFORMED, _one(traffic.malformed)),
        (families.LATENCY, [Sample((api_name(key),), each.read()) for key, each in sorted(traffic.latencies.items())]),
        (families.OFFSETS_COMMITTED, _one(traffic.answers.offsets_committed)),
        (families.CONNECTIONS, _one(quotas.whole.count)),
        (families.CONNECTIONS_CREATED, _one(quotas.created)),
        (families.CONNECTIONS_REFUSED, _one(quotas.refused)),
        (families.CLIENT_BYTES, _each({"in": traffic.from_clients, "out": traffic.to_clients})),
        (families.BROKER_BYTES, _each({"in": traffic.from_brokers, "out": traffic.to_brokers})),
        (families.SOFTWARE, [Sample(said, count) for said, count in sorted(traffic.software.connections.items())]),
        (families.OLDEST, _each(oldest)),
        (families.NEWEST, _each(newest)),
    )


def _of_forwarding(counts: ForwardingCounts | None) -> Iterable[tuple[Metric, Sequence[Sample]]]:
    return () if counts is None else ((families.FORWARDING_FAILED, _each(counts.failed)),)


def _requests(counts: Mapping[int, int]) -> Iterator[Sample]:
    for kind in sorted(counts):
        yield Sample((api_name(kind >> 16), str(kind & 0xFFFF), treatment(ROUTES[kind])), counts[kind])


def _versions(counts: Mapping[int, int]) -> tuple[dict[str, int], dict[str, int]]:
    """The lowest and the highest of each API."""
    newest = {api_name(kind >> 16): kind & 0xFFFF for kind in sorted(counts) if kind >> 16 not in PROBES}
    return {api_name(key): lowest for key, lowest in lowest_versions(counts).items()}, newest


def _of_log(runtime: Runtime) -> Iterable[tuple[Metric, Sequence[Sample]]]:
    flushes, cleaning, unavailable = runtime.flushes, runtime.cleaning, runtime.unavailable
    loading = unavailable[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    states = {
        "loaded": len(runtime.owned or ()) - unavailable.total(),
        "loading": loading,
        "unavailable": unavailable.total() - loading,
    }
    return (
        (families.FLUSH_RECORDS, _size(flushes.records)),
        (families.FLUSH_SECONDS, _size(flushes.seconds)),
        (families.FLUSH_FAILED, _one(flushes.failed)),
        (families.COMPACTIONS, _one(cleaning.rounds)),
        (families.COMPACTION_SECONDS, _one(cleaning.seconds)),
        (families.COMPACTION_RECORDS, _each({"read": cleaning.records_read, "written": cleaning.records_written})),
        (families.COMPACTION_BYTES, _each({"read": cleaning.bytes_read, "written": cleaning.bytes_written})),
        (families.PARTITIONS, _each(states)),
        *(_of_standbys(standbys) if (standbys := runtime.standbys) is not None else ()),
        *([(families.TOPIC_COMPLAINTS, _one(len(told)))] if (told := runtime.complaints) is not None else ()),
        (families.REBALANCES, _one(runtime.rebalances)),
        (families.GROUP_BYTES, _one(runtime.group_bytes)),
    )


def _of_standbys(counts: StandbyCounts) -> Iterable[tuple[Metric, Sequence[Sample]]]:
    return (
        (families.STANDBYS, _each({"current": counts.at_end, "behind": counts.behind})),
        (families.TAKEOVERS, _each(counts.taken_over)),
        (families.TAKEOVER_RECORDS, _each(counts.records)),
    )


async def _of_groups(runtime: Runtime) -> Iterable[tuple[Metric, Sequence[Sample]]]:
    states = Counter({"Empty": 0, "PreparingRebalance": 0, "CompletingRebalance": 0, "Stable": 0})
    steps = {step: ("passed_through" if step is None else "served", name) for step, name in STEP_NAMES.items()}
    at_steps = Counter(dict.fromkeys(steps.values(), 0))
    members = offsets = 0
    now_ms = runtime.now()
    longest_ms = 0
    for coordinator in _coordinators(runtime):
        await asyncio.sleep(0)  # clients have their turn
        states.update(coordinator.count_states())
        members += coordinator.count_members()
        await asyncio.sleep(0)
        longest_ms = max(longest_ms, now_ms - (coordinator.rebalancing_since() or now_ms))
        offsets += coordinator.offset_count
        for step, count in coordinator.count_steps().items():
            at_steps[steps[step]] += count
    return (
        (families.GROUPS, _each(states)),
        (families.MEMBERS, _one(members)),
        (families.REBALANCE_SECONDS, _one(longest_ms / 1000)),
        (families.OFFSETS, _one(offsets)),
        (families.STEPS, [Sample(both, count) for both, count in at_steps.items()]),
    )


def _coordinators(runtime: Runtime) -> Iterator[GroupCoordinator]:
    return filter(None, map(runtime.coordinator, range(runtime.num_partitions)))


def _of_places(parts: Measured) -> Iterable[tuple[Metric, Sequence[Sample]]]:
    mirror, dual_commit = parts.mirror, parts.dual_commit
    lagging, longest = {"upstream": float(mirror.lagging)}, {"upstream": mirror.longest_lag_seconds}
    if dual_commit is not None:
        lagging["zookeeper"] = dual_commit.outbox.lagging
        longest["zookeeper"] = dual_commit.outbox.longest_lag_seconds
    return (
        (families.UPSTREAM_REACHABLE, _one(parts.cluster.reachable)),
        (families.UPSTREAM_BROKERS, _one(len(parts.cluster.brokers))),
        (families.STORE_GROUPS, _each(lagging)),
        (families.STORE_LAG, _each(longest)),
        (families.ALARMED, _each({**parts.guard.alarmed, "kept": mirror.alarmed})),
        (families.ZOOKEEPER_SESSION, () if dual_commit is None else _one(dual_commit.has_session)),
    )


def _one(value: float) -> list[Sample]:
    return [Sample((), float(value))]


def _size(histogram: Histogram) -> list[Sample]:
    return [Sample((), histogram.read())]


def _each(by_label: Mapping[str, float] | Mapping[Before, float] | Mapping[NotForwarded, float]) -> list[Sample]:
    return [Sample((label,), float(value)) for label, value in by_label.items()]


def _error(both: int) -> str:
    """Of the lower 16 bits of the number."""
    code = both & 0xFFFF
    return ErrorCode.for_code(code - 0x10000 if code & 0x8000 else code).name


def _version() -> str:
    try:
        return version("kafka-offset-shim")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"
