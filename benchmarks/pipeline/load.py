"""`python -m benchmarks.pipeline.load [--records N] [--rounds N] [--format F] [--json]`: `offset-pipeline load` through
the shim, beside Spark's own Kafka reader straight at the broker, into the same kind of table, in turns."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from benchmarks.servers import make_topics
from pipeline.load.cluster import ClusterOfGroup
from pipeline.load.delta import DeltaSink
from pipeline.load.loading import Loading, load
from pipeline.load.parquet import ParquetSink
from pipeline.load.rows import Reading
from pipeline.spark import SparkSettings, spark_session
from shim.demo.parts import Broker
from tests.shim_process import Shim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS: Final = 8
TOPIC: Final = "measured"
STRAIGHT, TUNED, THROUGH = "straight", "straight, few requests", "load"
_TUNED: Final = {"kafka.max.poll.records": "10000", "kafka.max.partition.fetch.bytes": "8388608"}
_SESSION: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
_WRITTEN_S: Final = 10.0
_LOOK_S: Final = 0.02
_NAMES: Final = {1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch", 18: "ApiVersions"}

# In the shim's process: the api key of each request, written to a file at SIGUSR1.
_COUNTING: Final = """
import collections, json, os, signal
import shim.net.requests as requests
counts = collections.Counter()
made = requests._new
def counted(kind, head):
    counts[head[1]] += 1
    return made(kind, head)
requests._new = counted
def write(*_):
    with open({path!r} + ".new", "w") as file:
        json.dump(counts, file)
    os.rename({path!r} + ".new", {path!r})
signal.signal(signal.SIGUSR1, write)
"""


def fill(broker: Broker, records: int, size: int) -> None:
    make_topics(broker.bootstrap_servers, NewTopic(TOPIC, PARTITIONS, 1))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "batch.size": 1_000_000})
    value = os.urandom(size)
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, key=b"%d" % number, value=value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def straight(spark: SparkSession, broker: Broker, form: str, path: str, options: dict[str, str]) -> None:
    frame = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    chosen = frame.option("subscribe", TOPIC).option("includeHeaders", "true").options(**options).load()
    chosen.write.format(form).save(path)


def through(spark: SparkSession, shim: Shim, form: str, path: str, group: str) -> None:
    sink = DeltaSink(spark, path, group) if form == "delta" else ParquetSink(spark, path, group)
    load(spark, ClusterOfGroup(shim.bootstrap, group, {}), sink, Loading([TOPIC], Reading(shim.bootstrap)), tell=print)


def requests_so_far(shim: Shim, path: Path) -> dict[int, int]:
    path.unlink(missing_ok=True)
    os.kill(shim.pid, signal.SIGUSR1)
    deadline = time.monotonic() + _WRITTEN_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the shim does not say what it was asked")
        time.sleep(_LOOK_S)
    return {int(key): count for key, count in json.loads(path.read_text()).items()}


@click.command()
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(1))
@click.option("--size", default=200, show_default=True, type=click.IntRange(1), help="Bytes of a value.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Counted; one is left out before.")
@click.option("--format", "form", default="delta", type=click.Choice(["delta", "parquet"]), show_default=True)
@click.option("--master", default="local[2]", show_default=True)
@click.option("--json", "to_json", is_flag=True)
def main(records: int, size: int, rounds: int, form: str, master: str, to_json: bool) -> None:
    """Ratios of one run: figures of two runs on this machine cannot be compared."""
    with tempfile.TemporaryDirectory(prefix="load-", ignore_cleanup_errors=True) as folder:
        found = measure(Path(folder), records, size, rounds, form, master)
    if to_json:
        print(json.dumps(found, indent=2))
        return
    for name, rate in found["records_a_second"].items():
        print(f"{name:24} {rate:12,.0f} records/s")
    for name, ratio in found["ratio"].items():
        print(f"load / {name}: {ratio:.2f}")
    asked = ", ".join(f"{name} {count}" for name, count in found["requests_per_million"].items())
    print(f"requests at the shim per million records: {sum(found['requests_per_million'].values())} ({asked})")


def measure(folder: Path, records: int, size: int, rounds: int, form: str, master: str) -> dict[str, dict[str, float]]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    counted = folder / "requests.json"
    with (
        Broker(folder / "broker") as broker,
        Shim(broker.bootstrap_servers, folder / "data", patch=_COUNTING.format(path=str(counted))) as shim,
        spark_session("benchmark", SparkSettings(master, _SESSION)) as spark,
    ):
        fill(broker, records, size)
        seconds: dict[str, list[float]] = {STRAIGHT: [], TUNED: [], THROUGH: []}
        before: dict[int, int] = {}
        sides: dict[str, Callable[[str], None]] = {
            STRAIGHT: lambda path: straight(spark, broker, form, path, {}),
            TUNED: lambda path: straight(spark, broker, form, path, _TUNED),
            THROUGH: lambda path: through(spark, shim, form, path, f"group-{path}"),
        }
        for number in range(rounds + 1):
            if number == 1:
                before = requests_so_far(shim, counted)
            for name in sorted(sides, reverse=bool(number % 2)):
                path = str(folder / f"table-{number}-{list(sides).index(name)}")
                begun = time.perf_counter()
                sides[name](path)
                if number:
                    seconds[name].append(time.perf_counter() - begun)
                rows = spark.read.format(form).load(path).count()
                assert rows == records, f"{name}: {rows} rows"
                shutil.rmtree(path)
        asked = requests_so_far(shim, counted)
    rate = {name: records / statistics.median(took) for name, took in seconds.items()}
    per_million = {
        _NAMES.get(key, f"api key {key}"): round((count - before.get(key, 0)) * 1e6 / (records * rounds))
        for key, count in sorted(asked.items())
        if count > before.get(key, 0)
    }
    return {
        "records_a_second": rate,
        "ratio": {name: rate[THROUGH] / rate[name] for name in (STRAIGHT, TUNED)},
        "requests_per_million": dict(per_million),
    }


if __name__ == "__main__":
    main()
