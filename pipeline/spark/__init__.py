"""How the jobs come to a Spark session, and what they need for it: Java, PySpark, the connector jars."""

from pipeline.spark.failures import failure_line, spark_failures
from pipeline.spark.jars import SPARK_JARS, jar_files
from pipeline.spark.needed import SPARK_VERSION, check_here
from pipeline.spark.progress import watching
from pipeline.spark.session import SparkSettings, spark_session

__all__ = [
    "SPARK_JARS",
    "SPARK_VERSION",
    "SparkSettings",
    "check_here",
    "failure_line",
    "jar_files",
    "spark_failures",
    "spark_session",
    "watching",
]
