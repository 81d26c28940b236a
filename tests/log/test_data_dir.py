"""Who may use a data directory, and what must be in it."""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.log import DataDir
from shim.log.directory.places import PLACES_NAME, Place, Places
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, is_in_doubt, read_checkpoint
from shim.log.disk.files import Files
from shim.log.errors import LogError
from shim.log.offsets_log import OffsetsLog
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles
from tests.log.test_log import one, recovered, segment, write

HOLD = """
import pathlib, sys
from shim.log.offsets_log import OffsetsLog
log = OffsetsLog.open(pathlib.Path(sys.argv[1]), 2)
print("held", flush=True)
sys.stdin.read()
"""


def written(data_dir: Path, num_partitions: int = 3) -> None:
    log = OffsetsLog.open(data_dir, num_partitions)
    for partition in range(num_partitions):
        recovered(log, partition)
    assert log.write([write(p, one("a")) for p in range(num_partitions)]) == {}
    log.close()


@pytest.mark.parametrize(
    ("on_topics", "told"),
    [
        (3, "a shim serves them with offsets.log=kafka, and moves them with offsets.log=moving"),
        (2, "a shim serves them, and moves them, with offsets.log=moving"),
    ],
)
def test_partitions_that_are_on_topics_are_told_of(tmp_path: Path, on_topics: int, told: str) -> None:
    """With what serves them as they are now."""
    written(tmp_path)
    Places.begun(Files(), tmp_path, "own", [*[Place.TOPIC] * on_topics, *[Place.DIRECTORY] * (3 - on_topics)])
    with pytest.raises(LogError, match=f"^{on_topics} partitions of 3 of .* are not in it .*: {told}; `offset-shim"):
        OffsetsLog.open(tmp_path, 3)


@pytest.mark.parametrize("seed", range(20))
def test_where_partitions_are_is_durable_before_the_next_process_relies_on_it(seed: int) -> None:
    """The one that noted it could not sync that, and was killed; the power fails when the next one is at work."""
    data_dir = Path("/data")
    files = LostFiles(rng=random.Random(seed))
    held, places = DataDir.open_to_move(data_dir, topics_prefix="own", num_partitions=2, files=files)
    files.error_in, files.errors = frozenset({"sync_directory"}), {files.calls: errno.EIO}
    with pytest.raises(OSError, match="Input/output"):
        places.note(0, Place.TO_TOPIC)
    files.errors = {}
    held.close()
    files = files.after_kill()
    _, found = DataDir.open_to_move(data_dir, topics_prefix="own", num_partitions=2, files=files)
    assert found[0] is Place.TO_TOPIC
    files = files.after_power_failure()
    _, left = DataDir.open_to_move(data_dir, topics_prefix="own", num_partitions=2, files=files)
    assert left[0] is Place.TO_TOPIC
    assert not [name for name in files.names(data_dir) if name.endswith((".doubtful", ".tmp"))]


@pytest.mark.parametrize(("call", "is_doubtful"), [("create", False), ("pwrite", False), ("sync_directory", True)])
def test_what_the_disk_has_no_room_for_leaves_no_doubt(tmp_path: Path, call: str, is_doubtful: bool) -> None:
    """A start on a disk that is full would otherwise have to note once more what is there already."""
    files = FaultyFiles()
    places = Places.begun(files, tmp_path, "own", [Place.TOPIC])
    files.fail(call, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        places.note(0, Place.TO_DIRECTORY)
    assert places[0] is Place.TOPIC
    assert is_in_doubt(files, tmp_path / PLACES_NAME) is is_doubtful
    files.heal()
    again = Places.read(files, tmp_path)
    assert again is not None
    assert again[0] is (Place.TO_DIRECTORY if is_doubtful else Place.TOPIC)


def test_partitions_that_are_all_in_the_directory_are_told_of(tmp_path: Path) -> None:
    Places.begun(Files(), tmp_path, "own", [Place.DIRECTORY] * 3)
    told = "3 partitions of 3 of .* are not on topics .*: a shim serves them with offsets.log=local, and moves them"
    with pytest.raises(LogError, match=told):
        DataDir.open(tmp_path, topics_prefix="own")


def meta(data_dir: Path) -> Path:
    return data_dir / "meta.properties"


def everything_in(data_dir: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data_dir)): path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}


