"""What an audit leaves in ``--to``: all of it, or nothing. It is any folder of a file system that Spark knows, and that
driver and executors share."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import NotDone, SomethingWrong
from pipeline.spark import failure_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET: Final = "parquet"
CSV: Final = "csv"
HTML: Final = "html"
FORMATS: Final = (PARQUET, CSV, HTML)
CONTENTS: Final[Mapping[str, Mapping[str, str]]] = {
    PARQUET: {
        "offsets.parquet": "every partition, with what each place has and the verdicts",
        "groups.parquet": "the summary, a row a group",
    },
    CSV: {"offsets.csv": "the same as offsets.parquet", "groups.csv": "the same as groups.parquet"},
    HTML: {"report.html": "this page"},
}
"""By format: names in the folder, and what they are."""


class Folder:
    """Raises :class:`NotDone` where it cannot be written to, or has something in it."""

    def __init__(self, spark: SparkSession, to: str) -> None:
        self.to = to.rstrip("/") or to
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        with _told(self.to, NotDone):
            self._fs = self._path(self.to).getFileSystem(conf)
            there = self._fs.exists(self._path(self.to))
            empty = there and self._fs.getFileStatus(self._path(self.to)).isDirectory() and not self._names()
        if there and not empty:
            raise NotDone(f"{self.to} is there, and not an empty folder: nothing was read or written")
        self._staging = f"{self.to}.incomplete-{uuid.uuid4().hex[:12]}"

    @contextmanager
    def filling(self) -> Iterator[str]:
        """The path of a folder beside it, which has its name once the block has ended well, and is deleted otherwise.

        Raises :class:`SomethingWrong`.
        """
        try:
            with _told(self.to, SomethingWrong):
                self._fs.mkdirs(self._path(self._staging))
                yield self._staging
                if self._fs.exists(self._path(self.to)):
                    self._fs.delete(self._path(self.to), False)  # it was empty; if it is not any more this fails
                if not self._fs.rename(self._path(self._staging), self._path(self.to)):
                    raise SomethingWrong(f"{self.to}: what was written could not be given this name")
        except BaseException:
            with _told(self._staging, SomethingWrong):
                self._fs.delete(self._path(self._staging), True)
            raise

    def write_text(self, path: str, text: str) -> None:
        """In UTF-8. Raises what the file system does."""
        stream = self._fs.create(self._path(path), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    def _names(self) -> list[str]:
        return [status.getPath().getName() for status in self._fs.listStatus(self._path(self.to))]


def write_tables(folder: str, formats: Collection[str], table: DataFrame, groups: DataFrame) -> None:
    """In the order that they have: of the table by group, so that a reader of one group's rows skips the others'."""
    for name, frame in {"offsets": table, "groups": groups}.items():
        if PARQUET in formats:
            frame.write.parquet(f"{folder}/{name}.parquet")
        if CSV in formats:
            frame.write.csv(
                f"{folder}/{name}.csv", header=True, escape='"', timestampFormat="yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
            )


@contextmanager
def _told(where: str, kind: type[Exception]) -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise kind(f"{where}: {failure_line(error)}") from error
