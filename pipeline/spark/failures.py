"""What Spark and the JVM behind it raise, in one line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pipeline.errors import SomethingWrong

_ENDING_S: Final = 10.0  # what an end in good order takes
_STATUS_OUT_OF_MEMORY: Final = 52  # of Spark: SparkExitCode.OOM
_ENDING: Final = ("Java heap space", "GC overhead limit exceeded", "SparkContext was shut down")
"""What a JVM may say that ends for it."""

_ENDED: Final = "Spark's JVM has ended"
_OUT_OF_MEMORY: Final = "out of memory: it has more with --conf spark.driver.memory=4g"
_DEEPEST: Final = 20  # causes of causes
_LONGEST: Final = 400  # characters
_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)?$")  # by raise_error, in words of ours


def failure_line(error: BaseException) -> str:
    """What was wrong at the bottom of an exception of PySpark or py4j, without the way that led there."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return _of_worker(str(error)) or _first_line(str(error)) or type(error).__name__
    for _ in range(_DEEPEST):
        cause = java.getCause()
        if cause is None:
            break
        java = cause
    return _of_java(java)


def _of_worker(text: str) -> str | None:
    """What a Python worker raised: the line after the last frame of its traceback, if there is one in ``text``."""
    _, found, last = text.rpartition("\n  File ")
    raised = (line for line in last.splitlines()[1:] if line.strip() and not line.startswith(" "))
    return _first_line(next(raised, "")) or None if found else None


def _of_java(java: Any) -> str:
    message = java.getMessage() or ""
    text = _of_worker(message) or _first_line(message)
    # "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task …: E: text"
    _, lost, task = text.partition("most recent failure: ")
    raised = _RAISED.search(text)
    if raised:
        return raised[1]
    return (task if lost else text) or str(java.getClass().getName())


def _first_line(text: str) -> str:
    stripped = text.strip()
    line = stripped.splitlines()[0] if stripped else ""
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


@contextmanager
def spark_failures(doing: str) -> Iterator[None]:
    """Has what Spark raises within end as :class:`SomethingWrong`: ``doing``, and the reason, in one line."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            line = failure_line(error)
            told = _ended(error) if any(text in line for text in _ENDING) else None
            raise SomethingWrong(f"{doing}: {told or line}") from error
    except (Py4JError, ConnectionError) as error:  # also of a JVM that ends while it is asked for the reason
        raise SomethingWrong(f"{doing}: {_ended(error) or failure_line(error)}") from error


def _ended(error: Exception) -> str | None:
    """What there is to say of a JVM that has ended, or does within seconds; None where it goes on."""
    from py4j.protocol import Py4JNetworkError
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # of spark-submit
        return _ENDED if isinstance(error, Py4JNetworkError | ConnectionError) else None
    try:
        status = process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        return None
    return f"{_ENDED}, {_OUT_OF_MEMORY}" if status == _STATUS_OUT_OF_MEMORY else _ENDED


@contextmanager
def unless_gone() -> Iterator[None]:
    """For what only shows how far it is, or leaves things in order: whoever needs a JVM that has ended is told."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError):
        return
