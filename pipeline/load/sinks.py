"""Where batches go: what a table has to do, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pipeline.load.record import BatchRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sink(Protocol):
    """A table that batches are added to, whole or not at all."""

    def last(self) -> BatchRecord | None:
        """The newest whole batch of the group; None where it has none. Raises NotDone where that cannot be told."""

    def next_number(self, last: BatchRecord | None) -> int:
        """Of the batch after ``last``: higher than that of any that the group ever added."""

    def add(self, record: BatchRecord, frame: DataFrame, partition_columns: Sequence[str]) -> None:
        """Rows and record become visible in one moment. Raises SomethingWrong, and nothing is visible then, or, where
        the file system did not answer, all of it: ``last`` tells."""
