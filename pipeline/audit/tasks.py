"""What the tasks do: batches of groups in, Arrow batches of readings out. Each task has connections of its own, and
needs nothing of the machine that it runs on but the way to the places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeVar

import pyarrow as pa

from pipeline.audit.asked import Addresses
from pipeline.audit.brokers import Brokers
from pipeline.audit.committed import Wanted, read_committed, read_log_ends
from pipeline.audit.ensemble import Ensemble
from pipeline.audit.portions import portions
from pipeline.audit.verdicts import Offsets, Rules, judge, lag
from pipeline.audit.words import LOG, NO_PARTITION, PAIRS, UPSTREAM, CannotRead, Reading, WhereGroup
from shim.config import HostPort

_GROUPS_A_PORTION: Final = 500
_TOPICS_A_PORTION: Final = 200
_ROWS_A_BATCH: Final = 10_000

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Batches]
"""As `DataFrame.mapInArrow` takes it."""

Row = TypeVar("Row", bound=tuple[Any, ...])

WHERE_SCHEMA: Final = (
    "group string, in_zookeeper boolean, log_node int, upstream_node int, step string, is_share boolean"
)
READINGS_SCHEMA: Final = (
    "place string, group string, topic string, partition int, offset long, mzxid long, mtime_ms long, read_ms long, "
    "problem string, step string, unread string"
)
"""A :class:`Reading`, and of its group the step, and the places that refuse to tell of it (comma between them)."""
LOG_ENDS_SCHEMA: Final = "topic string, partition int, log_start long, log_end long"
JUDGED_SCHEMA: Final = ", ".join(["lag long", *(f"{pair.column} string" for pair in PAIRS)])
"""What :func:`judged` adds."""

_ARROW: Final = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64()}


def _arrow(schema: str) -> pa.Schema:
    """Of one that Spark is told."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in map(str.split, schema.split(", "))])


def where_table(wheres: Sequence[WhereGroup]) -> pa.Table:
    return _as_batch(wheres, _arrow(WHERE_SCHEMA))


def readings(addresses: Addresses) -> Task:
    """Of batches of ``WHERE_SCHEMA``: batches of ``READINGS_SCHEMA``. What it raises is a :class:`CannotRead`."""

    def read(batches: Batches) -> Batches:
        with ExitStack() as opened:
            places: _Places | None = None
            for batch in batches:
                for some in portions(_rows(batch, WhereGroup), _GROUPS_A_PORTION):
                    places = places or _Places(addresses, opened)
                    yield from _batches(_of_groups(list(places.read(some)), some), _arrow(READINGS_SCHEMA))

    return read


class _Places:
    """Connections to all of them."""

    def __init__(self, addresses: Addresses, opened: ExitStack) -> None:
        self._shim = opened.enter_context(Brokers("the shim", addresses.shim))
        self._upstream = opened.enter_context(Brokers("the cluster", addresses.upstream))
        self._ensemble = addresses.zookeeper and opened.enter_context(Ensemble(addresses.zookeeper))

    def read(self, groups: Sequence[WhereGroup]) -> Iterator[Reading]:
        """All that these groups have anywhere, the places of each shortly after one another."""
        if self._ensemble:
            yield from self._ensemble.read([each.group for each in groups if each.in_zookeeper])
        at_shim = [Wanted(each.group, each.log_node) for each in groups if each.log_node is not None]
        yield from _twice(lambda: list(read_committed(LOG, self._shim, at_shim)))
        at_brokers = [Wanted(each.group, each.upstream_node) for each in groups if each.upstream_node is not None]
        yield from _twice(lambda: list(read_committed(UPSTREAM, self._upstream, at_brokers)))


def _of_groups(found: Sequence[Reading], groups: Sequence[WhereGroup]) -> Iterator[tuple[Any, ...]]:
    """What could not be read of a group as a whole is not known of any of its partitions."""
    steps = {each.group: each.step for each in groups}
    unread: dict[str, set[str]] = {}
    for each in found:
        if each.partition == NO_PARTITION and not each.topic:
            unread.setdefault(each.group, set()).add(each.place)
    for each in found:
        yield (*each, steps[each.group], ",".join(sorted(unread.get(each.group, ()))))


def _twice(read: Callable[[], list[Reading]]) -> list[Reading]:
    """A connection that had been open for a while may be lost; a new one tells whether the place is."""
    try:
        return read()
    except CannotRead:
        return read()


def log_ends(upstream: Sequence[HostPort]) -> Task:
    """Of batches with a column ``topic``: batches of ``LOG_ENDS_SCHEMA``."""

    def read(batches: Batches) -> Batches:
        with ExitStack() as opened:
            brokers: Brokers | None = None
            for batch in batches:
                for topics in portions(batch.column("topic").to_pylist(), _TOPICS_A_PORTION):
                    brokers = brokers or opened.enter_context(Brokers("the cluster", upstream))
                    yield from _batches(read_log_ends(brokers, topics), _arrow(LOG_ENDS_SCHEMA))

    return read


def judged(rules: Rules, looks: int) -> Task:
    """Adds the verdicts and the lag to batches that have ``zookeeper``, ``log`` and ``upstream``, ``step``,
    ``log_end``, ``unreadable`` (places, comma between them), and at the second look ``before_zookeeper`` and so on, and
    ``before_unreadable``."""

    def added(batches: Batches) -> Batches:
        for batch in batches:
            now = _offsets(batch, "")
            before = _before(batch, now) if looks > 1 else [None] * batch.num_rows
            steps, ends, unreadable = (batch.column(each).to_pylist() for each in ("step", "log_end", "unreadable"))
            verdicts = [
                judge(rules, step, offsets, then, bad.split(",") if bad else ())
                for step, offsets, then, bad in zip(steps, now, before, unreadable, strict=True)
            ]
            lags = pa.array([lag(offsets, end) for offsets, end in zip(now, ends, strict=True)], pa.int64())
            columns = [pa.array([each and each.value for each in one], pa.string()) for one in _columns(verdicts, 3)]
            names = [*batch.schema.names, "lag", *(pair.column for pair in PAIRS)]
            yield pa.RecordBatch.from_arrays([*batch.columns, lags, *columns], names)

    return added


def _before(batch: pa.RecordBatch, now: Sequence[Offsets]) -> Sequence[Offsets | None]:
    """What the first look has found. Of a place that it could not read nobody knows that it has moved."""
    unreadable = batch.column("before_unreadable").to_pylist()
    return [
        then._replace(**{place: its.of(place) for place in bad.split(",") if place}) if bad else then
        for then, its, bad in zip(_offsets(batch, "before_"), now, unreadable, strict=True)
    ]


def _offsets(batch: pa.RecordBatch, prefix: str) -> list[Offsets]:
    columns = (batch.column(f"{prefix}{place}").to_pylist() for place in Offsets._fields)
    return [Offsets(*each) for each in zip(*columns, strict=True)]


def _rows(batch: pa.RecordBatch, kind: Callable[..., Row]) -> Iterator[Row]:
    return (kind(*row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Batches:
    for some in portions(rows, _ROWS_A_BATCH):
        yield from _as_batch(some, schema).to_batches()


def _as_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = _columns(rows, len(schema))
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) or [()] * count
