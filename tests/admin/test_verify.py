"""`log verify` and `log repair` as commands; what they find in every kind of damage is tested beside this."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.records.batches import encode_batch
from protocol.records.compression import Compression
from shim.log import DataDir, LogSettings, OffsetsLog, PartitionWrite
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT
from shim.log.disk.files import Files
from tests.admin.running import TIMESTAMP, commit_record, log, log_in_a_process, plainly, served, write_log

SEGMENT = "00000000000000000000.log"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    records = [("g", commit_record("g", f"topic-{n % 5}", 0, n)) for n in range(40)]
    write_log(path, records, settings=LogSettings(segment_bytes=1000))
    return path


def damage(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0x10
    path.write_bytes(raw)


def test_a_sound_log(data_dir: Path) -> None:
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 0
    partition, total = result.stdout.splitlines()
    assert partition.startswith("__consumer_offsets-0: sound; ")
    assert "40 batches, 40 records, end offset 40" in partition
    assert total == "1 partition, 0 damages"
    document = log("verify", "--data-dir", data_dir, "--json").json
    assert document["damaged"] is False
    assert document["clean_shutdown"] is True
    assert (document["partitions"][0]["records"], document["partitions"][0]["tombstones"]) == (40, 0)
    assert log("repair", "--data-dir", data_dir).stdout == "nothing is damaged\n"


def test_only_what_there_is_to_say(tmp_path: Path) -> None:
    """A line for what has records, or a note; the others are counted."""
    write_log(tmp_path, [("g", commit_record("g", "t", 0, 7))], partitions=5)
    written = partition_for("g", 5)
    torn = (written + 1) % 5
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with (tmp_path / f"{OFFSETS_TOPIC}-{torn}" / SEGMENT).open("ab") as file:
        file.write(b"torn")
    *told, empty, total = log("verify", "--data-dir", tmp_path).stdout.splitlines()
    partitions = [line.split(":")[0] for line in told if not line.startswith("  ")]
    assert partitions == [f"{OFFSETS_TOPIC}-{at}" for at in sorted((written, torn))]
    assert [line.split(" of ")[0] for line in told if line.startswith("  ")] == [
        f"  note: {tmp_path / f'{OFFSETS_TOPIC}-{torn}' / SEGMENT}: a torn write"
    ]
    assert (empty, total) == ("3 empty partitions", "5 partitions, 0 damages")
    assert len(log("verify", "--data-dir", tmp_path, "--json").json["partitions"]) == 5


def test_file_and_byte_of_each_damage(data_dir: Path) -> None:
    folder = data_dir / "__consumer_offsets-0"
    first, second, *_ = sorted(folder.glob("*.log"))
    damage(first, 100)
    damage(second, 70)
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    told = [line for line in result.stdout.splitlines() if "damage:" in line]
    size = 12 + int.from_bytes(first.read_bytes()[8:12], "big")
    assert told == [
        f"  damage: {first} at byte {size if size <= 100 else 0}: CRC mismatch",
        f"  damage: {second} at byte 0: CRC mismatch",
    ]
    document = log("verify", "--data-dir", data_dir, "--json").json
    assert [each["path"] for each in document["partitions"][0]["damages"]] == [str(first), str(second)]


def test_what_is_wrong_and_no_damage(data_dir: Path) -> None:
    folder = data_dir / "__consumer_offsets-0"
    index = sorted(folder.glob("*.index"))[1]
    index.write_bytes(b"\x00" * 8)
    (data_dir / CLEANER_OFFSET_CHECKPOINT).write_bytes(b"nonsense")
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 0
    assert [line.split(":")[0] for line in result.stdout.splitlines() if line.startswith("  ")] == ["  note", "  note"]
    assert str(index) in result.stdout
    assert CLEANER_OFFSET_CHECKPOINT in result.stdout


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (encode_batch(40, [(b"\x00\x01\x00\x09g", b"")], TIMESTAMP), "cannot be decoded"),
        (encode_batch(40, [(commit_record("g", "t", 0, 1)[0], b"\x00\x09")], TIMESTAMP), "cannot be decoded"),
        (encode_batch(40, [(None, b"value")], TIMESTAMP), "has no key"),
        (encode_batch(40, [commit_record("g", "t", 0, 1)], TIMESTAMP, attributes=0x10), "transactional"),
        (encode_batch(40, [commit_record("g", "t", 0, 1)], TIMESTAMP, compression=Compression.LZ4), "compressed"),
        (encode_batch(45, [commit_record("g", "t", 0, 1)], TIMESTAMP), "base offset 45 where 40 is due"),
    ],
    ids=["key", "value", "no key", "transactional", "compressed", "gap"],
)
def test_sound_batches_that_do_not_belong_here(data_dir: Path, batch: bytes, reason: str) -> None:
    before = plainly(served(data_dir))
    active = max((data_dir / "__consumer_offsets-0").glob("*.log"))
    size = active.stat().st_size
    with active.open("ab") as file:
        file.write(batch)
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    assert f"{active} at byte {size}: " in result.stdout
    assert reason in result.stdout
    assert log("repair", "--data-dir", data_dir, "--skip", "--yes").status == 0
    assert log("verify", "--data-dir", data_dir).status == 0
    assert plainly(served(data_dir)) == before
    assert active.with_name(f"{active.name}.cut-{size}").read_bytes() == batch


def test_repair_says_what_may_be_older_and_asks_nobody_where_nobody_is(data_dir: Path) -> None:
    active = max((data_dir / "__consumer_offsets-0").glob("*.log"))
    raw = active.read_bytes()
    start, starts = 0, []
    while start < len(raw):
        starts.append(start)
        start += 12 + int.from_bytes(raw[start + 8 : start + 12], "big")
    damage(active, starts[-1] + 20)  # the CRC itself: all else of the newest commit can be read
    before = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}

    looked = log("repair", "--data-dir", data_dir, "--dry-run", "--json").json
    assert looked["partitions"][0]["maybe_older"] == [
        {
            "group": "g",
            "topic": "topic-4",
            "partition": 0,
            "key": commit_record("g", "topic-4", 0, 0)[0].hex(),
            "then": 34,
            "was": 39,
        }
    ]
    assert looked["partitions"][0]["unknown_offsets"] == [{"offset": 39, "next_offset": None}]
    assert {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()} == before

    done = log_in_a_process("repair", "--data-dir", data_dir)  # standard input is no terminal: nobody is asked
    assert done.status == 0, done.stderr
    assert "g      topic-4          0  34    39" in done.stdout
    assert done.stdout.endswith("repaired\n")
    assert served(data_dir)["g"][("topic-4", 0)].offset == 34  # type: ignore[index]


def test_on_a_terminal_it_asks(data_dir: Path) -> None:
    active = max((data_dir / "__consumer_offsets-0").glob("*.log"))
    damage(active, 20)
    ours, theirs = os.openpty()
    try:
        os.write(ours, b"n\n")
        result = log_in_a_process("repair", "--data-dir", data_dir, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert result.status == 2
    assert "Repair 1 damage? [y/N]" in result.stderr
    assert log("verify", "--data-dir", data_dir).status == 1


def test_the_last_partitions_folder_is_missing(tmp_path: Path) -> None:
    """How many partitions there are, the other topic still says: what is left is not another partition's."""
    data_dir, count = tmp_path / "data", 3
    groups = {partition_for(f"g{number}", count): f"g{number}" for number in range(20)}
    offsets_log = OffsetsLog.open(data_dir, count, topics=(OFFSETS_TOPIC, HISTORY_TOPIC))
    for partition, group in groups.items():
        for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
            assert list(offsets_log.recover(partition, topic=topic)) == []
        assert offsets_log.write([PartitionWrite(partition, [[commit_record(group, "t", 0, 3)]], TIMESTAMP)]) == {}
    offsets_log.close()
    missing = data_dir / f"{OFFSETS_TOPIC}-{count - 1}"
    shutil.rmtree(missing)
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    assert f"{missing} at byte 0: the partition's folder is missing" in result.stdout
    assert "another partition" not in result.stdout
    result = log("export", "--data-dir", data_dir, "--to-folder", tmp_path / "out")
    assert result.status == 1
    assert f"{missing} is damaged at byte 0: the partition's folder is missing" in result.stderr
    assert log("repair", "--data-dir", data_dir, "--yes").status == 0
    assert served(data_dir).keys() == {groups[0], groups[1]}


