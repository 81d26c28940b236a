"""Batches in a Delta Lake table: rows, number and ends are one commit of its log.

What a commit carries is read in the log itself (https://github.com/delta-io/delta/blob/master/PROTOCOL.md): a file for
each version, an action a line, ``commitInfo`` first. Asking Spark for it takes jobs, and seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pipeline.errors import NotDone, SomethingWrong
from pipeline.load.hadoop_files import HadoopFiles
from pipeline.load.record import BadRecord, BatchRecord, read_record
from pipeline.spark.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG: Final = "_delta_log"


class DeltaSink:
    """The table at ``path``, made by the first batch. Other groups, and other writers, may write to it too.

    ``txnAppId`` and ``txnVersion`` are of the group: a batch that is already there is not added again, and of two that
    are added at once, one is refused.
    """

    def __init__(self, spark: SparkSession, path: str, group: str, *, without_history: bool = False) -> None:
        """``without_history``: a table whose log was cleaned up past this group's last batch has no word of it."""
        self._files = HadoopFiles(spark, path)
        self._path = path
        self._group = group
        self._without_history = without_history

    def last(self) -> BatchRecord | None:
        versions = self._versions()
        if not versions and any(name.startswith("batch=") for name in self._files.names()):
            raise NotDone(f"{self._path} holds batches of Parquet: --format parquet")
        for version in reversed(versions):
            record = self._of_group(version)
            if record is not None:
                return record
        if versions and versions[0] > 0 and not self._without_history:
            raise NotDone(
                f"the log of {self._path} goes back to version {versions[0]} only, and what group {self._group} has "
                "loaded before cannot be told: --accept-group-offsets goes on from where it is"
            )
        return None

    def next_number(self, last: BatchRecord | None) -> int:
        if last is not None:
            return last.number + 1
        versions = self._versions()
        if not versions or versions[0] == 0:
            return 1  # nothing was cleaned up. It is the same for two loads that begin at once: one of them is refused
        # There may have been some whose record was cleaned up. Each made a version, so none has a number beyond that.
        return versions[-1] + 2

    def add(self, record: BatchRecord, frame: DataFrame, partition_columns: Sequence[str]) -> None:
        writer = frame.write.format("delta").mode("append").partitionBy(*partition_columns)
        with spark_failures(f"batch {record.number}"):
            writer.options(
                txnAppId=f"offset-pipeline load {record.group}",
                txnVersion=str(record.number),
                userMetadata=record.as_json(),
            ).save(self._path)
        last = self.last()
        if last is None or last.batch_id != record.batch_id:
            # Delta passes over a number that the table has already, without a word.
            raise SomethingWrong(
                f"another load of group {record.group} has added batch {record.number}: this one did not"
            )

    def _versions(self) -> list[int]:
        found = (re.fullmatch(r"(\d{20})\.json", name) for name in self._files.names(_LOG))
        return sorted(int(matched[1]) for matched in found if matched)

    def _of_group(self, version: int) -> BatchRecord | None:
        text = self._files.read(f"{_LOG}/{version:020d}.json")
        for metadata in _user_metadata(text or ""):  # nothing: it was cleaned up meanwhile
            try:
                record = read_record(metadata)
            except BadRecord as error:
                raise NotDone(f"version {version} of {self._path} has a bad batch record: {error}") from error
            if record is not None and record.group == self._group:
                return record
        return None


def _user_metadata(text: str) -> Iterator[str]:
    for line in text.split("\n"):  # what else Python takes for the end of a line may stand in other writers' text
        if '"commitInfo"' not in line:
            continue
        action = json.loads(line)
        metadata = action.get("commitInfo", {}).get("userMetadata")
        if isinstance(metadata, str):
            yield metadata
