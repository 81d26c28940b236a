"""What a load does once there is a Spark session: once, again and again, or not at all."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pipeline.console import print_json
from pipeline.load.cluster import ClusterOfGroup
from pipeline.load.loading import Loading, load, look, next_plan
from pipeline.load.shown import loaded_as_json, plan_as_json, print_loaded, print_plan
from pipeline.load.sinks import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def show_plan(cluster: ClusterOfGroup, sink: Sink, loading: Loading, *, json_wanted: bool) -> None:
    standing = look(cluster, sink, loading)
    plan = next_plan(cluster, loading, standing.starts, standing.ends)
    if json_wanted:
        print_json(plan_as_json(standing, plan))
    else:
        print_plan(standing, plan)


def load_once(
    spark: SparkSession,
    cluster: ClusterOfGroup,
    sink: Sink,
    loading: Loading,
    stop: threading.Event,
    *,
    json_wanted: bool,
) -> None:
    begun = time.monotonic()
    loaded = load(spark, cluster, sink, loading, tell=lambda line: click.echo(line, err=True), stopped=stop.is_set)
    seconds = time.monotonic() - begun
    if json_wanted:
        print_json(loaded_as_json(loaded, seconds))
    else:
        print_loaded(loaded, seconds)


def go_on(
    spark: SparkSession, cluster: ClusterOfGroup, sink: Sink, loading: Loading, interval: float, *, json_wanted: bool
) -> None:
    """Load after load. The batch that is under way at a signal is brought to its end."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.is_set():
        load_once(spark, cluster, sink, loading, stop, json_wanted=json_wanted)
        loading = replace(loading, accept=False)  # that was said of where the group was at the start
        stop.wait(interval)
