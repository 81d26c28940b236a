"""A JVM that has ended is told as such, whatever py4j says of it."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from pipeline.errors import SomethingWrong
from pipeline.spark import spark_failures

OUT_OF_MEMORY = ", out of memory: it has more with --conf spark.driver.memory=4g"


@pytest.mark.parametrize(("status", "more"), [(52, OUT_OF_MEMORY), (1, ""), (137, "")])
@pytest.mark.parametrize(
    "raised",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        # Where it ends while PySpark looks at what it has raised.
        Py4JError("py4j.reflection.TypeUtil.isInstanceOf does not exist in the JVM"),
        ConnectionRefusedError(111, "Connection refused"),
        PySparkException("Job 0 cancelled because SparkContext was shut down"),
    ],
)
def test_a_jvm_that_has_ended(monkeypatch: pytest.MonkeyPatch, raised: Exception, status: int, more: str) -> None:
    process = subprocess.Popen(["sh", "-c", f"exit {status}"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    with pytest.raises(SomethingWrong) as told, spark_failures("batch 1"):
        raise raised
    assert str(told.value) == f"batch 1: Spark's JVM has ended{more}"


def test_a_jvm_of_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace())
    with pytest.raises(SomethingWrong, match=r"batch 1: Spark's JVM has ended$"), spark_failures("batch 1"):
        raise Py4JNetworkError("Answer from Java side is empty")
    with pytest.raises(SomethingWrong, match=r"batch 1: no such method$"), spark_failures("batch 1"):
        raise Py4JError("no such method")
