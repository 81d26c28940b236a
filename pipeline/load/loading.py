"""A load: batch after batch into the table, and the group's offsets after each."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from pipeline.errors import NotDone, SomethingWrong
from pipeline.load.cluster import ClusterOfGroup, Topics
from pipeline.load.offsets import Offsets, Range, TopicPartition
from pipeline.load.planning import Plan, check_ends, plan_batch, told_gaps
from pipeline.load.reconciling import Reconciled, check_same, known_ids, made_anew, reconcile
from pipeline.load.record import BatchRecord
from pipeline.load.rows import LATEST_TIMESTAMP_MS, PARTITION_COLUMNS, Reading, rows
from pipeline.load.sinks import Sink
from pipeline.spark.failures import spark_failures
from pipeline.spark.progress import watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

From: TypeAlias = Literal["earliest", "latest"]


@dataclass(frozen=True)
class Loading:
    """What is asked for. ``most``: offsets of one partition in one batch; None: all there are. ``begin``: of topics of
    which neither the table nor the group knows anything."""

    topics: Sequence[str]
    reading: Reading
    begin: From = "earliest"
    most: int | None = None
    accept: bool = False


@dataclass(frozen=True)
class Standing:
    """Where a load stands before it reads anything. ``anew``: topics that are not those which the table has. ``ends``:
    up to where it will read."""

    topics: Topics
    last: BatchRecord | None
    reconciled: Reconciled
    anew: frozenset[str]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


@dataclass
class Loaded:
    """What a load has done. ``gaps`` were passed over; of ``perhaps``, which retention deleted while a batch was read,
    there may be rows."""

    batches: list[Plan] = field(default_factory=list)
    caught_up: dict[TopicPartition, int] = field(default_factory=dict)
    gaps: list[Range] = field(default_factory=list)
    perhaps: list[Range] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def offsets(self) -> int:
        return sum(plan.offsets for plan in self.batches)


def look(cluster: ClusterOfGroup, sink: Sink, loading: Loading) -> Standing:
    """Changes nothing. Raises NotDone where a load cannot go on: no such topic, a group in use, or moved."""
    topics = cluster.topics(loading.topics)
    cluster.check_idle()
    last = sink.last()
    anew = check_same(last, topics.cluster_id, topics.topic_ids, accept=loading.accept)
    found = reconcile(last, cluster.committed(), topics.partitions, accept=loading.accept, anew=anew)
    known = {at.topic for at in found.starts}
    ends = cluster.ends(topics.partitions)
    earliest = cluster.earliest(at for at in topics.partitions if at not in found.starts)
    # A partition that a known topic was given later begins at its beginning: nobody has read anything of it.
    begins = {
        at: ends[at] if loading.begin == "latest" and at.topic not in known else offset
        for at, offset in earliest.items()
    }
    starts = begins | found.starts
    check_ends(starts, ends)
    return Standing(topics, last, found, frozenset(anew), starts, ends)


def next_plan(cluster: ClusterOfGroup, loading: Loading, starts: Offsets, ends: Offsets) -> Plan:
    """Empty when nothing is left to read. Raises NotDone for a gap that may not be passed over."""
    left = {at: start for at, start in starts.items() if start < ends[at]}
    return plan_batch(left, cluster.earliest(left), ends, most=loading.most, allow_gaps=loading.reading.allow_gaps)


def load(
    spark: SparkSession,
    cluster: ClusterOfGroup,
    sink: Sink,
    loading: Loading,
    *,
    tell: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
) -> Loaded:
    """Everything up to the ends that are taken now, one batch after the other.

    The order of each batch: plan, one commit of rows and ends to the table, a look at topics and group, one commit of
    the group. Whatever breaks off in between, the next load finds out from the table. Raises NotDone and
    SomethingWrong; the batches before are whole then.
    """
    standing = look(cluster, sink, loading)
    loaded = Loaded(caught_up=standing.reconciled.behind, ends=dict(standing.starts))
    if loaded.caught_up:
        tell(f"the group was behind the table: {len(loaded.caught_up)} of its offsets are set to what was loaded")
    known = _known(standing)
    begun: Offsets = {}
    if loading.begin == "latest":
        # Where a load begins has to be known to the next one, though there is nothing to read yet. Until there is a
        # batch that says it the group alone does, and each load commits it anew, so that it does not expire.
        in_table = {} if known is None else known.ends
        begun = {at: start for at, start in standing.starts.items() if at not in in_table}
    cluster.commit({**begun, **loaded.caught_up})
    # What was accepted has to be in the table, though there is nothing to read: the next load would refuse it again.
    accepted = bool(standing.reconciled.moved or standing.anew)
    while not stopped():
        plan = next_plan(cluster, loading, loaded.ends, standing.ends)
        if not plan and not accepted:
            break
        accepted = False
        known = _after(known, plan, sink.next_number(known), standing, begun, cluster.group)
        left = sum(standing.ends[at] - start for at, start in loaded.ends.items() if start < standing.ends[at])
        _add(spark, cluster, sink, loading.reading, plan, known, left)
        loaded.batches.append(plan)
        loaded.gaps += plan.gaps
        if loading.reading.allow_gaps:
            loaded.perhaps += _opened(cluster, plan)
        try:
            _check_still_same(cluster, loading, standing)
            # What the next load would refuse this one does not undo either.
            cluster.commit(reconcile(known, cluster.committed(), plan.ends).behind)
        except NotDone as error:
            raise SomethingWrong(
                f"batch {known.number} is in the table, and the next load finds it there: {error}"
            ) from error
        loaded.ends |= plan.ends
    return loaded


def _add(
    spark: SparkSession,
    cluster: ClusterOfGroup,
    sink: Sink,
    reading: Reading,
    plan: Plan,
    record: BatchRecord,
    left: int,
) -> None:
    """``left``: how many offsets are yet to be read, with those of this plan."""
    try:
        with watching(spark, f"batch {record.number}: {plan.offsets:,} of {left:,} offsets"):
            with spark_failures(f"batch {record.number}"):
                frame = rows(spark, reading, plan)
            sink.add(record, frame, PARTITION_COLUMNS[reading.partition_by])
    except SomethingWrong as error:
        try:
            why = _cannot_be_read(cluster, plan, reading)
        except NotDone:
            raise error from None  # which came first
        if why:
            raise SomethingWrong(f"batch {record.number}: {why}") from error
        raise


def _cannot_be_read(cluster: ClusterOfGroup, plan: Plan, reading: Reading) -> str | None:
    """What of the plan Spark fails at, and has other words for, or none."""
    opened = [] if reading.allow_gaps else _opened(cluster, plan)
    if opened:
        return told_gaps(opened)
    since = cluster.first_since((each.at for each in plan.ranges), LATEST_TIMESTAMP_MS + 1)
    late = [f"{each.at} at offset {since[each.at]}" for each in plan.ranges if each.start <= since[each.at] < each.end]
    return f"no time that Spark knows (is it in micro- or nanoseconds?): the timestamp of {late[0]}" if late else None


def _check_still_same(cluster: ClusterOfGroup, loading: Loading, standing: Standing) -> None:
    """Raises NotDone where a topic is another one than this load has begun with: rows may be of either."""
    if anew := made_anew(standing.topics.topic_ids, cluster.topics(loading.topics).topic_ids):
        raise NotDone(f"topic {', '.join(sorted(anew))} was deleted and made anew while it was loaded")


def _known(standing: Standing) -> BatchRecord | None:
    """The last batch, without what is void of it, and with what is accepted of the group."""
    last = standing.last
    if last is None:
        return None
    if standing.topics.cluster_id and last.cluster_id not in ("", standing.topics.cluster_id):
        return replace(last, starts={}, ends={}, topic_ids={}, cluster_id=standing.topics.cluster_id)
    moved = {one.at: one.committed for one in standing.reconciled.moved}
    return replace(
        last,
        starts={at: offset for at, offset in last.starts.items() if at.topic not in standing.anew} | moved,
        ends={at: offset for at, offset in last.ends.items() if at.topic not in standing.anew} | moved,
    )


def _after(
    before: BatchRecord | None, plan: Plan, number: int, standing: Standing, begun: Offsets, group: str
) -> BatchRecord:
    starts, ends = ({}, {}) if before is None else (before.starts, before.ends)
    return BatchRecord(
        group=group,
        number=number,
        batch_id=str(uuid.uuid4()),
        cluster_id=standing.topics.cluster_id,
        topic_ids=({} if before is None else dict(before.topic_ids)) | known_ids(standing.topics.topic_ids),
        starts={**begun, **starts, **plan.starts},
        ends={**begun, **ends, **plan.ends},
        gaps=plan.gaps,
    )


def _opened(cluster: ClusterOfGroup, plan: Plan) -> list[Range]:
    """Of what was planned, what retention has deleted since."""
    earliest = cluster.earliest(each.at for each in plan.ranges)
    return [
        Range(each.at, each.start, min(earliest[each.at], each.end))
        for each in plan.ranges
        if earliest[each.at] > each.start
    ]
