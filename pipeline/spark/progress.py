"""How far a job is: a bar on a terminal, else a line every five seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from pipeline.spark.failures import unless_gone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress

_LINE_EVERY_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.5


class Ongoing:
    """One stretch of work on standard error, while it is under way."""

    def __init__(
        self,
        what: str,
        total: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``total`` is in whatever :meth:`so_far` is told in; 0 while it is not known."""
        self._what = what
        self._total = total
        self._stream = stream or sys.stderr
        self._clock = clock
        self._done = 0
        self._share = 0.0
        self._next_line = 0.0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._bar = _started_bar(self._what, self._total, self._stream)
        else:
            self._next_line = self._clock() + _LINE_EVERY_S
        return self

    def advance(self, done: int) -> None:
        self.so_far(self._done + done)

    def so_far(self, done: int, total: int | None = None) -> None:
        """``total``: where more of it has become known; what is shown does not go back for that."""
        self._done = done
        self._total = self._total if total is None else total
        if self._total:
            self._share = max(self._share, min(done / self._total, 1.0))
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._share, total=1.0 if self._total else None)
        elif (now := self._clock()) >= self._next_line:
            percent = f"{int(100 * self._share)} %" if self._total else f"{done:,}"
            print(f"{self._what}: {percent}", file=self._stream, flush=True)
            self._next_line = now + _LINE_EVERY_S

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


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
                    shown.so_far(done, total)

    with Ongoing(what, 0) as shown:
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


def _started_bar(what: str, total: int, stream: TextIO) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(file=stream), transient=True)
    bar.add_task(what, total=total or None)
    bar.start()
    return bar