def claimed(data_dir: Path, topics_prefix: str | None = "own") -> DataDir:
    held = DataDir.open(data_dir, topics_prefix=topics_prefix)
    held.claim("A")
    return held


def test_layout(tmp_path: Path) -> None:
    OffsetsLog.open(tmp_path / "a" / "b", 3).close()
    found = sorted(str(p.relative_to(tmp_path / "a" / "b")) for p in (tmp_path / "a" / "b").rglob("*") if p.is_file())
    segments = [f"__consumer_offsets-{p}/00000000000000000000.log" for p in range(3)]
    assert found == [".lock", *segments]


def test_every_new_name_is_durable_before_anything_rests_on_it(tmp_path: Path) -> None:
    files = FaultyFiles()
    data_dir = tmp_path / "a" / "b"
    OffsetsLog.open(data_dir, 3, files=files).close()
    assert files.open_files == {}
    made: set[Path] = set()
    for call, path in files.calls:
        if path == segment(data_dir, 0).parent and call == "mkdir":
            assert made == set()  # partition 0 comes last, when all others are durable
        if call in ("mkdir", "create"):
            assert path.parent not in made or call == "create"
            made.add(path)
        if call == "sync_directory":
            made = {p for p in made if p.parent != path}
    assert made == set()


@pytest.mark.parametrize("made_before", ["", "a", "a/b"])
def test_names_of_a_start_that_was_killed_before_syncing_them_are_synced(tmp_path: Path, made_before: str) -> None:
    (tmp_path / made_before).mkdir(parents=True, exist_ok=True)
    files = FaultyFiles()
    OffsetsLog.open(tmp_path / "a" / "b", 1, files=files).close()
    # When the data directory itself is there, its parent was synced before it was made.
    unsynced = {tmp_path / "a" / "b"} if made_before == "a/b" else {tmp_path / "a", tmp_path / "a" / "b"}
    for call, path in files.calls:
        if call == "sync_directory":
            unsynced = {name for name in unsynced if name.parent != path}
        if call == "create":
            assert unsynced == set()
            break
    else:
        pytest.fail("no segment was made")


@pytest.mark.parametrize("partition", [0, 2])
def test_the_first_partition_is_synced_by_every_start(tmp_path: Path, partition: int) -> None:
    OffsetsLog.open(tmp_path, 3).close()
    files = FaultyFiles()
    OffsetsLog.open(tmp_path, 3, files=files).close()
    # The others were synced before the first was made: where it is, they are durable.
    assert (("sync_directory", segment(tmp_path, partition).parent) in files.calls) == (partition == 0)
    assert ("sync_directory", tmp_path) in files.calls


def test_two_processes(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LogError, match=r"in use by another process"):
            OffsetsLog.open(tmp_path, 2)
        holder.kill()
    OffsetsLog.open(tmp_path, 2).close()


def test_two_logs_in_one_process(tmp_path: Path) -> None:
    log = OffsetsLog.open(tmp_path, 2)
    with pytest.raises(LogError, match="in use"):
        OffsetsLog.open(tmp_path, 2)
    log.close()
    log.close()
    OffsetsLog.open(tmp_path, 2).close()


@pytest.mark.parametrize("asked", [1, 2, 4, 50])
def test_another_number_of_partitions(tmp_path: Path, asked: int) -> None:
    written(tmp_path)
    with pytest.raises(LogError, match=rf"holds 3 partitions.* {asked} are asked"):
        OffsetsLog.open(tmp_path, asked)
    OffsetsLog.open(tmp_path, 3).close()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_partition(tmp_path: Path, missing: int) -> None:
    written(tmp_path)
    shutil.rmtree(segment(tmp_path, missing).parent)
    with pytest.raises(LogError, match=r"missing|holds 2 partitions"):
        OffsetsLog.open(tmp_path, 3)
    assert not segment(tmp_path, missing).parent.exists()


@pytest.mark.parametrize("number", [0, -1])
def test_no_partitions(tmp_path: Path, number: int) -> None:
    with pytest.raises(ValueError, match="partitions"):
        OffsetsLog.open(tmp_path, number)


