"""The offsets of all groups at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from pipeline.history.jobs.commits import KEY, LOG, ORDER, Source
from protocol.offsets_log import NO_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VALUE: Final = ("offset", "leader_epoch", "metadata", "commit_timestamp")
_LOG_ALONE: Final = tuple(name for name in LOG if name not in KEY)


class State(NamedTuple):
    """``offsets``: group, topic, partition, offset, leader_epoch, metadata, commit_timestamp and expire_timestamp of
    what was in force; ``found_in``: ``log``, or ``history`` where the log has only what came later; ``gone_since``: the
    log has nothing of it any more, so it was deleted, and nobody knows whether before the moment.

    ``later_only``: how many keys are there of which everything that is known came after the moment. They were new then,
    or what they had is not known. ``history_begins``: the oldest commit in the history; None without one.
    """

    offsets: pa.Table
    later_only: int
    history_begins: int | None


def state_at(source: Source, at_ms: int) -> DataFrame:
    """All keys with what is known of them at that moment: to be collected, and given to :func:`state_of`.

    Of a data directory from log and history, as the log forgets what was overwritten, and of the history
    commits alone are read; of a broker's from what compaction has left in its log. The time of a commit is that of the
    coordinator's decision in the history, and that of the write, a little later, in the log: what was decided by then
    counts.
    """
    by_then = F.col("effective_timestamp") <= at_ms
    keys = source.log.groupBy(*KEY).agg(
        _last(_LOG_ALONE, F.col("log_offset"), by_then).alias("log"), F.lit(True).alias("in_log")
    )
    if source.has_history:
        of_history = source.commits().groupBy(*KEY).agg(
            _last((*_VALUE, "time"), F.struct(*ORDER), F.col("time") <= at_ms).alias("history"),
            F.min("time").alias("history_begins"),
        )  # fmt: skip
        keys = keys.join(of_history, list(KEY), "full")
        by_history = F.col("log").isNull() | (F.col("history.time") > F.col("log.effective_timestamp"))
        by_history &= F.col("history").isNotNull()
        values = [F.when(by_history, F.col(f"history.{name}")).otherwise(F.col(f"log.{name}")) for name in _VALUE]
        begins: Column = F.col("history_begins")
    else:
        by_history = F.lit(False)
        values = [F.col(f"log.{name}") for name in _VALUE]
        begins = F.lit(None).cast("bigint")
    known = by_history | F.col("log").isNotNull()
    return keys.select(
        *KEY,
        *(value.alias(name) for name, value in zip(_VALUE, values, strict=True)),
        F.when(by_history, F.lit(NO_TIMESTAMP)).otherwise(F.col("log.expire_timestamp")).cast("bigint")
        .alias("expire_timestamp"),
        F.when(by_history, F.lit("history")).otherwise(F.lit("log")).alias("found_in"),
        F.col("in_log").isNull().alias("gone_since"),
        known.alias("known"),
        (by_history | ~F.coalesce(F.col("log.is_tombstone"), F.lit(True))).alias("in_force"),
        begins.alias("history_begins"),
    ).orderBy(*KEY)  # fmt: skip


def state_of(keys: pa.Table, *, by_log_alone: bool = False) -> State:
    """What :func:`state_at` says, collected. ``by_log_alone``: the moment is now, and of what the log has nothing of
    nothing is served."""
    if by_log_alone:
        keys = keys.filter(pc.invert(keys["gone_since"]))
    offsets = keys.filter(keys["in_force"]).drop_columns(["known", "in_force", "history_begins"])
    later_only = pc.sum(pc.invert(keys["known"])).as_py() or 0
    return State(offsets, later_only, pc.min(keys["history_begins"]).as_py())


def _last(names: tuple[str, ...], order: Column, when: Column) -> Column:
    """Of the rows of which that is true the last one; null where there is none."""
    return F.max_by(F.struct(*names), F.when(when, order))
