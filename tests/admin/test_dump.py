"""`log dump`: every record, as a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, MemberMetadata, encode_key, encode_value
from protocol.partition import partition_for
from shim.log import OffsetsLog
from tests.admin.running import TIMESTAMP, Result, commit_record, log, log_in_a_process, write_log

ODD = 'a"b\n\x1b[31mö\U0001f600'
METADATA_RECORD = (
    encode_key(GroupMetadataKey("one")),
    encode_value(
        GroupMetadataValue(
            "consumer", 7, "range", "m", 5, (MemberMetadata("m", client_id="c", subscription=b"\x00\x01"),)
        )
    ),
)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    records = [
        ("one", commit_record("one", "t", 0, 10, metadata=ODD)),
        ("one", commit_record("one", "t", 0, 11, leader_epoch=4)),
        ("one", commit_record("one", "t", 1, 5, expire_timestamp=TIMESTAMP + 9)),
        ("one", commit_record("one", "t", 1, None)),
        ("another", commit_record("another", "t", 2, 1, metadata="\udc80")),
        ("one", METADATA_RECORD),
        ("one", (b"\x00\x05\x00\x01g", b"\x00\x00")),
    ]
    write_log(path, records, partitions=2)
    return path


def lines(result: Result) -> list[dict[str, object]]:
    assert result.status == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_record_and_field(data_dir: Path) -> None:
    found = lines(log("dump", "--data-dir", data_dir, "--json"))
    assert len(found) == 7
    ones = [each for each in found if each["partition"] == partition_for("one", 2)]
    first = next(each for each in ones if each["offset"] == 0)
    assert first == {
        "topic": "__consumer_offsets",
        "partition": partition_for("one", 2),
        "offset": 0,
        "timestamp": TIMESTAMP,
        "segment": "00000000000000000000.log",
        "position": 0,
        "key": {"type": 1, "group": "one", "topic": "t", "partition": 0},
        "value": {
            "version": 3,
            "offset": 10,
            "leader_epoch": -1,
            "metadata": ODD,
            "commit_timestamp": TIMESTAMP,
            "expire_timestamp": -1,
        },
    }
    by_key = {json.dumps(each["key"]): each["value"] for each in found}
    assert by_key['{"type": 1, "group": "one", "topic": "t", "partition": 1}'] is None
    another = by_key['{"type": 1, "group": "another", "topic": "t", "partition": 2}']
    assert isinstance(another, dict)
    assert another["metadata"] == "\udc80"
    assert by_key['{"type": 5, "raw": "AAUAAWc="}'] == {"raw": "AAA="}
    metadata = by_key['{"type": 2, "group": "one"}']
    assert isinstance(metadata, dict)
    assert (metadata["generation"], metadata["version"]) == (7, 3)
    assert metadata["members"][0]["subscription"] == "AAE="


def test_text_is_one_line_a_record_whatever_is_in_it(data_dir: Path) -> None:
    result = log("dump", "--data-dir", data_dir)
    assert result.status == 0
    assert len(result.stdout.splitlines()) == 7
    assert "\x1b" not in result.stdout
    assert f"__consumer_offsets-{partition_for('one', 2)} offset 1 2023-11-14T22:13:21.000Z " in result.stdout
    assert 'type=1 group="one" topic="t" partition=1 -> tombstone' in result.stdout


def test_the_state_is_the_newest_of_each_key(data_dir: Path) -> None:
    found = lines(log("dump", "--data-dir", data_dir, "--state", "--group", "one", "--json"))
    assert [(each["key"], each["offset"]) for each in found] == [
        ({"type": 1, "group": "one", "topic": "t", "partition": 0}, 1),
        ({"type": 2, "group": "one"}, 4),
    ]


def test_a_group_of_which_there_is_nothing_is_said_to_have_nothing(data_dir: Path) -> None:
    result = log("dump", "--data-dir", data_dir, "--group", "oen")
    assert (result.status, result.stdout) == (0, "")
    assert result.stderr == "__consumer_offsets has no record of oen\n"
    home = partition_for("one", 2)
    for options, said in (
        (["--state", "--group", "oen"], "__consumer_offsets has no record in force of oen\n"),
        (["--to", "0", "--group", "one"], "__consumer_offsets has no record of that time of one\n"),
        (
            ["--partition", str(1 - home), "--group", "one"],
            f"__consumer_offsets has no record of one\none is in partition {home}\n",
        ),
    ):
        assert log("dump", "--data-dir", data_dir, *options).stderr == said
    assert log("dump", "--data-dir", data_dir, "--group", "one").stderr == ""


def test_only_what_was_asked_for(data_dir: Path) -> None:
    here, there = partition_for("one", 2), partition_for("another", 2)
    assert here != there
    of_one = lines(log("dump", "--data-dir", data_dir, "--partition", str(here), "--json"))
    assert {each["partition"] for each in of_one} == {here}
    assert lines(log("dump", "--data-dir", data_dir, "--partition", str(here), "--group", "another", "--json")) == []
    (only,) = lines(log("dump", "--data-dir", data_dir, "--group", "another", "--json"))
    assert only["partition"] == there
    assert log("dump", "--data-dir", data_dir, "--partition", "2").status == 2


def test_around_damage(data_dir: Path) -> None:
    segment = data_dir / f"__consumer_offsets-{partition_for('one', 2)}" / "00000000000000000000.log"
    raw = bytearray(segment.read_bytes())
    second = 12 + int.from_bytes(raw[8:12], "big")
    raw[second + 70] ^= 1
    segment.write_bytes(raw)
    result = log("dump", "--data-dir", data_dir, "--json")
    assert result.status == 1
    why = "the log was closed in good order"
    assert result.stderr == f"{segment} is damaged at byte {second}: CRC mismatch; this is no torn write, as {why}\n"
    assert len(result.stdout.splitlines()) == 6


def test_a_directory_in_use_or_not_there(data_dir: Path, tmp_path: Path) -> None:
    held = OffsetsLog.open(data_dir, 2)
    try:
        result = log_in_a_process("dump", "--data-dir", data_dir)
    finally:
        held.close()
    assert (result.status, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: data directory {data_dir} is in use by another process (it holds .lock): ")
    nowhere = tmp_path / "nowhere"
    for command in ("dump", "verify", "repair", "compact"):
        result = log(command, "--data-dir", nowhere)
        assert (result.status, result.stderr) == (2, f"Error: there is no data directory {nowhere}\n")
        assert not nowhere.exists()
    result = log("verify", "--data-dir", tmp_path / "..")
    assert result.status == 2
    assert "is no data directory" in result.stderr
