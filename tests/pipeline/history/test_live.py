"""What real coordinators have written, read back: it is what they serve."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.history.jobs import movements
from pipeline.history.jobs.commits import Source
from pipeline.history.jobs.state import state_at, state_of
from pipeline.history.segments import Wanted
from shim.admin.commands.offset_files import offsets_in
from shim.demo.parts import Broker
from tests.admin.broker_groups import Served, commit, delete_group, delete_offset, fetch, simple_groups
from tests.admin.running import log
from tests.admin.test_brokers import SNAPPY, ZSTD, codecs_in, fill
from tests.legacy.parts import KAFKA_0_10, LegacyBroker
from tests.pipeline.commands import Run, in_a_process
from tests.pipeline.history.logs import Row, read
from tests.protocol_live.place import Place
from tests.shim_process import Shim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plainly(rows: Sequence[Mapping[str, Any]]) -> Served:
    return {
        (row["group"], row["topic"], row["partition"]): (row["offset"], row["leader_epoch"], row["metadata"])
        for row in rows
    }


def next_millisecond() -> int:
    """A moment behind all that has happened, and before all that will."""
    moment = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 <= moment:
        pass
    return moment


def test_what_the_shim_serves_and_had_served(
    spark: SparkSession, broker: Broker, tmp_path: Path, run_pipeline: Run
) -> None:
    """Read from under the running shim; and the state of an earlier moment served by a fresh one."""
    data_dir, folder, fresh = tmp_path / "data", tmp_path / "folder", tmp_path / "fresh"
    with Shim(broker.bootstrap_servers, data_dir) as shim:
        with Place(shim.broker_port(broker.node_id), broker.release) as place:
            topics = [place.new_topic() for _ in range(3)]
            groups = simple_groups(place, topics, 6)
            then, moment = fetch(place, groups), next_millisecond()
            delete_offset(place, groups[0], topics[0])
            delete_group(place, groups[1])
            commit(place, groups[2], topics[2], 1)
            groups += simple_groups(place, topics, 1)
            now = fetch(place, groups)
        assert then != {at: its for at, its in now.items() if at in then}
        source = Source(spark, (str(data_dir),), of_broker=False)
        assert plainly(state_of(state_at(source, moment + 3_600_000).toArrow()).offsets.to_pylist()) == now
        back = movements.rewinds(source.commits()).toArrow().to_pylist()
        assert [(row["group"], row["to_offset"]) for row in back] == [(groups[2], 1)]
        assert back[0]["client_host"] == "/127.0.0.1"

    table = tmp_path / "state.parquet"
    options = ("--data-dir", data_dir, "--at", str(moment), "--to-folder", folder, "--to", table, "--json")
    told = run_pipeline("history", "state", *options)
    assert told.status == 0, told.stderr
    for group in groups[:6]:  # for `groups reset --from-file`
        found = {(row["topic"], row["partition"]): row["offset"] for row in offsets_in(table, group)}
        assert found == {at[1:]: its[0] for at, its in then.items() if at[0] == group}
    assert plainly(json.loads(told.stdout)["rows"]) == then
    assert json.loads(told.stdout)["later_only"] == 3, "the group that came later"
    imported = log("import", "--data-dir", fresh, "--from-folder", folder)
    assert imported.status == 0, imported.stderr
    as_imported = {"offsets.topic.num.partitions": 50}
    again = Shim(broker.bootstrap_servers, fresh, settings=as_imported, passes_groups=True)
    with again, Place(again.broker_port(broker.node_id), broker.release) as place:
        # The group that came later is the cluster's here, which has a copy of it.
        assert fetch(place, groups[:6]) == then


def test_what_a_4_3_broker_serves(spark: SparkSession, tmp_path: Path) -> None:
    """Transactions and deletions among it, compressed; from under the running broker."""
    broker = Broker(tmp_path / "broker", properties={"offsets.topic.compression.codec": ZSTD})
    with broker, Place(broker.port, broker.release) as place:
        served = fill(place, transactions=True, deletes=True)
        source = Source(spark, (str(broker.data),), of_broker=True)
        assert plainly(state_of(state_at(source, 1 << 60).toArrow()).offsets.to_pylist()) == served
    assert ZSTD in codecs_in(broker.data)


@pytest.mark.soak
def test_what_a_0_10_broker_serves(tmp_path: Path) -> None:
    """Message sets in wrappers."""
    settings = {"offsets.topic.compression.codec": SNAPPY}
    broker = LegacyBroker(tmp_path / "broker", KAFKA_0_10, properties=settings)
    with broker, Place(broker.port, KAFKA_0_10) as place:
        served = fill(place, transactions=False, deletes=False)
    assert SNAPPY in codecs_in(broker.data)
    newest: dict[tuple[str, str, int], Row] = {}
    for row in read(broker.data):
        newest[row["group"], row["topic"], row["partition"]] = row
    assert plainly([row for row in newest.values() if not row["is_tombstone"]]) == served
    one = next(iter(served))[0]
    of_one = read(broker.data, wanted=Wanted(groups=(one,), num_partitions=5))
    assert {row["group"] for row in of_one} == {one}


@pytest.mark.soak  # tests/pipeline/history/test_damage.py is about the same, in one process
@pytest.mark.parametrize("skip", [False, True])
def test_damage_ends_a_command_in_one_line(tmp_path: Path, conf_options: list[str], skip: bool) -> None:
    from tests.pipeline.history.test_jobs import FORGOTTEN, STEPS, write_logs

    write_logs(tmp_path / "data", STEPS, FORGOTTEN)
    path = max((tmp_path / "data").glob("__offset_shim_history-*/*.log"), key=lambda file: file.stat().st_size)
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    target = tmp_path / "who.parquet"
    options = ["--skip-damaged"] if skip else []
    done = in_a_process("history", "who", "--data-dir", tmp_path / "data", "--to", target, *options, *conf_options)
    assert done.status == 1
    assert f"{path} is damaged at byte 0: " in done.stderr
    assert target.exists() == skip
    lines = [line for line in done.stderr.splitlines() if not line.startswith("reading the log: ")]
    assert len(lines) == (2 if skip else 1), done.stderr
    assert not list(tmp_path.glob("*.unfinished"))
