"""Files where the executors write them, on any file system that Hadoop knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.spark.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """Below the folder ``root``; names are relative to it. Raises SomethingWrong for what the file system refuses."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None, "the session runs"
        self._jvm: Any = jvm
        self._gateway: Any = spark.sparkContext._gateway
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        with spark_failures(root):
            self._root = self._jvm.org.apache.hadoop.fs.Path(root)
            self._files = self._root.getFileSystem(configuration)
            self._root = self._files.makeQualified(self._root)
            self._renaming = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                self._root.toUri(), configuration
            )

    def path(self, name: str) -> str:
        """What Spark is given to write to."""
        return str(self._path(name).toString())

    def names(self, name: str = "") -> list[str]:
        """What a folder has in it; nothing where there is none."""
        with spark_failures(self.path(name)):
            path = self._path(name)
            if not self._files.exists(path):
                return []
            return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none."""
        with spark_failures(self.path(name)):
            path = self._path(name)
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode("utf-8", "replace")
            finally:
                stream.close()

    def write(self, name: str, text: str) -> None:
        """A new file, and its folder; durable when this returns, where the file system can."""
        with spark_failures(self.path(name)):
            stream = self._files.create(self._path(name), False)
            try:
                stream.write(bytearray(text.encode()))
                stream.hsync()
            finally:
                stream.close()

    def rename(self, name: str, new: str) -> None:
        """In one step, and only where there is nothing of that name."""
        options = self._gateway.new_array(getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename"), 0)
        with spark_failures(self.path(new)):
            self._renaming.rename(self._path(name), self._path(new), options)

    def delete(self, name: str) -> None:
        """A file or folder with all in it, if it is there."""
        with spark_failures(self.path(name)):
            self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root
