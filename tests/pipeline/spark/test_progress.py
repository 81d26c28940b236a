"""The jobs of Spark that are shown to be under way."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import pytest

from pipeline.spark import progress, watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_jobs_of_spark_are_watched_and_not_those_after(spark: SparkSession) -> None:
    context = spark.sparkContext
    with watching(spark, "counting"):
        assert spark.range(10).count() == 10
        group = context.getLocalProperty("spark.jobGroup.id")
        assert group is not None
        assert context.statusTracker().getJobIdsForGroup(group)
    assert context.getLocalProperty("spark.jobGroup.id") is None


def test_it_is_not_all_while_more_may_come(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks that were known had ended, and 100 % stood there for minutes."""
    told: list[tuple[int, int]] = []
    is_told = threading.Event()

    class Shown:
        def __init__(self, what: str, total: int | None) -> None:
            assert (what, total) == ("counting", None)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def so_far(self, done: int, total: int) -> None:
            told.append((done, total))
            is_told.set()

    monkeypatch.setattr(progress, "Ongoing", Shown)
    with watching(spark, "counting"):
        assert spark.range(10).count() == 10
        is_told.clear()
        assert is_told.wait(30)
    assert told[-1][0] > 0
    assert all(done < total for done, total in told)
