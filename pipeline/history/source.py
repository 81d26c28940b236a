"""``spark.read.format("offsetlog")``: the log, its history, and brokers' `__consumer_offsets`, as tables.

::

    spark.dataSource.register(OffsetLogSource)
    spark.read.format("offsetlog").option("what", "history").option("groups", "billing").load(DIR)

===================  ===================================================================================================
option               is
===================  ===================================================================================================
path, paths          a data directory of the shim's, or a broker's log directory; many: a JSON list in ``paths``
what                 ``offsets`` (default), ``history`` or ``segments``: :mod:`pipeline.history.schemas`
columns              names with commas between; others are not even decoded. ``.schema(…)`` does the same
groups               one name, or a JSON list: of these alone, and their partitions alone are opened where it is known
                     how many there are (all of a data directory; of a broker's with ``num_partitions``)
partitions           log partitions, numbers with commas between
num_partitions       of a broker's directories: ``offsets.topic.num.partitions``
topic                of ``segments``: which log, ``__consumer_offsets`` (default) or ``__offset_shim_history``
newest               ``true``: of each log partition the newest segment alone
skip_damaged         ``true``: read on behind damage; ``segments`` tells what there is of it
===================  ===================================================================================================

Spark 4.0 tells a Python data source neither which columns a query needs nor what it filters by (4.1 does the latter),
so both are options. One task reads one segment, or some small
ones; paths have to mean the same to the driver and to the executors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pipeline.history.errors import UnreadableLog
from pipeline.history.reading import Question, read_segment
from pipeline.history.schemas import COLUMNS, HISTORY, OFFSETS, ddl
from pipeline.history.segments import OFFSETS_TOPIC, Segment, Wanted, segments_in
from protocol.own.history_log import HISTORY_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "offsetlog"
_TOPICS: Final = {OFFSETS: OFFSETS_TOPIC, HISTORY: HISTORY_TOPIC}


_SMALL: Final = 16 << 20
"""Bytes of segments that one task reads where they are small: a log has many partitions, most of them are small, and to
begin a task takes as long as to read some MiB."""


class _Segments(InputPartition):
    def __init__(self, segments: tuple[Segment, ...]) -> None:
        super().__init__(tuple(segment.path for segment in segments))
        self.segments = segments


class OffsetLogSource(DataSource):
    """To be registered once in a session."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        what = self._what()
        known = COLUMNS[what]
        named = self.options.get("columns")
        names = tuple(known) if named is None else tuple(name.strip() for name in named.split(","))
        return ddl(what, _known(what, names))

    def reader(self, schema: StructType) -> DataSourceReader:
        what = self._what()
        _known(what, schema.names)
        for field in schema.fields:
            if field.dataType.simpleString() != COLUMNS[what][field.name]:
                raise UnreadableLog(f"column {field.name} is of type {COLUMNS[what][field.name]}")
        groups = self.options.get("groups")
        question = Question(
            what, tuple(schema.names), None if groups is None else _listed(groups),
            skip_damaged=self._is_set("skip_damaged"),
        )  # fmt: skip
        return OffsetLogReader(self._segments(question), question)

    def _what(self) -> str:
        what: str = self.options.get("what", OFFSETS)
        if what not in COLUMNS:
            raise UnreadableLog(f"what: {what} is none of {', '.join(COLUMNS)}")
        return what

    def _segments(self, question: Question) -> list[Segment]:
        paths = [self.options[name] for name in ("path",) if name in self.options]
        if "paths" in self.options:
            paths += _listed(self.options["paths"])
        if not paths:
            raise UnreadableLog("no directory is given: load(DIR)")
        partitions, count = self.options.get("partitions"), self.options.get("num_partitions")
        wanted = Wanted(
            None if partitions is None else frozenset(map(int, partitions.split(","))),
            question.groups,
            None if count is None else int(count),
        )
        topic = _TOPICS.get(question.what) or self.options.get("topic", OFFSETS_TOPIC)
        with _told_as_ours():
            found = segments_in(paths, topic, wanted)
        return [each for each in found if each.next_base is None] if self._is_set("newest") else found

    def _is_set(self, option: str) -> bool:
        return bool(self.options.get(option, "false").lower() == "true")


class OffsetLogReader(DataSourceReader):
    """One task for each segment."""

    def __init__(self, segments: Sequence[Segment], question: Question) -> None:
        self._segments = segments
        self._question = question

    def partitions(self) -> Sequence[InputPartition]:
        return [_Segments(tuple(bundle)) for bundle in bundled(self._segments)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        # Where there is no partition at all Spark asks for one that is None.
        for segment in partition.segments if isinstance(partition, _Segments) else ():
            with _told_as_ours():
                yield from read_segment(segment, self._question)


def bundled(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """For each task its segments: one that is not small, or some that are. Newest ones that are empty are left out."""
    bundle: list[Segment] = []
    size = 0
    for segment in segments:
        if not segment.size and segment.next_base is None:
            continue
        if bundle and size + segment.size > _SMALL:
            yield bundle
            bundle, size = [], 0
        bundle.append(segment)
        size += segment.size
    if bundle:
        yield bundle


@contextmanager
def _told_as_ours() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnreadableLog(f"{error.filename}: {error.strerror}") from error


def _known(what: str, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in COLUMNS[what]:
            raise UnreadableLog(f"{what} has no column {name}: {', '.join(COLUMNS[what])}")
    return tuple(names)


def _listed(text: str) -> tuple[str, ...]:
    """One name, or a JSON list of them: any character can be in one."""
    if not text.startswith("["):
        return (text,)
    listed: Any = json.loads(text)
    return tuple(str(each) for each in listed)