def test_topics_beside_each_other(tmp_path: Path) -> None:
    written(tmp_path)
    topics = (OFFSETS_TOPIC, "__offset_shim_state")
    log = OffsetsLog.open(tmp_path, 3, topics=topics)
    assert log.num_partitions == 3
    for topic in topics:
        for partition in range(3):
            assert len(list(log.recover(partition, topic=topic))) == (topic == OFFSETS_TOPIC)
    assert log.write([write(1, one("b")), write(1, one("state"))._replace(topic="__offset_shim_state")]) == {}
    assert [log.log_end_offset(p) for p in range(3)] == [1, 2, 1]
    assert [log.log_end_offset(p, topic="__offset_shim_state") for p in range(3)] == [0, 1, 0]
    with pytest.raises(ValueError, match="no partition __offset_shim_history-0"):
        log.recover(0, topic="__offset_shim_history")
    log.close()
    # Who opens one of them leaves the other's recovery points alone.
    log = OffsetsLog.open(tmp_path, 3)
    assert [r.key for r in log.recover(1)] == [b"a", b"b"]
    log.close()
    points = read_checkpoint(Files(), tmp_path / RECOVERY_POINT_CHECKPOINT)
    assert points == {
        **{TopicPartition(OFFSETS_TOPIC, p): 1 + (p == 1) for p in range(3)},
        TopicPartition("__offset_shim_state", 1): 1,
    }
    with pytest.raises(LogError, match="holds 3 partitions of __offset_shim_state, and 2 are asked for"):
        OffsetsLog.open(tmp_path, 2, topics=topics[1:])


class BrokenOff(OSError):
    pass


def test_a_creation_that_breaks_off_anywhere_is_begun_again(tmp_path: Path) -> None:
    broken = 0
    while True:
        files = FaultyFiles()
        left = broken

        def fault(path: Path) -> None:
            nonlocal left
            if not left:
                raise BrokenOff(path)
            left -= 1

        for method in ("mkdir", "create", "sync_directory"):
            files.faults[method] = fault
        data_dir = tmp_path / str(broken)
        with contextlib.suppress(BrokenOff):
            OffsetsLog.open(data_dir, 3, files=files).close()
            break
        assert files.open_files == {}
        written(data_dir)
        broken += 1
    assert broken > 10


def test_a_data_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(NotADirectoryError):
        OffsetsLog.open(tmp_path / "data", 1)


def test_a_data_directory_belongs_to_the_first_cluster_it_meets(tmp_path: Path) -> None:
    held = DataDir.open(tmp_path / "data")
    held.claim("A")
    held.claim("A")
    held.close()
    held = DataDir.open(tmp_path / "data")
    with pytest.raises(LogError, match="belongs to cluster A, this is cluster B"):
        held.claim("B")
    held.claim("A")
    held.close()
    assert meta(tmp_path / "data").read_text() == "version=1\ncluster.id=A\n"


def test_groups_have_their_offsets_in_zookeeper_where_they_had_them_first(tmp_path: Path) -> None:
    path = meta(tmp_path / "data")
    held = DataDir.open(tmp_path / "data")
    held.claim("A")
    held.check_chroot("/nothing/is/noted/yet")
    held.note_chroot("/kafka")
    held.close()
    held = DataDir.open(tmp_path / "data")
    held.claim("A")
    held.check_chroot("/kafka")
    held.note_chroot("/kafka")
    with pytest.raises(LogError, match=r"below /kafka, --zookeeper names /: if that is meant, write"):
        held.check_chroot("/")
    assert path.read_text() == "version=1\ncluster.id=A\nzookeeper.chroot=/kafka\n"
    path.write_text(path.read_text().replace("=/kafka", "=/"))
    held.check_chroot("/")
    held.close()


def test_a_note_without_a_cluster_is_named(tmp_path: Path) -> None:
    held = DataDir.open(tmp_path / "data")
    meta(tmp_path / "data").write_text("version=1\n")
    with pytest.raises(LogError, match=r"meta\.properties names no cluster"):
        held.claim("B")
    held.close()


def test_a_note_that_was_never_finished_counts_for_nothing(tmp_path: Path) -> None:
    held = DataDir.open(tmp_path / "data")
    (tmp_path / "data" / "meta.properties.tmp").write_text("version=1\ncluster.id=A\n")
    held.claim("B")
    held.close()
    assert meta(tmp_path / "data").read_text() == "version=1\ncluster.id=B\n"