def test_another_partitions_files_are_told(tmp_path: Path) -> None:
    group = next(group for group in map(str, range(100)) if partition_for(group, 2) == 0)
    write_log(tmp_path, [(group, commit_record(group, "t", 0, 7))], partitions=2)
    assert log("verify", "--data-dir", tmp_path).status == 0
    first, second, aside = (tmp_path / name for name in ("__consumer_offsets-0", "__consumer_offsets-1", "aside"))
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    result = log("verify", "--data-dir", tmp_path)
    assert result.status == 1
    assert f"group '{group}' belongs into partition 0 of 2" in result.stdout
    found = log("verify", "--data-dir", tmp_path, "--json").json["partitions"]
    assert [each["misplaced"] for each in found] == [False, True]
    assert not any(each["damages"] for each in found)


@pytest.mark.parametrize("mark", ["version=1\nnode.id=1\ncluster.id=x\n", "version=0\nbroker.id=0\n", None])
@pytest.mark.parametrize("command", [["verify"], ["repair", "--yes"], ["dump"], ["compact"]])
def test_a_brokers_log_directory_is_left_alone(tmp_path: Path, mark: str | None, command: list[str]) -> None:
    write_log(tmp_path, [("g", commit_record("g", "t", 0, 7))])
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(b"not ours")
    if mark is None:
        (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    else:
        (tmp_path / "meta.properties").write_text(mark)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    result = log(*command, "--data-dir", tmp_path)
    assert result.status == 2
    assert "is a broker's log directory" in result.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "command", [["verify"], ["repair", "--yes"], ["dump"], ["compact"], ["backup", "copy"]], ids=" ".join
)
def test_any_other_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    """Though there is something in it that has the name of a partition."""
    monkeypatch.chdir(tmp_path)
    Path("home/logs-2").mkdir(parents=True)
    Path("home/logs-2/today.txt").write_text("not ours")
    result = log(*command, "--data-dir", "home")
    assert result.status == 2
    assert "home is no data directory: it has no partition of __consumer_offsets in it" in result.stderr
    assert sorted(map(str, Path().rglob("*"))) == ["home", "home/logs-2", "home/logs-2/today.txt"]


