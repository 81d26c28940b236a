"""Real places with differences planted between them: exactly these are found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.audit.auditing import audit
from pipeline.audit.groups import find_groups
from pipeline.audit.outputs import Folder
from pipeline.audit.table import COLUMNS
from pipeline.audit.words import PAIRS, PLACES
from pipeline.errors import NotDone, SomethingWrong
from shim.demo.parts import Broker, ZooKeeper
from tests.conftest import TopicFactory
from tests.offsets.conftest import kazoo
from tests.pipeline.audit.conftest import asked
from tests.pipeline.audit.planted import KINDS, Planted
from tests.pipeline.commands import Run
from tests.shim_process import Shim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (*PLACES, *(pair.column for pair in PAIRS))


def found_in(table: DataFrame) -> dict[tuple[str, int], tuple[Any, ...]]:
    rows = table.select("group", "partition", *_COLUMNS).collect()
    assert len({row[:2] for row in rows}) == len(rows)
    return {(row["group"], row["partition"]): tuple(row[2:]) for row in rows}


def check(spark: SparkSession, planted: Planted, to: Path, totals: Mapping[str, Any]) -> None:
    """``to``: what the audit has written; ``totals``: what it has said."""
    expected = planted.expected()
    assert found_in(spark.read.parquet(str(to / "offsets.parquet"))) == expected
    assert (totals["groups"], totals["partitions"]) == (len(planted.groups), len(expected))
    assert totals["differences"] == len(planted.differing())
    assert (totals["moving"], totals["outside"], totals["lag"]) == (0, 0, planted.lag())
    for position, pair in enumerate(PAIRS):
        counted = Counter(row[3 + position] for row in expected.values() if row[3 + position])
        assert {verdict: count for verdict, count in totals["verdicts"][pair.column].items() if count} == counted
    in_groups = Counter(group for group, _ in planted.differing())
    summary = spark.read.parquet(str(to / "groups.parquet")).collect()
    assert {row["group"]: row["differing"] for row in summary} == {each: in_groups[each] for each in planted.groups}


def test_the_command_finds_exactly_what_was_planted(
    spark: SparkSession,
    broker: Broker,
    apart: Shim,
    connect: str,
    make_topic: TopicFactory,
    tmp_path: Path,
    run_pipeline: Run,
    group: str,
) -> None:
    """Of 2,000 group-partitions."""
    planted = Planted([f"{group}-{number}" for number in range(40)], make_topic(50), 50, every=97)
    assert set(planted.kinds.values()) == set(KINDS.values()), "each kind is among them"
    with kazoo(connect) as client:
        planted.put(client, apart.port, broker.port)
    to = tmp_path / "audit"
    places = ["--shim", apart.bootstrap, "--upstream", broker.bootstrap_servers, "--zookeeper", connect]
    options = ["--groups", f"{group}-*", "--second-look-after", "0", "--to", str(to), "--json"]
    done = run_pipeline("audit", *places, *options)
    assert done.status == 1, done.stderr
    answer = json.loads(done.stdout)
    check(spark, planted, to, answer["totals"])
    assert {(each["group"], each["partition"]) for each in answer["differences"]} == planted.differing()
    with_header = spark.read.csv(str(to / "offsets.csv"), header=True)
    assert (with_header.count(), tuple(with_header.columns)) == (len(planted.expected()), COLUMNS)
    page = (to / "report.html").read_text(encoding="utf-8")
    assert f"{len(planted.differing())} of 2,000 partitions differ" in page
    assert [each.name for each in tmp_path.iterdir() if "incomplete" in each.name] == []


def test_a_folder_with_something_in_it_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("as it was")
    with pytest.raises(NotDone, match="is there, and not an empty folder"):
        Folder(spark, str(tmp_path))


def test_what_breaks_off_leaves_no_folder(spark: SparkSession, tmp_path: Path) -> None:
    to = tmp_path / "audit"
    folder = Folder(spark, str(to))

    def broken_off() -> None:
        with folder.filling() as staging:
            folder.write_text(f"{staging}/report.html", "half")
            spark.read.parquet(str(tmp_path / "nothing there"))

    with pytest.raises(SomethingWrong):
        broken_off()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_100_000_group_partitions(
    spark: SparkSession,
    broker: Broker,
    apart: Shim,
    make_topic: TopicFactory,
    tmp_path: Path,
    group: str,
) -> None:
    planted = Planted([f"{group}-{number}" for number in range(1_000)], make_topic(100), 100, every=61)
    with ZooKeeper(tmp_path / "zookeeper", heap_mb=256) as zookeeper:
        with kazoo(zookeeper.connect_string) as client:
            planted.put(client, apart.port, broker.port)
        to = tmp_path / "audit"
        at = zookeeper.connect_string
        question = asked(apart.bootstrap, broker.bootstrap_servers, at, groups=f"{group}-*", to=to)
        check(spark, planted, to, audit(spark, question, find_groups(question)).totals._asdict())


@pytest.fixture
def group(fresh_name: Callable[[], str]) -> str:
    """As a pattern it means itself: the test's own name may have brackets."""
    return fresh_name()
