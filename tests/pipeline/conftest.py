"""One Spark session for all tests of the pipeline: it takes seconds to start, and half a gigabyte."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pipeline.spark import SparkSettings, spark_session
from tests.pipeline.commands import Run, in_a_process, runs_here

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
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a session of the tests, and, as `--conf`, for a command that runs in a process of its own."""


os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.pop("PYSPARK_PYTHON", None)  # which one it is by default is the session's to say
    with spark_session("tests", SparkSettings(MASTER, SMALL)) as session:
        gc.freeze()  # what was there before is not looked through after each test
        yield session


@pytest.fixture
def conf_options() -> list[str]:
    """What a command that starts its own Spark is given to stay small."""
    return ["--master", MASTER, *(text for name, value in SMALL.items() for text in ("--conf", f"{name}={value}"))]


@pytest.fixture(params=["here", pytest.param("in a process", marks=pytest.mark.soak)])
def run_pipeline(
    request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, conf_options: list[str]
) -> Run:
    """Runs `offset-pipeline …`; with a Spark of its own, which takes 20 s of processor time, in the full form alone."""
    if request.param == "here":
        return runs_here(spark, monkeypatch)
    return lambda *words: in_a_process(*words, *conf_options)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # PySpark reads what it collects from a socket that it leaves for the garbage collector to close.
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _sockets_of_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Gone with the test: another one would be told of them."""
    yield
    if "spark" in request.fixturenames:
        gc.collect()