def test_that_the_offsets_are_on_topics_is_noted_with_whose_they_are(tmp_path: Path) -> None:
    files = FaultyFiles()
    held = DataDir.open(tmp_path, topics_prefix="own", files=files)
    assert not meta(tmp_path).exists()
    held.claim("A")
    held.note_chroot("/kafka")
    noted = meta(tmp_path).read_text()
    assert noted == "version=1\ncluster.id=A\noffsets.log=kafka:own\nzookeeper.chroot=/kafka\n"
    held.close()
    held = DataDir.open(tmp_path, topics_prefix="own", files=files)
    renamed = [path for call, path in files.calls if call == "rename"]
    with pytest.raises(LogError, match="belongs to cluster A"):
        held.claim("B")
    held.claim("A")
    held.check_chroot("/kafka")
    held.close()
    assert [path for call, path in files.calls if call == "rename"] == renamed
    assert meta(tmp_path).read_text() == noted
    assert files.open_files == {}


def test_a_directory_that_has_a_cluster_and_no_log_takes_one_on_topics(tmp_path: Path) -> None:
    claimed(tmp_path, None).close()
    assert meta(tmp_path).read_text() == "version=1\ncluster.id=A\n"
    claimed(tmp_path).close()
    assert meta(tmp_path).read_text() == "version=1\ncluster.id=A\noffsets.log=kafka:own\n"


def test_who_this_is_is_known_once_it_was_read(tmp_path: Path) -> None:
    """A partition that is moved asks again and again, and is to be served whatever becomes of the disk."""
    files = FaultyFiles()
    held = DataDir.open(tmp_path, topics_prefix="own", files=files)
    held.claim("A")
    own_id = held.instance_id()
    for method in ("open", "create", "pread", "pwrite"):
        files.fail(method, errno.EIO)
    assert held.instance_id() == own_id
    files.heal()
    held.close()
    held = claimed(tmp_path)
    assert held.instance_id() == own_id
    held.close()


def test_a_log_is_not_begun_where_the_offsets_are_on_topics(tmp_path: Path) -> None:
    claimed(tmp_path).close()
    before = everything_in(tmp_path)
    says = rf"log of data directory {tmp_path} is on topics .* offsets\.log=kafka:own\): .* with offsets\.log=kafka; "
    for _ in range(2):  # and is given back
        with pytest.raises(LogError, match=says):
            OffsetsLog.open(tmp_path, 1)
    assert everything_in(tmp_path) == before
    claimed(tmp_path).close()


def test_other_topics_are_refused(tmp_path: Path) -> None:
    claimed(tmp_path).close()
    before = everything_in(tmp_path)
    for _ in range(2):
        with pytest.raises(LogError, match=r"is on other topics .*kafka:own, not kafka:other.*topics\.prefix=own, or"):
            DataDir.open(tmp_path, topics_prefix="other")
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("cluster_id", [None, "A"])
def test_a_log_is_not_left_behind(tmp_path: Path, cluster_id: str | None) -> None:
    log = OffsetsLog.open(tmp_path, 2)
    if cluster_id:
        log.data_dir.claim(cluster_id)
    log.close()
    before = everything_in(tmp_path)
    for _ in range(2):
        with pytest.raises(LogError, match=r"has a log in it \(__consumer_offsets\), .* keep offsets\.log=local"):
            DataDir.open(tmp_path, topics_prefix="own")
    assert everything_in(tmp_path) == before
    OffsetsLog.open(tmp_path, 2).close()


def test_a_directory_without_a_log_is_one_process_alone(tmp_path: Path) -> None:
    held = claimed(tmp_path)
    with pytest.raises(LogError, match="in use"):
        DataDir.open(tmp_path, topics_prefix="own")
    held.close()
    held.close()
    claimed(tmp_path).close()


@pytest.mark.parametrize("mark", ["version=1\nnode.id=1\ncluster.id=x\n", "version=0\nbroker.id=0\n", None])
def test_a_brokers_log_directory_is_refused(tmp_path: Path, mark: str | None) -> None:
    if mark is None:
        (tmp_path / "replication-offset-checkpoint").touch()
    else:
        (tmp_path / "meta.properties").write_text(mark)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(LogError, match="is a broker's log directory"):
        OffsetsLog.open(tmp_path, 2)
    with pytest.raises(LogError, match="is a broker's log directory"):
        DataDir.open(tmp_path, topics_prefix="own")
    assert sorted(tmp_path.iterdir()) == before
