"""The jobs, by real Spark, over a small log and its history; what they have to say is counted by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from pipeline.errors import NotDone, SomethingWrong
from pipeline.history.jobs import movements
from pipeline.history.jobs.commits import Source
from pipeline.history.jobs.state import State, state_at, state_of
from pipeline.history.output import show
from pipeline.history.querying import in_one_line_of_ours
from pipeline.history.schemas import COLUMNS, HISTORY, OFFSETS
from pipeline.history.segments import OFFSETS_TOPIC
from pipeline.history.source import FORMAT, OffsetLogSource
from protocol.own.history_log import HISTORY_TOPIC, OffsetHistoryKey, OffsetHistoryValue, encode_history
from protocol.partition import partition_for
from tests.pipeline.history.logs import TIME, Pair, batch, commit, make_ours, segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE = 60_000
PARTITIONS = 4


class Step(NamedTuple):
    """A commit at a minute by a client; without an offset, a deletion, which the history does not know."""

    minute: float
    group: str
    partition: int
    offset: int | None
    client: str = "app"


STEPS = [
    Step(0, "billing", 0, 10),
    Step(0, "billing", 1, 5),
    Step(1, "billing", 0, 20),
    Step(1, "shipping", 0, 100),
    Step(2, "billing", 0, 12, "admin"),
    Step(3, "billing", 0, 30),
    Step(3, "billing", 1, 5),
    Step(4, "leaving", 0, 7),
    Step(5, "leaving", 0, None),
    Step(6, "billing", 1, 5),
    Step(40, "shipping", 0, 101),
    Step(41, "late", 0, 1),
]
FORGOTTEN = [STEPS[0], STEPS[2], STEPS[4]]


def at(minute: float) -> int:
    return TIME + round(minute * MINUTE)


def write_logs(folder: Path, steps: Sequence[Step], forgotten: Sequence[Step] = ()) -> None:
    """As the shim writes both logs, a batch a step; ``forgotten``: what compaction took out of the log."""
    make_ours(folder, PARTITIONS)
    logs: dict[tuple[str, int], list[bytes]] = {}
    for step in steps:
        home = partition_for(step.group, PARTITIONS)
        if step not in forgotten:
            pair = commit(step.group, "orders", step.partition, step.offset, commit_timestamp=at(step.minute))
            batches = logs.setdefault((OFFSETS_TOPIC, home), [])
            batches.append(batch(len(batches), pair, time=at(step.minute) + 7))
        if step.offset is not None:
            batches = logs.setdefault((HISTORY_TOPIC, home), [])
            batches.append(batch(len(batches), told(step), time=at(step.minute) + 7))
    for (topic, partition), batches in logs.items():
        segment(folder, 0, *batches, topic=topic, partition=partition)


def told(step: Step) -> Pair:
    assert step.offset is not None
    time, who = at(step.minute), (1, f"{step.client}-1", None, step.client, "/10.0.0.1")
    key = OffsetHistoryKey(step.group, "orders", step.partition, time)
    return encode_history((key, OffsetHistoryValue(step.offset, -1, "", time, *who)))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    folder = tmp_path_factory.mktemp("history") / "data"
    write_logs(folder, STEPS, FORGOTTEN)
    return folder


@pytest.fixture(scope="module")
def source(spark: SparkSession, data_dir: Path) -> Source:
    return Source(spark, (str(data_dir),), of_broker=False)


def rows(found: DataFrame | pa.Table, *names: str) -> list[tuple[Any, ...]]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def state(source: Source, moment: int) -> State:
    return state_of(state_at(source, moment).toArrow())


def test_who_moved_an_offset(source: Source) -> None:
    commits = source.commits().filter("group = 'billing' and partition = 0")
    assert rows(movements.who(commits), "time", "offset", "change", "client_id", "member_id") == [
        (at(0), 10, None, "app", "app-1"),
        (at(1), 20, 10, "app", "app-1"),
        (at(2), 12, -8, "admin", "admin-1"),
        (at(3), 30, 18, "app", "app-1"),
    ]


def test_rewinds(source: Source) -> None:
    names = ("time", "group", "partition", "from_offset", "to_offset", "rewound", "client_id", "client_before")
    assert rows(movements.rewinds(source.commits()), *names) == [
        (at(2), "billing", 0, 20, 12, 8, "admin", "app"),
    ]


def test_rate(source: Source) -> None:
    names = ("group", "begin", "commits", "offsets", "commits_per_minute", "offsets_per_minute")
    begin = at(0) // (4 * MINUTE) * 4 * MINUTE
    by_four = {row[:2]: row[2:] for row in rows(movements.rate(source.commits(), 4 * MINUTE), *names)}
    total = sum(commits for commits, *_ in by_four.values())
    # Two offsets of one client in one millisecond are one commit: at minutes 0 and 3.
    assert total == 9
    assert by_four["late", at(41) // (4 * MINUTE) * 4 * MINUTE] == (1, 1, 0.25, 0.25)
    assert min(key[1] for key in by_four) == begin


def test_stuck(source: Source) -> None:
    """Not what is deleted, and not what moved."""
    found = movements.stuck(source.commits(), source.in_force(), at(45), 30 * MINUTE)
    assert rows(found, "group", "partition", "offset", "since", "last_commit", "commits_since", "client_id") == [
        ("billing", 1, 5, at(0), at(6), 2, "app"),
        ("billing", 0, 30, at(3), at(3), 0, "app"),
    ]
    assert rows(movements.stuck(source.commits(), source.in_force(), at(20), 30 * MINUTE), "group") == []


def test_stuck_where_the_history_does_not_know_who(spark: SparkSession, tmp_path: Path) -> None:
    """One offset is older than the history, or was imported; another was moved by an import since."""
    write_logs(tmp_path, [Step(0, "g", 0, 5), Step(1, "g", 1, 6)])
    folder = tmp_path / f"{OFFSETS_TOPIC}-{partition_for('g', PARTITIONS)}"
    with (folder / f"{0:020d}.log").open("ab") as log:
        log.write(batch(2, commit("g", "orders", 0, 9), commit("g", "orders", 2, 7), time=at(2)))
    source = Source(spark, (str(tmp_path),), of_broker=False)
    names = ("partition", "offset", "since", "last_commit", "commits_since", "client_id")
    found = movements.stuck(source.commits(), source.in_force(), at(60), 30 * MINUTE)
    assert rows(found, *names) == [
        (1, 6, at(1), at(1), 0, "app"),
        (0, 9, at(2), at(2), 0, None),
        (2, 7, at(2), at(2), 0, None),
    ]
    assert rows(movements.stuck(source.commits(), source.in_force(), at(1), MINUTE), *names) == [
        (0, 5, at(0), at(0), 0, "app"),
    ]


def test_a_deletion_that_is_forgotten_since_the_offset_was_committed_anew(spark: SparkSession, tmp_path: Path) -> None:
    """What is not known, and cannot be: in between there was none, and the state says that there was."""
    steps = [Step(0, "g", 0, 5), Step(1, "g", 0, None), Step(3, "g", 0, 1)]
    write_logs(tmp_path, steps, steps[:2])
    known = state(Source(spark, (str(tmp_path),), of_broker=False), at(2))
    assert rows(known.offsets, "offset", "found_in", "gone_since") == [(5, "history", False)]


def test_progress(source: Source) -> None:
    commits = source.commits().filter("group = 'billing' and partition = 0 or group = 'late'")
    begin = at(0) // MINUTE * MINUTE
    found = rows(movements.progress(commits, MINUTE, at(5)), "time", "offset", "moved", "commits")
    assert found == [
        (begin + MINUTE - 1, 10, None, 1),
        (begin + 2 * MINUTE - 1, 20, 10, 1),
        (begin + 3 * MINUTE - 1, 12, -8, 1),
        (begin + 4 * MINUTE - 1, 30, 18, 1),
        (begin + 5 * MINUTE - 1, 30, 0, 0),
        (at(5), 30, 0, 0),
    ]


@pytest.mark.parametrize("minute", [2, 6])
def test_state_at_a_moment(source: Source, minute: float) -> None:
    """The log has forgotten some of it, the history does not know of the deletion."""
    moment = at(minute) + 10
    expected: dict[tuple[str, int], int] = {}
    for step in STEPS:
        if at(step.minute) <= moment:
            expected.pop((step.group, step.partition), None)
            if step.offset is not None:
                expected[step.group, step.partition] = step.offset
    known = state(source, moment)
    found = rows(known.offsets, "group", "partition", "offset", "gone_since")
    assert {row[:2]: row[2] for row in found} == expected
    assert not any(row[3] for row in found)
    later = {(step.group, step.partition) for step in STEPS if at(step.minute) > moment}
    seen = {(step.group, step.partition) for step in STEPS if at(step.minute) <= moment}
    assert known.later_only == len(later - seen)
    assert known.history_begins == at(0)


def test_what_the_log_has_nothing_of_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """Its tombstone was compacted away: it was deleted at some time."""
    gone = [step for step in STEPS if step.group == "leaving"]
    write_logs(tmp_path, STEPS, gone)
    known = state(Source(spark, (str(tmp_path),), of_broker=False), at(100))
    assert [row[0] for row in rows(known.offsets, "group", "gone_since") if row[1]] == ["leaving"]
    now = state_of(state_at(Source(spark, (str(tmp_path),), of_broker=False), at(100)).toArrow(), by_log_alone=True)
    assert now.offsets.num_rows == known.offsets.num_rows - 1
    assert not any(row[0] for row in rows(now.offsets, "gone_since"))


def test_what_nothing_is_found_of_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """It was `nothing`, of a group that was misspelt, too."""
    for groups, of in (((), ""), (("biling", "etl\x1b[2J"), " of biling, etl\\x1b[2J")):
        show(pa.table({"group": pa.array([], pa.string())}), groups)
        assert capsys.readouterr() == ("", f"nothing{of} is there that was asked for\n")


def test_a_brokers_directory_and_one_without_a_history(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = tmp_path
    write_logs(data_dir, STEPS, FORGOTTEN)
    of_broker = Source(spark, (str(data_dir),), of_broker=True)
    found = rows(movements.who(of_broker.commits()), "group", "offset", "client_id")
    assert ("shipping", 101, None) in found
    assert len(found) == len([step for step in STEPS if step.offset is not None]) - 3
    assert len(rows(state(of_broker, at(100)).offsets, "group")) == 4
    for partition in range(PARTITIONS):
        folder = data_dir / f"{HISTORY_TOPIC}-{partition}"
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    without = Source(spark, (str(data_dir),), of_broker=False)
    assert len(rows(state(without, at(100)).offsets, "group")) == 4
    with pytest.raises(NotDone, match="holds no history"):
        without.commits()


def options(spark: SparkSession, data_dir: Path, **given: str) -> DataFrame:
    spark.dataSource.register(OffsetLogSource)
    reader = spark.read.format(FORMAT)
    for name, value in given.items():
        reader = reader.option(name, value)
    return reader.load(str(data_dir))


def test_columns_groups_and_partitions_as_options(spark: SparkSession, data_dir: Path) -> None:
    assert options(spark, data_dir).columns == list(COLUMNS[OFFSETS])
    assert options(spark, data_dir, what=HISTORY).columns == list(COLUMNS[HISTORY])
    found = options(spark, data_dir, columns="offset, group", groups="late")
    assert (found.columns, rows(found, "offset", "group")) == (["offset", "group"], [(1, "late")])
    assert found.rdd.getNumPartitions() == 1
    both = options(spark, data_dir, groups=json.dumps(["late", "shipping"]))
    assert {row[0] for row in rows(both, "group")} == {"late", "shipping"}
    home = partition_for("billing", PARTITIONS)
    assert {row[0] for row in rows(options(spark, data_dir, partitions=str(home)), "log_partition")} == {home}
    spark.dataSource.register(OffsetLogSource)
    by_schema = spark.read.format(FORMAT).schema("`group` string, log_offset bigint").load(str(data_dir))
    assert by_schema.columns == ["group", "log_offset"]
    assert by_schema.count() == len(STEPS) - 3


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"what": "everything"}, "what: everything is none of offsets, history, segments"),
        ({"columns": "group,nonsense"}, "offsets has no column nonsense: "),
        ({"path": "/nowhere"}, "/nowhere"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(
    spark: SparkSession, data_dir: Path, given: Mapping[str, str], line: str
) -> None:
    path = Path(given.get("path", data_dir))
    others = {name: value for name, value in given.items() if name != "path"}
    with pytest.raises(SomethingWrong) as raised, in_one_line_of_ours():
        options(spark, path, **others).count()
    assert line in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_damage_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = tmp_path
    write_logs(data_dir, STEPS, FORGOTTEN)
    path = data_dir / f"{OFFSETS_TOPIC}-{partition_for('billing', PARTITIONS)}" / f"{0:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[70] ^= 1
    path.write_bytes(raw)
    with pytest.raises(SomethingWrong) as raised, in_one_line_of_ours():
        options(spark, data_dir).count()
    assert str(raised.value) == f"{path} is damaged at byte 0: CRC mismatch"
    skipping = Source(spark, (str(data_dir),), of_broker=False, skip_damaged=True)
    assert skipping.log.count() == len(STEPS) - 3 - 1
    told_of = rows(skipping.segments(newest_alone=False), "path", "damaged_at")
    assert [row for row in told_of if row[1] >= 0] == [(str(path), 0)]
