"""`log dump` and `log verify` of the history: who moved which offset, when, and where a group was at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.own.history_log import (
    DELETED,
    HISTORY_TOPIC,
    NO_OFFSET,
    OffsetHistoryKey,
    OffsetHistoryValue,
    Who,
    encode_history,
)
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC, partition_for
from shim.admin.commands.history_elsewhere import HISTORY_ELSEWHERE
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.directory.places import Place, Places
from shim.log.disk.files import Files
from tests.admin.running import TIMESTAMP, Result, commit_record, log
from tests.protocol.test_history_log import START, rows_record

MINUTE = 60_000
PARTITIONS = 2
COMMITS = [
    # minute, group, topic, partition, offset, by whom
    (0, "billing", "orders", 0, 10, ("billing-1", "/10.0.0.1", 3)),
    (1, "billing", "orders", 1, 20, ("billing-2", "/10.0.0.2", 3)),
    (2, "shipping", "orders", 0, 99, ("shipping-1", "/10.0.0.3", 1)),
    (3, "billing", "orders", 0, 12, ("billing-1", "/10.0.0.1", 3)),
    (5, "billing", "orders", 0, 2, ("admin", "/10.0.0.9", -1)),
]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    topics = (OFFSETS_TOPIC, HISTORY_TOPIC)
    offsets_log = OffsetsLog.open(path, PARTITIONS, topics=topics, settings=LogSettings(segment_bytes=300))
    for number in range(PARTITIONS):
        for topic in topics:
            assert list(offsets_log.recover(number, topic=topic)) == []
    for minute, group, topic, partition, offset, (client, host, generation) in COMMITS:
        key = OffsetHistoryKey(group, topic, partition, TIMESTAMP + minute * MINUTE)
        member = f"{client}-x" if generation >= 0 else ""
        value = OffsetHistoryValue(offset, -1, "m\x1b", key.time, generation, member, None, client, host)
        home, written = partition_for(group, PARTITIONS), key.time + 7
        writes = [
            PartitionWrite(home, [[commit_record(group, topic, partition, offset)]], written),
            PartitionWrite(home, [[encode_history((key, value))]], written, HISTORY_TOPIC),
        ]
        assert offsets_log.write(writes) == {}
    offsets_log.close()
    return path


def dumped(data_dir: Path, *args: str) -> list[tuple[str, str, int, int]]:
    result = log("dump", "--data-dir", data_dir, *args, "--json")
    assert result.status == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    return [(r["key"]["group"], r["key"]["topic"], r["key"]["partition"], r["value"]["offset"]) for r in records]


def at(minute: float) -> str:
    return str(int(TIMESTAMP + minute * MINUTE))


HISTORY = ("--topic", HISTORY_TOPIC)


def test_what_was_deleted(data_dir: Path) -> None:
    """It is told, and not in force from then on."""
    home = partition_for("billing", PARTITIONS)
    offsets_log = OffsetsLog.open(data_dir, PARTITIONS, topics=(OFFSETS_TOPIC, HISTORY_TOPIC))
    assert list(offsets_log.recover(home, topic=HISTORY_TOPIC))
    key = OffsetHistoryKey("billing", "orders", 1, TIMESTAMP + 6 * MINUTE)
    value = OffsetHistoryValue(NO_OFFSET, -1, "", key.time, -1, "", None, "admin", "/10.0.0.9")
    gone = value._replace(cause="change 4711", replaced=20, deleted=DELETED)
    write = PartitionWrite(home, [[encode_history((key, gone))]], key.time + 7, HISTORY_TOPIC)
    assert offsets_log.write([write]) == {}
    offsets_log.close()
    told = log("dump", "--data-dir", data_dir, *HISTORY, "--group", "billing").stdout.splitlines()
    assert told[-1].endswith('client_id="admin" client_host="/10.0.0.9" cause="change 4711" replaced=20 deleted=1')
    assert all("deleted" not in line for line in told[:-1])
    assert dumped(data_dir, "--group", "billing", "--at", at(5.5)) == [
        ("billing", "orders", 0, 2),
        ("billing", "orders", 1, 20),
    ]
    assert dumped(data_dir, "--group", "billing", "--at", at(6)) == [("billing", "orders", 0, 2)]


def test_a_part_of_it_may_be_where_the_log_was(data_dir: Path) -> None:
    """Moved there and back: the history has a hole, and nothing in it says so."""
    of_history = [("--at", at(5)), HISTORY]
    for more in of_history:
        told = log("dump", "--data-dir", data_dir, "--group", "billing", *more)
        assert (told.status, HISTORY_ELSEWHERE in told.stderr) == (0, False)
    Places.begun(Files(), data_dir, "__offset_shim", [Place.DIRECTORY] * PARTITIONS)
    for more in of_history:
        told = log("dump", "--data-dir", data_dir, "--group", "billing", *more)
        assert (told.status, told.stderr.count(f"{HISTORY_ELSEWHERE}\n")) == (0, 1)
    assert HISTORY_ELSEWHERE not in log("dump", "--data-dir", data_dir).stderr


def test_who_moved_a_group_and_when(data_dir: Path) -> None:
    result = log("dump", "--data-dir", data_dir, *HISTORY, "--group", "billing")
    assert result.status == 0
    assert len(result.stdout.splitlines()) == 4
    assert result.stdout.splitlines()[-1] == (
        '2023-11-14T22:18:20.000Z group="billing" topic="orders" partition=0 offset=2 leader_epoch=-1 '
        'metadata="m\\u001b" generation_id=-1 member_id="" group_instance_id=null client_id="admin" '
        'client_host="/10.0.0.9"'
    )
    (found,) = (
        json.loads(line)
        for line in log("dump", "--data-dir", data_dir, *HISTORY, "--group", "shipping", "--json").stdout.splitlines()
    )
    assert (found["topic"], found["offset"], found["timestamp"]) == (HISTORY_TOPIC, 0, TIMESTAMP + 2 * MINUTE + 7)
    assert found["key"] == {
        "type": 0,
        "group": "shipping",
        "topic": "orders",
        "partition": 0,
        "time": TIMESTAMP + 2 * MINUTE,
    }
    assert found["value"] == {
        "version": 0,
        "offset": 99,
        "leader_epoch": -1,
        "metadata": "m\x1b",
        "commit_timestamp": TIMESTAMP + 2 * MINUTE,
        "generation_id": 1,
        "member_id": "shipping-1-x",
        "group_instance_id": None,
        "client_id": "shipping-1",
        "client_host": "/10.0.0.3",
        "principal": "",
    }


def test_only_those_of_a_time(data_dir: Path) -> None:
    window = ("--from", "2023-11-14T22:14:20Z", "--to", "2023-11-14T23:16:20+01:00")
    assert sorted(dumped(data_dir, *HISTORY, *window)) == [
        ("billing", "orders", 0, 12),
        ("billing", "orders", 1, 20),
        ("shipping", "orders", 0, 99),
    ]
    assert dumped(data_dir, *HISTORY, "--from", at(5)) == [("billing", "orders", 0, 2)]
    assert dumped(data_dir, *HISTORY, "--to", at(0)) == [("billing", "orders", 0, 10)]
    assert dumped(data_dir, *HISTORY, "--to", str(TIMESTAMP - 1)) == []
    # Of the offsets the time of the record counts.
    assert dumped(data_dir, "--from", at(5)) == [("billing", "orders", 0, 2)]
    assert dumped(data_dir, "--to", str(TIMESTAMP + 6)) == []


@pytest.mark.parametrize(
    ("minute", "offsets"),
    [
        (-1, []),
        (0, [(0, 10)]),
        (2.9, [(0, 10), (1, 20)]),
        (3, [(0, 12), (1, 20)]),
        (4.9, [(0, 12), (1, 20)]),
        (5, [(0, 2), (1, 20)]),
        (99, [(0, 2), (1, 20)]),
    ],
)
def test_where_a_group_was(data_dir: Path, minute: float, offsets: list[tuple[int, int]]) -> None:
    found = dumped(data_dir, "--group", "billing", "--at", at(minute))
    assert [(partition, offset) for _, _, partition, offset in found] == offsets
    assert "what was imported" in log("dump", "--data-dir", data_dir, "--group", "billing", "--at", at(minute)).stderr


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--at", "14:05", "--group", "g"), "neither in ISO 8601"),
        (("--at", "0"), "give a --group"),
        (("--at", "0", "--group", "g", "--topic", OFFSETS_TOPIC), HISTORY_TOPIC),
        (("--at", "0", "--group", "g", "--to", "0"), "--from and --to"),
        (("--at", "0", "--group", "g", "--state"), "--state"),
        (("--state", "--to", "0"), "--state"),
        (("--state", *HISTORY), "--state"),
    ],
)
def test_what_goes_with_what(data_dir: Path, args: tuple[str, ...], why: str) -> None:
    result = log("dump", "--data-dir", data_dir, *args)
    assert (result.status, result.stdout) == (2, "")
    assert why in result.stderr


def test_a_commit_of_many_offsets_is_shown_one_by_one(data_dir: Path) -> None:
    who = Who(7, "m", None, "c", "/10.0.0.4", "User:a")
    result = append(data_dir, *rows_record([(1, 5, -1), (0, 7, 2)], who), number=partition_for("group", PARTITIONS))
    assert "4 partitions, 0 damages" in result.stdout
    assert dumped(data_dir, *HISTORY, "--group", "group") == [("group", "topic", 1, 5), ("group", "topic", 0, 7)]
    assert dumped(data_dir, "--group", "group", "--at", str(START)) == [
        ("group", "topic", 0, 7),
        ("group", "topic", 1, 5),
    ]
    assert dumped(data_dir, "--group", "group", "--at", str(START - 1)) == []
    in_json = log("dump", "--data-dir", data_dir, *HISTORY, "--group", "group", "--json").stdout.splitlines()
    assert {(json.loads(each)["offset"], json.loads(each)["key"]["type"]) for each in in_json} == {(4, 1)}
    (_, line) = log("dump", "--data-dir", data_dir, *HISTORY, "--group", "group").stdout.splitlines()
    assert line.endswith(
        'group="group" topic="topic" partition=0 offset=7 leader_epoch=2 metadata="" generation_id=7 member_id="m" '
        'group_instance_id=null client_id="c" client_host="/10.0.0.4" principal="User:a"'
    )


@pytest.mark.parametrize(
    ("topic", "why"),
    [(HISTORY_TOPIC, "none is kept with offsets.history.retention.minutes=0"), ("orders", f"and {STATE_TOPIC}")],
)
def test_a_topic_that_is_not_there(tmp_path: Path, topic: str, why: str) -> None:
    """Operators think of their own, and of a history that was switched off."""
    OffsetsLog.open(tmp_path / "data", PARTITIONS).close()
    result = log("dump", "--data-dir", tmp_path / "data", "--topic", topic)
    assert (result.status, result.stdout) == (2, "")
    assert f"holds no partition of {topic}: " in result.stderr
    assert result.stderr.rstrip().endswith(why)


def test_the_topics_that_are_offered_are_those_that_there_are(data_dir: Path) -> None:
    OffsetsLog.open(data_dir, PARTITIONS, topics=(STATE_TOPIC,)).close()
    told = log("dump", "--help").stdout
    for topic in (OFFSETS_TOPIC, HISTORY_TOPIC, STATE_TOPIC):
        assert topic in told
        assert log("dump", "--data-dir", data_dir, "--topic", topic).status == 0


def test_where_a_group_was_is_in_doubt_where_the_history_cannot_be_read(data_dir: Path) -> None:
    """It may be of a later version, and of a later commit."""
    key, value = rows_record([(0, 5, -1)], Who(7, "m", None, "c", "/10.0.0.4"))
    append(data_dir, b"\0\x09" + key[2:], value, number=partition_for("billing", PARTITIONS))
    result = log("dump", "--data-dir", data_dir, "--group", "billing", "--at", at(99))
    assert result.status == 1
    assert len(result.stdout.splitlines()) == 2
    assert f"{HISTORY_TOPIC}: 1 record that cannot be read" in result.stderr


def append(data_dir: Path, key: bytes, value: bytes | None, number: int = 0) -> Result:
    offsets_log = OffsetsLog.open(data_dir, PARTITIONS, topics=(OFFSETS_TOPIC, HISTORY_TOPIC))
    for each in range(PARTITIONS):
        for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
            assert list(offsets_log.recover(each, topic=topic)) is not None
    assert offsets_log.write([PartitionWrite(number, [[(key, value)]], TIMESTAMP, HISTORY_TOPIC)]) == {}
    offsets_log.close()
    return log("verify", "--data-dir", data_dir)


def test_verify_decodes_the_history(data_dir: Path) -> None:
    assert "4 partitions, 0 damages" in log("verify", "--data-dir", data_dir).stdout
    key, value = encode_history(
        (OffsetHistoryKey("g", "t", 0, 0), OffsetHistoryValue(1, -1, "", 0, -1, "", None, "", ""))
    )
    newer = append(data_dir, key, b"\0\1" + value[2:])
    assert newer.status == 0
    assert "note: records of an unknown type, which are skipped: 1" in newer.stdout
    dump = log("dump", "--data-dir", data_dir, *HISTORY)
    assert dump.status == 0
    assert len(dump.stdout.splitlines()) == len(COMMITS) + 1
    assert f"{HISTORY_TOPIC}-0 offset " in dump.stdout
    damaged = append(data_dir, key, value[:-1])
    assert damaged.status == 1
    assert "cannot be decoded" in damaged.stdout


def test_repair_of_the_history_speaks_of_no_offsets(data_dir: Path) -> None:
    segment = max(data_dir.glob(f"{HISTORY_TOPIC}-*/*.log"), key=lambda path: path.stat().st_size)
    raw = bytearray(segment.read_bytes())
    raw[70] ^= 1
    segment.write_bytes(raw)
    plan = log("repair", "--data-dir", data_dir, "--dry-run")
    assert "no committed offset changes" in plan.stdout
    assert "may have older offsets" not in plan.stdout
    assert "These may be older" not in plan.stdout
    (partition,) = log("repair", "--data-dir", data_dir, "--dry-run", "--json").json["partitions"]
    assert partition["maybe_older"] == []
    assert log("repair", "--data-dir", data_dir, "--yes").status == 0