@pytest.mark.parametrize(
    "command",
    [
        ["verify", "--data-dir", "topics"],
        ["repair", "--data-dir", "topics", "--yes"],
        ["dump", "--data-dir", "topics"],
        ["compact", "--data-dir", "topics"],
        ["export", "--data-dir", "topics", "--to-folder", "out"],
        ["backup", "--data-dir", "topics", "out"],
        ["import", "--data-dir", "topics", "--from-folder", "data"],
        ["import", "--data-dir", "topics", "--from-folder", "data", "--dry-run"],
        ["import", "--data-dir", "out", "--from-folder", "topics"],
    ],
    ids=" ".join,
)
def test_there_is_nothing_to_look_at_where_the_log_is_on_topics(
    data_dir: Path, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    held = DataDir.open(tmp_path / "topics", topics_prefix="own")
    held.claim("A")
    held.close()
    before = sorted(tmp_path.rglob("*"))
    result = log(*command)
    assert (result.status, result.stdout) == (2, "")
    (told,) = result.stderr.splitlines()
    assert "topics is on topics of the cluster, not in it (meta.properties says offsets.log=kafka:own)" in told
    assert "`offset-shim groups` at that shim, or Kafka's tools at topic own_offsets, show what is there" in told
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_read_is_told_and_all_else_is_read(data_dir: Path) -> None:
    """A disk that has lost a sector: where the rest stands is what somebody wants to know then."""
    folder = data_dir / f"{OFFSETS_TOPIC}-0"
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 3
    lost, hurt = segments[1], segments[2]
    index = segments[0].with_suffix(".index")
    assert index.exists()
    for unreadable in (lost, index):
        unreadable.unlink()
        unreadable.mkdir()  # opens, and no byte of it can be read
    damage(hurt, 70)
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    first, *told, total = result.stdout.splitlines()
    assert first.startswith("__consumer_offsets-0: 1 damage, 2 files unreadable; ")
    assert told[:2] == [f"  unreadable: {path}: Is a directory" for path in (lost, index)]
    assert told[2].startswith(f"  damage: {hurt} at byte ")
    assert total == "1 partition, 1 damage, 2 files unreadable"
    document = log("verify", "--data-dir", data_dir, "--json").json
    assert document["damaged"] is True
    (partition,) = document["partitions"]
    assert partition["unreadable"] == [{"path": str(path), "reason": "Is a directory"} for path in (lost, index)]
    assert partition["end_offset"] == 40
    # Nothing is cut out of what may be read another time.
    refused = log("repair", "--data-dir", data_dir, "--skip", "--yes")
    assert refused.status == 2
    assert "Is a directory" in refused.stderr
    assert not list(data_dir.glob("**/*.damaged*"))


def test_a_folder_and_a_checkpoint_that_cannot_be_read(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks may lack the right to."""
    folder, checkpoint = data_dir / f"{OFFSETS_TOPIC}-0", data_dir / CLEANER_OFFSET_CHECKPOINT
    checkpoint.write_text("0\n0\n")
    names, read_file = Files.names, Files.read_file

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Files, "names", lambda self, path: refuse(path) if path == folder else names(self, path))
    monkeypatch.setattr(
        Files, "read_file", lambda self, path: refuse(path) if path == checkpoint else read_file(self, path)
    )
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    note, first, told, total = result.stdout.splitlines()
    assert note.startswith(f"  note: {checkpoint}: Permission denied; it only spares work")
    assert first.startswith("__consumer_offsets-0: 1 file unreadable; ")
    assert told == f"  unreadable: {folder}: Permission denied"
    assert total == "1 partition, 0 damages, 1 file unreadable"
