"""How far Spark's jobs are."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pipeline.spark.failures import unless_gone
from shim.terminal.progress import Ongoing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S: Final = 0.5


@contextmanager
def watching(spark: SparkSession, what: str) -> Iterator[None]:
    """Shows how many tasks of the Spark jobs that are started within have ended."""
    context = spark.sparkContext
    group = f"{what} {time.monotonic_ns()}"
    over = threading.Event()

    def watch(shown: Ongoing) -> None:
        with unless_gone():
            while not over.wait(_LOOK_EVERY_S):
                done, total = _tasks(spark, group)
                if total:
                    shown.so_far(done, total + 1)  # of stages that have not begun Spark tells nothing: never all

    with Ongoing(what, None) as shown:
        thread = threading.Thread(target=watch, args=(shown,), name="pipeline-progress", daemon=True)
        context.setJobGroup(group, what)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            # After Ctrl-C the call under way still has the connection: this one would wait for its end.
            if not isinstance(sys.exception(), KeyboardInterrupt):
                with unless_gone():
                    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None takes it away


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """(ended, known so far)"""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
