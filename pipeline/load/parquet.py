"""Batches as folders of Parquet files: a folder gets its name when it is whole, and holds the batch's record.

::

    <to>/batch=<group>-00000001/          one batch: what readers see
        _offsets.json, _schema.json       its record; its columns
        part-….parquet, or date=…/, topic=…/
    <to>/_loading/<group>-00000002-<id>/  one that is being written; readers pass over names with a leading underscore

The rename is all that makes a batch visible, rows and record in one step, so a load that dies before it has done
nothing, and plans anew. That takes a file system whose renames are atomic: local disks, NFS, HDFS. Object stores copy
instead: there it has to be Delta Lake.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pipeline.errors import NotDone, SomethingWrong
from pipeline.load.hadoop_files import HadoopFiles
from pipeline.load.record import BadRecord, BatchRecord, read_record
from pipeline.spark.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOADING: Final = "_loading"
_RECORD: Final = "_offsets.json"
_SCHEMA: Final = "_schema.json"
_PREFIX: Final = "batch="
_LONGEST_NAME: Final = 100  # of a group; the rest is a digest
_ID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Of a batch. Nothing shorter: of group ``a`` the rest of the name must not fit group ``a-5``."""


class ParquetSink:
    """The folder ``path``, made by the first batch. Other groups may load into it, too: all with the same columns."""

    def __init__(self, spark: SparkSession, path: str, group: str) -> None:
        self._files = HadoopFiles(spark, path)
        self._path = path
        self._group = group

    def last(self) -> BatchRecord | None:
        if "_delta_log" in self._files.names():
            raise NotDone(f"{self._path} is a Delta Lake table: --format delta")
        numbers = self._numbers()
        return self._record(max(numbers)) if numbers else None

    def next_number(self, last: BatchRecord | None) -> int:
        return 1 if last is None else last.number + 1

    def add(self, record: BatchRecord, frame: DataFrame, partition_columns: Sequence[str]) -> None:
        columns = f"{frame.schema.json()}\n{','.join(partition_columns)}\n"
        self._check_columns(columns)
        loading = f"{_LOADING}/{_named(self._group)}-{record.number:08d}-{record.batch_id}"
        batch = _batch(self._group, record.number)
        with spark_failures(f"batch {record.number}"):
            frame.write.partitionBy(*partition_columns).parquet(self._files.path(loading))
        self._files.write(f"{loading}/{_SCHEMA}", columns)
        self._files.write(f"{loading}/{_RECORD}", record.as_json())
        try:
            self._files.rename(loading, batch)
        except SomethingWrong:
            last = self.last()
            if last is not None and last.batch_id == record.batch_id:
                return  # it was renamed, and the answer got lost
            self._files.delete(loading)
            raise
        self._clean(record.number)

    def _clean(self, number: int) -> None:
        """What loads that died have left: no batch up to this one can be made any more."""
        for name in self._files.names(_LOADING):
            matched = re.fullmatch(rf"{re.escape(_named(self._group))}-(\d+)-{_ID}", name)
            if matched and int(matched[1]) <= number:
                self._files.delete(f"{_LOADING}/{name}")

    def _check_columns(self, columns: str) -> None:
        """Readers take the columns of one file for those of all. Raises NotDone where batches before have others."""
        batches = [name for name in self._files.names() if name.startswith(_PREFIX)]
        known = self._files.read(f"{batches[-1]}/{_SCHEMA}") if batches else columns
        if known is None:
            raise NotDone(f"{self._path}/{batches[-1]} is no batch of a load: {_SCHEMA} is missing")
        if known != columns:
            raise NotDone(f"{self._path} has other columns: what --value, --schema and --partition-by say has to stay")

    def _numbers(self) -> list[int]:
        found = (
            re.fullmatch(rf"{re.escape(_PREFIX + _named(self._group))}-(\d+)", name) for name in self._files.names()
        )
        return [int(matched[1]) for matched in found if matched]

    def _record(self, number: int) -> BatchRecord:
        name = f"{_batch(self._group, number)}/{_RECORD}"
        text = self._files.read(name)
        try:
            record = None if text is None else read_record(text)
        except BadRecord as error:
            raise NotDone(f"{self._path}/{name}: {error}") from error
        if record is None or record.group != self._group or record.number != number:
            raise NotDone(f"{self._path}/{name} is missing, or no record of batch {number} of group {self._group}")
        return record


def _batch(group: str, number: int) -> str:
    return f"{_PREFIX}{_named(group)}-{number:08d}"


def _named(group: str) -> str:
    """A group as part of a file's name: the same for no two groups."""
    name = quote(group, safe="")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}~{hashlib.sha256(group.encode()).hexdigest()[:16]}"
