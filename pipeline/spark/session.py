"""One Spark session, on this machine or on the cluster that spark-submit named."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pipeline.errors import CannotRun
from pipeline.spark.failures import failure_line, unless_gone
from pipeline.spark.jars import SPARK_JARS, jar_files
from pipeline.spark.jvm_stderr import without_greeting
from pipeline.spark.needed import SPARK_VERSION, check_here, is_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J: Final = Path(__file__).with_name("log4j2.properties")

_ALWAYS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    # Without these two Delta Lake refuses its tables.
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Errors come in one line of ours, and a bar of ours shows how far it is.
    "spark.ui.showConsoleProgress": "false",
}

_BY_DEFAULT: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    # Parquet's writer first looks at how large a page is after 100 rows, and rows may have a MiB: two tasks took all of
    # the memory that Spark has by default.
    "spark.hadoop.parquet.page.size.row.check.min": "10",
    # Where in the Python code an operation was called is in no line of ours, and to tell it to the JVM takes six calls
    # of that for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_ON_THIS_MACHINE: Final[Mapping[str, str]] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_CONNECTORS: Final = (
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.spark.sql.avro.AvroFileFormat",
)


@dataclass(frozen=True)
class SparkSettings:
    """Where and how Spark runs. ``master``: None for spark-submit's, else local[*]. ``conf``: settings of Spark, which
    win over ours. ``log``: the level of Spark's own log on standard error. ``jars``: the sets that are needed."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    log: str = "OFF"
    jars: Sequence[str] = (SPARK_JARS,)

    @classmethod
    def of(cls, master: str | None, conf: Sequence[str], log: str) -> SparkSettings:
        """From the command line. Raises :class:`CannotRun` for a ``--conf`` that is not ``name=value``."""
        for pair in conf:
            if not pair.partition("=")[1]:
                raise CannotRun(f"--conf {pair}: expected name=value")
        return cls(master, {name: value for name, _, value in (pair.partition("=") for pair in conf)}, log)


@contextmanager
def spark_session(name: str, settings: SparkSettings) -> Iterator[SparkSession]:
    """A session that is stopped at the end. Raises :class:`CannotRun`, before a JVM is started where it can be.

    A job that spark-submit started has its master and its jars from there (`--jars "$(offset-pipeline jars)"`).
    """
    if sys.stderr.isatty():
        click.echo("starting Spark …", err=True)  # it takes half a minute on a busy machine
    session = _started(name, settings)
    if threading.current_thread() is threading.main_thread():
        # PySpark's own handler asks the JVM in the middle of a call: the one gets the other's answer.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield session
    except KeyboardInterrupt:
        _end_jvm(session)
        raise
    except BaseException:
        _stop(session)
        raise
    _stop(session)


def _stop(session: SparkSession) -> None:
    with unless_gone():
        session.stop()


def _end_jvm(session: SparkSession) -> None:
    """After Ctrl-C: the answer to the call that was under way would be taken for that of the next one. The JVM of a job
    that spark-submit started ends with it."""
    context = session.sparkContext
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:  # of PySpark: it prints a traceback when the JVM goes
        server.handle_error = lambda *_: None
    process = getattr(context._gateway, "proc", None)
    if process is not None:
        process.terminate()
        process.wait()


def _started(name: str, settings: SparkSettings) -> SparkSession:
    check_here()
    submitted = is_submitted()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # py4j logs, with a traceback, what it raises as well.
    logging.basicConfig(level=logging.CRITICAL if settings.log == "OFF" else settings.log)
    conf = {**_BY_DEFAULT, **_ALWAYS}
    if not submitted:
        conf |= _of_our_own(settings)
    conf |= settings.conf
    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    if settings.master or not submitted:
        builder = builder.master(settings.master or "local[*]")
    try:
        with without_greeting():
            session = builder.getOrCreate()
    except PySparkException as error:
        raise CannotRun(f"Spark does not start: {str(error).splitlines()[0]}") from error
    except Exception as error:  # py4j's, of the JVM: of a wrong --master or --conf, or no memory
        raise CannotRun(f"Spark does not start: {failure_line(error)}") from error
    session.sparkContext.setLogLevel(settings.log)
    try:
        _check_running(session)
    except CannotRun:
        session.stop()
        raise
    return session


def _of_our_own(settings: SparkSettings) -> dict[str, str]:
    """What spark-submit would have said."""
    conf = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J} -Doffset.pipeline.log={settings.log}",
    }
    if "spark.jars" not in settings.conf:
        conf["spark.jars"] = ",".join(str(jar) for each in settings.jars for jar in jar_files(each))
    if (settings.master or "local").startswith("local"):
        conf |= _ON_THIS_MACHINE
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Else the python3 of the PATH, which is another one where the environment of this one is not activated.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return conf


def _check_running(session: SparkSession) -> None:
    if not session.version.startswith(f"{SPARK_VERSION}."):
        raise CannotRun(f"this is Spark {session.version}, and the connector jars are of {SPARK_VERSION}")
    java = session.sparkContext._jvm
    assert java is not None, "it runs"
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for name in _CONNECTORS:
        if loader.getResource(f"{name.replace('.', '/')}.class") is None:
            raise CannotRun(f'{name} is not there: spark-submit --jars "$(offset-pipeline jars)"')
