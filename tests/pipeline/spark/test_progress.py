"""The jobs of Spark that are shown to be under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.spark import watching

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
