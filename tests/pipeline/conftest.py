"""One Spark session for all tests of the pipeline: it takes seconds to start, and half a gigabyte."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pipeline.spark import SparkSettings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[2]"
SMALL: Final[Mapping[str, str]] = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Python workers and the JVM of the tests are small, and not left behind.
    "spark.python.worker.reuse": "true",
    # Little data is worth no compiling.
    "spark.sql.codegen.wholeStage": "false",
}
"""For a session of the tests, and, as `--conf`, for a command that runs in a process of its own."""


os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with spark_session("tests", SparkSettings(MASTER, SMALL)) as session:
        yield session


@pytest.fixture
def conf_options() -> list[str]:
    """What a command that starts its own Spark is given to stay small."""
    return ["--master", MASTER, *(text for name, value in SMALL.items() for text in ("--conf", f"{name}={value}"))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # PySpark reads what it collects from a socket that it leaves for the garbage collector to close.
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _sockets_of_spark() -> Iterator[None]:
    """Gone with the test: another one would be told of them."""
    yield
    if "pyspark" in sys.modules:
        gc.collect()
