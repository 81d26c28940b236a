"""`log import` and `log export` between data directories, by the files that brokers keep."""

from __future__ import annotations

import errno
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from protocol.offsets_log import (
    CommittedOffset,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.own.position import Position, position_header
from protocol.own.record_sets import EndOfTransaction, TransactionalSet
from protocol.own.state_log import STATE_TOPIC, GroupHandsKey, GroupHandsValue, Hands, Step, encode_state
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.records.batches import encode_batch
from protocol.topic_partition import TopicPartition
from shim.admin.transfer import exporting, importing
from shim.admin.transfer.broker_offsets import read_broker
from shim.admin.transfer.exporting import export_to_folders, verify_export
from shim.admin.transfer.group_offsets import GroupOffsets, offset_commit_value
from shim.log import LogError, OffsetsLog, PartitionWrite
from shim.log.disk.files import Files
from tests.admin.running import SILENT, TIMESTAMP, commit_record, log, served, write_log
from tests.log.lost_files import LostFiles
from tests.log.sync_sites import Site, sites, watching

GROUPS = ["one", "two", "another", "ones", "grüppe", "x" * 200]
FAR_MS = 1 << 60
SEGMENT = f"{0:020d}.log"

Contents = dict[Path, bytes]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Every group with offsets of every kind; some are overwritten, some deleted."""
    path = tmp_path / "data"
    records = []
    for number, group in enumerate(GROUPS):
        fields: list[dict[str, Any]] = [
            {"leader_epoch": number},
            {"metadata": 'ö"\n\0' * 50},
            {"expire_timestamp": FAR_MS},
            {},
        ]
        for partition, its in enumerate(fields):
            records.append((group, commit_record(group, "t", partition, 1)))
            records.append((group, commit_record(group, "t", partition, 100 * number + partition, **its)))
        records.append((group, commit_record(group, "deleted", 0, 5)))
        records.append((group, commit_record(group, "deleted", 0, None)))
        records.append((group, commit_record(group, f"topic-{number}", 7, 2**63 - 1)))
    records.append(("gone", commit_record("gone", "t", 0, 1)))
    records.append(("gone", commit_record("gone", "t", 0, None)))
    write_log(path, records, partitions=3)
    return path


@pytest.fixture
def exported(data_dir: Path, tmp_path: Path) -> Path:
    target = tmp_path / "exported"
    result = log("export", "--data-dir", data_dir, "--to-folder", target, "--partitions", "5")
    assert result.status == 0, result.stderr
    assert result.stdout.endswith("6 groups, 30 offsets; read back: all there\n")
    return target


def contents(path: Path) -> Contents:
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_out_and_in_again(data_dir: Path, exported: Path, tmp_path: Path) -> None:
    target = tmp_path / "imported"
    result = log("import", "--data-dir", target, "--from-folder", exported, "--partitions", "7", "--json")
    assert result.status == 0, result.stderr
    assert served(target) == served(data_dir)
    assert {each["outcome"] for each in result.json["groups"]} == {"new"}
    assert result.json["verified"] is True
    assert len(list(target.glob("__consumer_offsets-*"))) == 7
    again = log("import", "--data-dir", target, "--from-folder", exported, "--json")
    assert {each["outcome"] for each in again.json["groups"]} == {"unchanged"}


def test_every_group_is_where_a_broker_looks_for_it(exported: Path) -> None:
    assert sorted(path.name for path in exported.iterdir()) == [f"__consumer_offsets-{p}" for p in range(5)]
    for group in GROUPS:
        holders = [path for path in exported.iterdir() if group.encode() in (path / SEGMENT).read_bytes()]
        expected = f"__consumer_offsets-{partition_for(group, 5)}"
        assert expected in [path.name for path in holders]


def test_only_what_was_asked_for(data_dir: Path, tmp_path: Path) -> None:
    target, exported = tmp_path / "imported", tmp_path / "exported"
    some = ["--group", "one", "--group", "another"]
    assert log("export", "--data-dir", data_dir, "--to-folder", exported, *some).status == 0
    whole = served(data_dir)
    assert log("import", "--data-dir", target, "--from-folder", exported, "--group", "one").status == 0
    assert served(target) == {"one": whole["one"]}
    assert log("import", "--data-dir", target, "--from-folder", exported).status == 0
    assert served(target) == {group: whole[group] for group in ("one", "another")}
    result = log("import", "--data-dir", target, "--from-folder", exported, "--group", "two")
    assert (result.status, result.stderr) == (2, "Error: no offsets there of two\n")
    result = log("export", "--data-dir", data_dir, "--to-folder", exported / "2", "--group", "gone")
    assert (result.status, result.stderr) == (2, f"Error: {data_dir} holds no offsets of gone\n")


def test_a_dry_run_writes_nothing(data_dir: Path, exported: Path, tmp_path: Path) -> None:
    before = contents(tmp_path)
    result = log("import", "--data-dir", tmp_path / "new", "--from-folder", exported, "--dry-run")
    assert result.status == 0
    assert result.stdout.endswith("6 groups, 30 offsets; nothing was written\n")
    assert log("import", "--data-dir", data_dir, "--from-folder", exported, "--dry-run").status == 0
    assert log("export", "--data-dir", data_dir, "--to-folder", tmp_path / "2", "--dry-run").status == 0
    after = contents(tmp_path)
    after.pop(data_dir / ".lock", None)
    before.pop(data_dir / ".lock", None)
    assert after == before


def test_a_group_that_is_here_is_refused_unless_it_is_to_be_replaced(exported: Path, tmp_path: Path) -> None:
    target = tmp_path / "here"
    member = GroupMetadataValue("consumer", 1, "range", "m", 5, (MemberMetadata("m"),))
    records = [
        ("one", commit_record("one", "t", 0, 1)),
        ("one", commit_record("one", "stale", 0, 1)),
        ("mine", commit_record("mine", "t", 0, 1)),
        ("two", (encode_key(GroupMetadataKey("two")), encode_value(member))),
    ]
    write_log(target, records, partitions=2)
    before = served(target)
    result = log("import", "--data-dir", target, "--from-folder", exported)
    assert result.status == 2
    assert (
        "there are other offsets, members or transactions that have not ended, of one, two here already"
        in result.stderr
    )
    assert served(target) == before

    result = log("import", "--data-dir", target, "--from-folder", exported, "--replace", "--json")
    assert result.status == 0
    outcomes = {each["group"]: (each["outcome"], each["deleted"]) for each in result.json["groups"]}
    assert (outcomes["one"], outcomes["two"]) == (("replaced", 1), ("replaced", 0))
    after = served(target)
    assert TopicPartition("stale", 0) not in after["one"]
    assert after["mine"] == before["mine"]
    assert after["one"][TopicPartition("t", 1)].metadata == 'ö"\n\0' * 50


def test_offsets_of_another_cluster_are_refused(exported: Path, tmp_path: Path) -> None:
    target = tmp_path / "here"
    offsets_log = OffsetsLog.open(target, 1)
    offsets_log.data_dir.claim("A")
    offsets_log.close()
    (exported / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=B\n")
    result = log("import", "--data-dir", target, "--from-folder", exported)
    assert result.status == 2
    assert "is of cluster A, the offsets are of B" in result.stderr
    assert log("import", "--data-dir", target, "--from-folder", exported, "--any-cluster").status == 0
    assert log("import", "--data-dir", tmp_path / "new", "--from-folder", exported).status == 0
    assert "cluster.id=B" in (tmp_path / "new" / "meta.properties").read_text()


def test_what_a_broker_would_not_serve_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "broker" / f"__consumer_offsets-{partition_for('one', 5)}"
    folder.mkdir(parents=True)
    stranger = next(group for group in GROUPS if partition_for(group, 5) != partition_for("one", 5))
    batches = b""
    for offset, (key, value) in enumerate(
        [
            commit_record("one", "t", 0, 7),
            commit_record("one", "expired", 0, 8, expire_timestamp=TIMESTAMP),
            commit_record(stranger, "t", 0, 9),
            (b"\x00\x05\x00\x01g", b"\x00\x00"),
        ]
    ):
        batches += encode_batch(offset * 10, [(key, value)], TIMESTAMP)  # with the gaps that a cleaner leaves
    (folder / SEGMENT).write_bytes(batches + batches[:40])
    source: list[str | Path] = ["--from-folder", folder.parent, "--source-partitions", "5", "--json"]
    result = log("import", "--data-dir", tmp_path / "data", *source)
    assert result.status == 0, result.stderr
    ((group, committed),) = served(tmp_path / "data").items()
    assert group == "one"
    assert {at.topic: its.offset for at, its in committed.items()} == {"t": 7, "expired": 8}
    assert {at.topic: its.expire_timestamp for at, its in committed.items()} == {"t": -1, "expired": TIMESTAMP}
    counts = result.json["source"]
    assert (counts["expired"], counts["misplaced"], counts["unknown_keys"]) == (1, 1, {"5": 1})
    (tail,) = counts["ignored_tails"]
    assert (tail["position"], tail["size"]) == (len(batches), 40)


@pytest.mark.parametrize("at", [70, 20])
def test_damage_is_refused(exported: Path, tmp_path: Path, at: int) -> None:
    path = max(exported.glob("*/*.log"), key=lambda path: path.stat().st_size)
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(bytes(raw) + encode_batch(10_000, [commit_record("one", "t", 0, 1)], TIMESTAMP))
    result = log("import", "--data-dir", tmp_path / "new", "--from-folder", exported)
    assert result.status == 1
    assert f"{path} is damaged at byte 0" in result.stderr
    assert not (tmp_path / "new").exists()


def test_an_offset_that_falls_is_no_torn_write(exported: Path, tmp_path: Path) -> None:
    path = max(exported.glob("*/*.log"), key=lambda path: path.stat().st_size)
    raw = path.read_bytes()
    path.write_bytes(raw + encode_batch(0, [commit_record("one", "t", 0, 1)], TIMESTAMP))
    result = log("import", "--data-dir", tmp_path / "new", "--from-folder", exported)
    assert result.status == 1
    assert f"{path} is damaged at byte {len(raw)}: offset 0 after" in result.stderr


def test_nothing_is_taken_out_of_a_damaged_log(data_dir: Path, tmp_path: Path) -> None:
    path = max(data_dir.glob("*/*.log"), key=lambda path: path.stat().st_size)
    raw = bytearray(path.read_bytes())
    raw[70] ^= 1
    path.write_bytes(raw)
    result = log("export", "--data-dir", data_dir, "--to-folder", tmp_path / "exported")
    assert result.status == 1
    assert f"{path} is damaged at byte 0" in result.stderr
    assert not (tmp_path / "exported").exists()


def test_folders_that_are_there_are_left_alone(data_dir: Path, exported: Path) -> None:
    before = contents(exported)
    result = log("export", "--data-dir", data_dir, "--to-folder", exported)
    assert result.status == 2
    assert f"Error: {exported} is there already: " in result.stderr
    assert contents(exported) == before


class BreaksOff(Files):
    """Fails where the third partition's folder is made, as on a full disk."""

    def mkdir(self, path: Path) -> None:
        if path.name == f"{OFFSETS_TOPIC}-2":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().mkdir(path)


def test_half_an_export_is_none(data_dir: Path, tmp_path: Path) -> None:
    """It would be imported without a word: a broker need not have all partitions."""
    target = tmp_path / "exported"
    with pytest.raises(OSError, match="No space left on device"):
        export_to_folders(BreaksOff(), target, GroupOffsets(), [], 5, TIMESTAMP, SILENT)
    assert [*tmp_path.iterdir()] == [data_dir]
    killed = target.with_name("exported.unfinished")
    killed.mkdir()
    result = log("export", "--data-dir", data_dir, "--to-folder", target)
    assert (result.status, result.stdout) == (2, "")
    assert f"Error: {killed} is there already: " in result.stderr
    assert not target.exists()


def test_one_source_or_target_is_wanted(data_dir: Path, tmp_path: Path) -> None:
    for args in (["import"], ["import", "--from-folder", tmp_path, "--from-bootstrap", "h:1"], ["export"]):
        result = log(*args, "--data-dir", data_dir)
        assert result.status == 2
        assert "give either" in result.stderr


def test_a_difference_is_told(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the write not what was asked for, reading back would show it."""

    def wrong(committed: CommittedOffset) -> OffsetCommitValue:
        value = original(committed)
        return value._replace(offset=value.offset - 1) if value.offset == 100 * GROUPS.index("two") else value

    original = offset_commit_value
    monkeypatch.setattr(importing, "offset_commit_value", wrong)
    result = log("import", "--data-dir", tmp_path / "new", "--from-folder", exported)
    assert result.status == 1
    assert "group two t-0: expected" in result.stderr
    assert "1 difference when read back" in result.stdout


# --- brokers let offsets expire --------------------------------------------------------------------------------------

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def of_all_ages(tmp_path: Path) -> Path:
    """Two that are older than a broker keeps them, one that is not, one of each that has an expire timestamp."""
    now_ms = time.time_ns() // 1_000_000
    path = tmp_path / "ages"
    ages = {
        "idle": {"commit_timestamp": now_ms - 8 * DAY_MS},
        "idle too": {"commit_timestamp": now_ms - 7 * DAY_MS},
        "fresh": {"commit_timestamp": now_ms - 6 * DAY_MS},
        "over": {"commit_timestamp": now_ms - 9 * DAY_MS, "expire_timestamp": now_ms - 1},
        "not over": {"commit_timestamp": now_ms - 9 * DAY_MS, "expire_timestamp": now_ms + DAY_MS},
    }
    write_log(path, [(group, commit_record(group, "t", 0, 5, **its)) for group, its in ages.items()], partitions=2)
    return path


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["done", "dry run"])
def test_an_export_says_how_many_offsets_brokers_will_drop(
    of_all_ages: Path, tmp_path: Path, dry_run: list[str]
) -> None:
    export: list[str | Path] = ["export", "--data-dir", of_all_ages, "--to-folder", tmp_path / "exported", *dry_run]
    told = log(*export)
    assert told.status == 0
    assert "warning: 2 offsets committed more than 7 days ago: a broker drops them soon after its start" in told.stderr
    assert "offsets.retention.minutes" in told.stderr
    assert "--commit-timestamp now" in told.stderr
    assert "warning: 1 offset with an expire timestamp that has passed" in told.stderr
    shutil.rmtree(tmp_path / "exported", ignore_errors=True)
    assert log(*export, "--json").json["expiring"] == {"old": 2, "expired": 1}
    shutil.rmtree(tmp_path / "exported", ignore_errors=True)
    fresh = log(*export, "--group", "fresh", "--group", "not over")
    assert (fresh.status, fresh.stderr) == (0, "")


def test_an_export_as_of_now(of_all_ages: Path, tmp_path: Path) -> None:
    exported = tmp_path / "exported"
    result = log("export", "--data-dir", of_all_ages, "--to-folder", exported, "--commit-timestamp", "now", "--json")
    assert result.status == 0, result.stderr
    assert result.json["verified"] is True
    assert result.json["expiring"] == {"old": 0, "expired": 1}
    found, _ = read_broker(Files(), [exported], 0, SILENT)
    before = served(of_all_ages)
    at = TopicPartition("t", 0)
    now_ms = time.time_ns() // 1_000_000
    for group in before:
        committed = found.of(group)[at]
        assert now_ms - 60_000 < committed.commit_timestamp <= now_ms
        assert committed._replace(commit_timestamp=0) == before[group][at]._replace(commit_timestamp=0)


def test_an_import_says_how_many_offsets_the_shim_will_drop_and_can_take_them_as_of_now(
    of_all_ages: Path, tmp_path: Path
) -> None:
    exported = tmp_path / "exported"
    assert log("export", "--data-dir", of_all_ages, "--to-folder", exported).status == 0
    here: list[str | Path] = ["import", "--data-dir", tmp_path / "here", "--from-folder", exported]
    told = log(*here)
    assert told.status == 0
    assert "warning: 2 offsets committed more than 7 days ago" in told.stderr
    assert "--commit-timestamp now" in told.stderr
    assert "warning: 1 offset with an expire timestamp that has passed" in told.stderr
    at, now_ms = TopicPartition("t", 0), time.time_ns() // 1_000_000
    assert served(tmp_path / "here")["idle"][at].commit_timestamp < now_ms - 7 * DAY_MS
    assert log(*here, "--json").json["expiring"] == {"old": 2, "expired": 1}

    result = log(*here, "--commit-timestamp", "now", "--replace", "--json")
    assert result.status == 0, result.stderr
    assert (result.json["verified"], result.json["expiring"]) == (True, {"old": 0, "expired": 1})
    before, taken = served(of_all_ages), served(tmp_path / "here")
    assert taken.keys() == before.keys()
    for group, committed in taken.items():
        assert now_ms <= committed[at].commit_timestamp <= time.time_ns() // 1_000_000
        assert committed[at]._replace(commit_timestamp=0) == before[group][at]._replace(commit_timestamp=0)


# --- an export survives a power failure ------------------------------------------------------------------------------

FOLDER_OF_TRANSFER = Path(exporting.__file__).parent
EXPORT_SITES = [site for site in sites(frozenset(), FOLDER_OF_TRANSFER) if site.module == "exporting"]


@pytest.fixture
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_BATCH_SIZE", 300)
    monkeypatch.setattr(exporting, "_SEGMENT_SIZE", 1000)


def survives(seeds: range, files_type: type[LostFiles] = LostFiles) -> bool:
    return all(is_there_after_a_power_failure(seed, files_type) for seed in seeds)


def is_there_after_a_power_failure(seed: int, files_type: type[LostFiles]) -> bool:
    offsets = GroupOffsets()
    for group in GROUPS:
        for partition in range(10):
            offsets.set(OffsetCommitKey(group, "t", partition), CommittedOffset(partition, -1, "", TIMESTAMP))
    files = files_type(rng=random.Random(seed))
    files.mkdir(Path("/disk"))
    files.sync_directory(Path("/"))
    target = Path("/disk/exported")
    export_to_folders(files, target, offsets, GROUPS, 3, TIMESTAMP, SILENT)
    try:
        problems = verify_export(files.after_power_failure(), target, offsets, GROUPS, 3, SILENT)
    except (LogError, OSError):
        return False
    return not any(problems.values())


def test_commits_of_any_two_times_are_exported(tmp_path: Path) -> None:
    offsets = GroupOffsets()
    for partition, committed_at in enumerate((-(2**63), -1, TIMESTAMP, 2**63 - 1)):
        offsets.set(OffsetCommitKey("one", "t", partition), CommittedOffset(partition, -1, "", committed_at))
    target = tmp_path / "exported"
    export_to_folders(Files(), target, offsets, ["one"], 3, TIMESTAMP, SILENT)
    assert verify_export(Files(), target, offsets, ["one"], 3, SILENT) == {"one": []}
    found, _ = read_broker(Files(), [target], TIMESTAMP, SILENT, num_partitions=3)
    assert found.of("one") == offsets.of("one")


@pytest.mark.usefixtures("_small_segments")
def test_an_export_is_durable() -> None:
    assert survives(range(20))


@pytest.mark.usefixtures("_small_segments")
@pytest.mark.parametrize("site", EXPORT_SITES, ids=str)
def test_no_sync_of_an_export_can_be_left_out(site: Site) -> None:
    watched = watching(folder=FOLDER_OF_TRANSFER)
    assert survives(range(1), watched)
    through = [path for path in watched.seen if (path.module, path.line) == (site.module, site.line)]
    assert through, "nothing that is tested here comes by this sync"
    for path in through:
        assert not survives(range(50), watching(path, FOLDER_OF_TRANSFER)), f"not missed: {path}"


def in_transaction(data_dir: Path, *appended: TransactionalSet | EndOfTransaction) -> None:
    """What the shim takes over from the cluster's log, at the end of the one partition of this one."""
    offsets_log = OffsetsLog.open(data_dir, 1)
    try:
        assert all(offsets_log.recover(0))
        for each in appended:
            assert offsets_log.write([PartitionWrite(0, [each], TIMESTAMP)]) == {}
    finally:
        offsets_log.close()


def pending(producer: int, group: str, offset: int | None = 9) -> TransactionalSet:
    record = commit_record(group, "t", 0, offset)
    return TransactionalSet(producer, 0, [record], (position_header(Position(3, offset or 0)),))


def ended(producer: int, *, committed: bool) -> EndOfTransaction:
    return EndOfTransaction(producer, 0, committed, 1, (position_header(Position(3, 99)),))


@pytest.fixture
def transacting(tmp_path: Path) -> Path:
    """Two groups with an offset each."""
    path = tmp_path / "transacting"
    write_log(path, [(group, commit_record(group, "t", 0, 1)) for group in ("g", "h")])
    return path


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("where", [("--to-folder", "exported"), ("--to-bootstrap", "localhost:1")])
def test_a_group_with_a_transaction_that_has_not_ended_is_not_exported(
    transacting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...], where: tuple[str, str]
) -> None:
    """Its COMMIT may come yet; what was exported would have lost it without a word."""
    monkeypatch.chdir(tmp_path)
    in_transaction(transacting, pending(7, "g"), pending(4, "g"), pending(5, "only-pending"))
    before = contents(transacting)
    result = log("export", "--data-dir", transacting, *where, *dry)
    assert (result.status, result.stdout) == (2, "")
    assert "g (producer id 4, 7), only-pending (producer id 5); let the shim run until they have" in result.stderr
    assert not (tmp_path / "exported").exists()
    assert contents(transacting) == before
    result = log("export", "--data-dir", transacting, *where, *dry, "--group", "only-pending", "--group", "h")
    assert result.status == 2
    assert "offsets of only-pending (producer id 5); let" in result.stderr


def test_the_others_are_and_so_is_it_when_the_transaction_has_ended(transacting: Path, tmp_path: Path) -> None:
    in_transaction(transacting, pending(7, "g"))
    target, imported = tmp_path / "exported", tmp_path / "imported"
    assert log("export", "--data-dir", transacting, "--to-folder", target, "--group", "h").status == 0
    shutil.rmtree(target)
    in_transaction(transacting, ended(7, committed=True))
    assert log("export", "--data-dir", transacting, "--to-folder", target).status == 0
    assert log("import", "--data-dir", imported, "--from-folder", target).status == 0
    assert served(imported)["g"][TopicPartition("t", 0)].offset == 9


def test_a_transaction_that_changes_nothing_any_more_is_in_nobodys_way(transacting: Path, tmp_path: Path) -> None:
    in_transaction(transacting, pending(7, "g"))
    offsets_log = OffsetsLog.open(transacting, 1)
    assert all(offsets_log.recover(0))
    assert offsets_log.write([PartitionWrite(0, [[commit_record("g", "t", 0, 20)]], TIMESTAMP)]) == {}
    offsets_log.close()
    assert log("export", "--data-dir", transacting, "--to-folder", tmp_path / "exported").status == 0


def test_an_import_does_not_overtake_a_transaction_that_has_not_ended(transacting: Path, tmp_path: Path) -> None:
    source, exported = tmp_path / "source", tmp_path / "exported"
    write_log(source, [("new", commit_record("new", "t", 0, 5))])
    assert log("export", "--data-dir", source, "--to-folder", exported).status == 0
    in_transaction(transacting, pending(7, "new"))
    before = contents(transacting)
    result = log("import", "--data-dir", transacting, "--from-folder", exported)
    assert (result.status, contents(transacting)) == (2, before)
    assert "transactions that have not ended, of new here already" in result.stderr
    assert log("import", "--data-dir", transacting, "--from-folder", exported, "--replace").status == 0
    in_transaction(transacting, ended(7, committed=True))
    assert served(transacting)["new"][TopicPartition("t", 0)].offset == 5


# --- what the log has of a group, and does not count -----------------------------------------------------------------

PASSED_THROUGH = GroupHandsValue(Hands.PASSED_THROUGH, TIMESTAMP)
IN_THE_LOG = (Step.KAFKA, Step.KAFKA_DUAL, Step.UPSTREAM_DUAL)


def in_hands(data_dir: Path, hands: dict[str, GroupHandsValue]) -> None:
    """As a shim notes it, in a log with one partition; of each group that it had been passed through before."""
    offsets_log = OffsetsLog.open(data_dir, 1, topics=(OFFSETS_TOPIC, STATE_TOPIC))
    try:
        for topic in (OFFSETS_TOPIC, STATE_TOPIC):
            assert all(offsets_log.recover(0, topic=topic))
        for group, its in hands.items():
            for value in (PASSED_THROUGH, its):
                record = encode_state((GroupHandsKey(group), value))
                assert offsets_log.write([PartitionWrite(0, [[record]], TIMESTAMP, STATE_TOPIC)]) == {}
    finally:
        offsets_log.close()


@pytest.fixture
def of_all_steps(tmp_path: Path) -> Path:
    path = tmp_path / "steps"
    steps = {step.name.lower(): GroupHandsValue(Hands.SERVED, TIMESTAMP, step=step) for step in Step}
    groups = [*steps, "passed", "nobodys"]
    write_log(path, [(group, commit_record(group, "t", 0, 5)) for group in groups])
    in_hands(path, {**steps, "passed": PASSED_THROUGH})
    return path


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_only_what_counts_is_exported(of_all_steps: Path, tmp_path: Path, dry: tuple[str, ...]) -> None:
    """What ZooKeeper or the cluster has may be newer: old consumers and brokers do not write into this log."""
    exported = tmp_path / "exported"
    result = log("export", "--data-dir", of_all_steps, "--to-folder", exported, *dry, "--json")
    assert result.status == 1
    refused = {each["group"]: each["problems"] for each in result.json["groups"] if each["outcome"] == "refused"}
    assert refused == {
        "passed": ["group passed: it is passed through: the cluster has its offsets"],
        **{
            group: [
                f"group {group}: it is at a step at which ZooKeeper is right, and the log may be older: migrate "
                "advance first"
            ]
            for group in ("zookeeper", "zookeeper_dual")
        },
    }
    assert exported.exists() == (not dry)
    if not dry:
        found, _ = read_broker(Files(), [exported], TIMESTAMP, SILENT)
        assert set(found.groups()) == {"nobodys", *(step.name.lower() for step in IN_THE_LOG)}


def test_where_nothing_counts_nothing_is_written(of_all_steps: Path, tmp_path: Path) -> None:
    exported = tmp_path / "exported"
    result = log("export", "--data-dir", of_all_steps, "--to-folder", exported, "--group", "passed")
    assert (result.status, exported.exists()) == (1, False)
    assert "problem: group passed: it is passed through" in result.stderr


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_the_shim_would_not_serve_is_not_imported(
    of_all_steps: Path, tmp_path: Path, dry: tuple[str, ...]
) -> None:
    source, exported = tmp_path / "source", tmp_path / "exported"
    groups = ["passed", "zookeeper_dual", "kafka", "nobodys", "new"]
    write_log(source, [(group, commit_record(group, "t", 0, 7)) for group in groups])
    assert log("export", "--data-dir", source, "--to-folder", exported).status == 0
    before = contents(of_all_steps)
    into: list[str | Path] = ["import", "--data-dir", of_all_steps, "--from-folder", exported, "--replace", *dry]
    result = log(*into)
    assert (result.status, result.stdout) == (2, "")
    assert "would not serve what is imported of passed (it is passed through: the cluster has its offs" in result.stderr
    assert "), zookeeper_dual (it is at a step" in result.stderr
    assert contents(of_all_steps) == before
    result = log(*into, "--group", "kafka", "--group", "nobodys", "--group", "new")
    assert result.status == 0, result.stderr


def test_a_data_directory_is_no_brokers_folder(of_all_steps: Path, tmp_path: Path) -> None:
    """The newest may be in its journal, and what counts of whom it says itself."""
    result = log("import", "--data-dir", tmp_path / "new", "--from-folder", of_all_steps)
    assert result.status == 2
    assert f"{of_all_steps} is a shim's data directory, and no broker's: " in result.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", ["export", "import"])
def test_where_nobody_knows_whose_the_groups_are_nothing_is_carried(
    of_all_steps: Path, tmp_path: Path, command: str
) -> None:
    write_log(tmp_path / "source", [("new", commit_record("new", "t", 0, 7))])
    assert log("export", "--data-dir", tmp_path / "source", "--to-folder", tmp_path / "exported").status == 0
    (path,) = of_all_steps.glob(f"{STATE_TOPIC}-0/*.log")
    raw = bytearray(path.read_bytes())
    raw[70] ^= 1
    path.write_bytes(raw)
    before = contents(of_all_steps)
    option, folder = ("--to-folder", "2") if command == "export" else ("--from-folder", "exported")
    result = log(command, "--data-dir", of_all_steps, option, tmp_path / folder)
    assert result.status == 1
    assert f"{path} is damaged at byte 0" in result.stderr
    assert contents(of_all_steps) == before
    assert not (tmp_path / "2").exists()


@pytest.mark.parametrize("command", ["export", "import", "backup"])
def test_offsets_in_another_partitions_files_are_not_taken(tmp_path: Path, command: str) -> None:
    """They may be older than those of the same group where it belongs, as the shim serves them."""
    old, data_dir = tmp_path / "old", tmp_path / "data"
    write_log(old, [("g", commit_record("g", "t", 0, 3))], partitions=3)
    write_log(data_dir, [("g", commit_record("g", "t", 0, 7))], partitions=3)
    home = partition_for("g", 3)
    other = data_dir / f"__consumer_offsets-{(home + 1) % 3}"
    shutil.rmtree(other)
    shutil.copytree(old / f"__consumer_offsets-{home}", other)
    write_log(tmp_path / "from", [("h", commit_record("h", "t", 0, 3))])
    assert log("export", "--data-dir", tmp_path / "from", "--to-folder", tmp_path / "exported").status == 0
    commands: dict[str, list[str | Path]] = {
        "export": ["export", "--data-dir", data_dir, "--to-folder", tmp_path / "out"],
        "import": ["import", "--data-dir", data_dir, "--from-folder", tmp_path / "exported"],
        "backup": ["backup", "--data-dir", data_dir, tmp_path / "backup"],
    }
    result = log(*commands[command])
    assert result.status not in (0, 1), result.stdout
    assert "another partition" in result.stderr
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "backup").exists()
