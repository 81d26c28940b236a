"""Progress where no terminal is: a line every five seconds."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pipeline.spark import Ongoing, watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_line_every_five_seconds() -> None:
    now = 0.0
    said = io.StringIO()
    with Ongoing("reading", 200, stream=said, clock=lambda: now) as ongoing:
        ongoing.advance(10)
        now = 5.0
        ongoing.advance(10)
        now = 6.0
        ongoing.advance(100)
        now = 11.0
        ongoing.so_far(300)
    assert said.getvalue().splitlines() == ["reading: 10 %", "reading: 100 %"]


def test_where_the_total_is_not_known_yet() -> None:
    now = 0.0
    said = io.StringIO()
    with Ongoing("reading", 0, stream=said, clock=lambda: now) as ongoing:
        now = 5.0
        ongoing.so_far(1_200)
        now = 10.0
        ongoing.so_far(1_200, 2_400)
    assert said.getvalue().splitlines() == ["reading: 1,200", "reading: 50 %"]


def test_jobs_of_spark_are_watched_and_not_those_after(spark: SparkSession) -> None:
    context = spark.sparkContext
    with watching(spark, "counting"):
        assert spark.range(10).count() == 10
        group = context.getLocalProperty("spark.jobGroup.id")
        assert group is not None
        assert context.statusTracker().getJobIdsForGroup(group)
    assert context.getLocalProperty("spark.jobGroup.id") is None
