"""Offset records read by the data source of `offset-pipeline history`, beside a plain Python decoder.

The same million commits in each log, of a real shim and of a real 4.3.1 broker, which has none of the shim's copies; in
one run, one after the other, the first of the rounds left out as warm-up. ``plain``: record batches and records by
`protocol`, a key and a value each, on one core; ``columns``: what one task of Spark does, without Spark, on one core;
``spark``: all columns of the data source into Spark's `noop` sink, at ``--master``. Figures are rows a second, and each
is held against ``plain`` of the same log. A Spark job takes a second or so whatever there is to read: with few records
that is all that ``spark`` shows.

    python -m benchmarks.pipeline.history [--records 1000000] [--rounds 4] [--master local[2]]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.cimpl import NewTopic

from benchmarks.servers import make_topics
from pipeline.history.jobs.commits import Source
from pipeline.history.reading import Question, read_segment
from pipeline.history.schemas import COLUMNS, HISTORY, OFFSETS
from pipeline.history.segments import OFFSETS_TOPIC, Wanted, segments_in
from pipeline.spark import SparkSettings, spark_session
from protocol.offsets_log import OffsetCommitKey, decode_key, decode_value
from protocol.own.history_log import HISTORY_TOPIC, decode_history
from protocol.records.batches import MAX_DECOMPRESSED_SIZE, batches, records_of
from shim.demo.parts import Broker
from tests.pipeline.history.many_commits import PARTITIONS, commit_many
from tests.shim_process import Shim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = 50
TOPIC = "read-back"
TOPICS = {OFFSETS: OFFSETS_TOPIC, HISTORY: HISTORY_TOPIC}


def plain(folder: Path, what: str) -> int:
    count = 0
    for path in sorted(folder.glob(f"{TOPICS[what]}-*/*.log")):
        raw = path.read_bytes()
        for position, header in batches(raw):
            if header.is_control:
                continue
            for record in records_of(raw, position, header, MAX_DECOMPRESSED_SIZE):
                assert record.key is not None
                if what == HISTORY:
                    count += len(decode_history(record.key, record.value) or ())
                    continue
                key = decode_key(record.key)
                decode_value(key, record.value)
                count += isinstance(key, OffsetCommitKey)
    return count


def columns(folder: Path, what: str) -> int:
    question = Question(what, tuple(COLUMNS[what]))
    segments = segments_in([str(folder)], TOPICS[what], Wanted())
    return sum(batch.num_rows for segment in segments for batch in read_segment(segment, question))


def by_spark(spark: SparkSession, folder: Path, what: str) -> None:
    source = Source(spark, (str(folder),), of_broker=False)
    source.read(what, tuple(COLUMNS[what])).write.format("noop").mode("overwrite").save()


def measured(records: int, rounds: int, sides: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for nth in range(rounds):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            if nth:
                rates[name].append(records / (time.perf_counter() - began))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    rounds = -(-given.records // (GROUPS * PARTITIONS))
    count = rounds * GROUPS * PARTITIONS
    groups = [f"benchmark-{at}" for at in range(GROUPS)]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Broker(folder / "broker") as broker:
            make_topics(broker.bootstrap_servers, NewTopic(TOPIC, PARTITIONS, 1))
            # No copies of the shim's offsets at the broker: its log is to have what the shim's has, and no more.
            settings = {"offsets.mirror.upstream": "false"}
            with Shim(broker.bootstrap_servers, folder / "data", settings=settings) as shim:
                commit_many(shim.broker_port(broker.node_id), groups, TOPIC, rounds)
            commit_many(broker.port, [f"direct-{group}" for group in groups], TOPIC, rounds)
        logs = {
            "the shim's offsets": (folder / "data", OFFSETS),
            "the shim's history": (folder / "data", HISTORY),
            "a 4.3.1 broker's offsets": (broker.data, OFFSETS),
        }
        with spark_session("benchmark", SparkSettings(given.master, {"spark.driver.memory": "1g"})) as spark:
            for called, (where, what) in logs.items():
                rows = columns(where, what)
                assert rows == plain(where, what) == count
                sides = {
                    "plain": lambda where=where, what=what: plain(where, what),
                    "columns": lambda where=where, what=what: columns(where, what),
                    "spark": lambda where=where, what=what: by_spark(spark, where, what),
                }
                rates = measured(rows, given.rounds, sides)
                base = statistics.median(rates["plain"])
                for side, found in rates.items():
                    middle = statistics.median(found)
                    spread = f"{min(found):,.0f}-{max(found):,.0f}"
                    print(f"{called}: {rows:,} rows: {side}: {middle:,.0f}/s ({spread}), {middle / base:.2f} x plain")


if __name__ == "__main__":
    main()
