"""The connector jars (Kafka, Delta Lake, Avro) and the Java that runs Spark's driver, found as those of the demo's
parts are: :mod:`shim.demo.parts.jars`. What Spark brings itself is left out of a set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from pipeline.errors import CannotRun
from shim.demo.parts import PartsUnavailable, jars
from shim.terminal.progress import Waiting

SPARK_JARS: Final = "spark-4.0.0"

jars.POM_FOLDERS.append(files("pipeline.spark").joinpath("poms"))


def jar_files(name: str) -> tuple[Path, ...]:
    """The jars of the set ``name`` (poms/``name``.xml), fetched now where the cache lacks one of them.

    Raises :class:`CannotRun` where they cannot be fetched.
    """
    with _in_one_line(), Waiting("Maven, which fetches the connector jars, once"):
        return jars.jar_set(name).jars


def java_home() -> Path:
    """Of the ``java`` of $JAVA_HOME, else of the PATH. Raises :class:`CannotRun` where there is none, or one too old:
    Spark's own words for that are no help."""
    with _in_one_line():
        return jars.java_executable().parent.parent


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except PartsUnavailable as error:
        what, *output = str(error).splitlines()
        told = [line for line in output if "ERROR" in line][:1]
        raise CannotRun(" ".join([what, *told])) from error
