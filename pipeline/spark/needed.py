"""What a job needs on this machine, looked at before anything else is: PySpark, and Java."""

from __future__ import annotations

import os
from typing import Final

from pipeline.errors import CannotRun
from pipeline.spark.jars import java_home

SPARK_VERSION: Final = "4.0"
"""Of Spark and of the jars: a connector of another release fails in the middle, with the name of a missing method."""


def is_submitted() -> bool:
    """Whether spark-submit has started this job, with a Java of its own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_here() -> None:
    """Has Spark take the Java that was looked at. Raises :class:`CannotRun` where something is missing, or another."""
    try:
        import pyspark
    except ImportError as error:
        raise CannotRun("PySpark is not installed: in the clone, pip install '.[pipeline]'") from error
    if not pyspark.__version__.startswith(f"{SPARK_VERSION}."):
        raise CannotRun(f"PySpark {pyspark.__version__} is installed, and the connector jars are of {SPARK_VERSION}")
    if not is_submitted():
        os.environ["JAVA_HOME"] = str(java_home())
