"""A data directory that no shim uses: its partitions, and what its last process left behind. Nothing in it is made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.journal import journals_that_count, redo_journal, see_journal
from shim.admin.errors import BrokenOff, NotDone
from shim.admin.files_to_read import FilesToRead
from shim.log import LogError
from shim.log.directory.data_dir import LOCK_NAME, DataDirLock
from shim.log.directory.handover import LOOSE_FLUSH, closed_clean, recovery_points
from shim.log.directory.meta_properties import refuse_brokers_folder, refuse_log_on_topics
from shim.log.directory.places import PLACES_NAME
from shim.log.directory.shares import Noted
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.disk.files import Files
from shim.log.disk.layout import partitions_in
from shim.log.disk.open_files import allow_open_files
from shim.log.recovery.torn_tail import Known

_OWN_TOPICS: Final = (OFFSETS_TOPIC, STATE_TOPIC, HISTORY_TOPIC)

OTHER_FILES: Final = 32
"""How many a command may have open, besides one for each partition of the log."""


class DataDir(NamedTuple):
    """``partitions``: the folder of each, by topic and number. ``clean`` and ``loose`` as in
    :class:`shim.log.recovery.recovery.LeftBehind`. ``moves``: whether partitions of the log are, or were, moved between
    it and topics. ``recovery_points``: as noted, and up to where journals have made what is in them durable.
    ``malformed``: by their path the notes that cannot be read."""

    path: Path
    partitions: dict[TopicPartition, Path]
    clean: bool
    loose: bool
    moves: bool
    recovery_points: dict[TopicPartition, int]
    malformed: Mapping[Path, LogError]

    @property
    def num_partitions(self) -> int:
        """Of each of the shim's topics, those included whose folder is missing: all have as many as any of them has."""
        return _num_partitions(self.partitions, _OWN_TOPICS)

    def known(self, partition: TopicPartition) -> Known:
        return Known(self.recovery_points.get(partition, 0), self.clean, self.loose)

    def refuse_malformed(self) -> None:
        """Raises LogError where a note of the recovery points is malformed."""
        for error in self.malformed.values():
            raise error

    def missing(self) -> list[Path]:
        """Folders of the topics that there are. How many another topic has, nothing says but its own folders."""
        found = []
        for topic in dict.fromkeys(topic for topic, _ in self.partitions):
            count = self.num_partitions if topic in _OWN_TOPICS else _num_partitions(self.partitions, {topic})
            folders = {number: self.path / f"{topic}-{number}" for number in range(count)}
            found += [folder for number, folder in folders.items() if (topic, number) not in self.partitions]
        return found


def _num_partitions(partitions: Iterable[TopicPartition], topics: Collection[str]) -> int:
    return max((number for topic, number in partitions if topic in topics), default=-1) + 1


def num_partitions_in(files: Files, path: Path) -> int:
    """As :class:`DataDir` says it; 0 where there is no data directory yet, or nothing in it. Raises LogError where its
    log is on topics of the cluster; OSError."""
    refuse_log_on_topics(files, path)
    return _num_partitions(partition_folders(files, path), _OWN_TOPICS) if files.exists(path) else 0


def partition_folders(files: Files, folder: Path) -> dict[TopicPartition, Path]:
    """The folders in here that have the name of a partition, by topic and number."""
    found = sorted(TopicPartition(topic, at) for topic, its in partitions_in(files, folder).items() for at in its)
    return {at: folder / str(at) for at in found}


def refuse_existing(files: Files, paths: Iterable[Path]) -> None:
    """Raises NotDone when there is anything of one of these names."""
    for path in paths:
        if files.exists(path):
            raise NotDone(f"{path} is there already: name a folder that is not, or take that one away")


def read_data_dir(files: Files, path: Path) -> DataDir:
    """Takes no lock. Raises LogError where there is no data directory, be there folders like those of partitions or
    not, where its log is on topics of the cluster, or where it is a broker's; OSError."""
    path = path.absolute()
    if not files.exists(path):
        raise LogError(f"there is no data directory {path}")
    refuse_brokers_folder(files, path)
    refuse_log_on_topics(files, path)
    partitions = partition_folders(files, path)
    if not any(partition.topic in _OWN_TOPICS for partition in partitions):
        raise LogError(f"{path} is no data directory: it has no partition of {OFFSETS_TOPIC} in it")
    clean = closed_clean(files, path)
    loose, moves = (files.exists(path / name) for name in (LOOSE_FLUSH, PLACES_NAME))
    try:
        return DataDir(path, partitions, clean, loose, moves, recovery_points(files, path), {})
    except LogError as malformed:
        noted_in = path / RECOVERY_POINT_CHECKPOINT
        return DataDir(path, partitions, clean, loose, moves, {}, {noted_in: malformed})


@contextmanager
def data_dir_at_rest(files: Files, path: Path) -> Iterator[DataDir]:
    """The data directory, kept from every other process meanwhile. What is in its journal is in its segments then.

    Raises LogError when another process has it, or where there is none; OSError.
    """
    before = read_data_dir(files, path)  # before the lock, which would leave a file wherever it is taken
    lock = DataDirLock(files, before.path)
    try:
        points, malformed = redo_journal(files, before.path)
        yield read_data_dir(files, before.path)._replace(recovery_points=points, malformed=malformed)
    finally:
        lock.release()


@contextmanager
def data_dir_to_read(path: Path) -> Iterator[tuple[FilesToRead, DataDir]]:
    """The data directory, kept from everybody who would write to it, and the files to read it with: in their segments
    is what the journal has, too. Nothing in it changes, and only the right to read it is needed.

    Raises LogError when another process has it, or where there is none; BrokenOff where one may have taken it
    meanwhile, at the end, or once anything else is raised; OSError.
    """
    files = FilesToRead()
    before = read_data_dir(files, path)
    with ExitStack() as held:
        held.callback(files.forget)
        held.enter_context(_nobody_writes(files, before.path))
        points, malformed = _see_journal(files, before.path)
        yield files, read_data_dir(files, before.path)._replace(recovery_points=points, malformed=malformed)


def see_journal_if_at_rest(files: FilesToRead, path: Path) -> None:
    """As in :func:`data_dir_to_read`; nothing where another process has it, as that one puts into the segments what is
    in the journal. Raises LogError for a journal of another version, OSError."""
    if not journals_that_count(files, path):
        return
    with ExitStack() as held:
        try:
            held.enter_context(_nobody_writes(files, path))
        except LogError:
            return
        _see_journal(files, path)


def _see_journal(files: FilesToRead, path: Path) -> Noted:
    if journals_that_count(files, path):  # of each partition that is in one a file stays open
        allow_open_files(len(partition_folders(files, path)), OTHER_FILES)
    return see_journal(files, path)


@contextmanager
def _nobody_writes(files: Files, path: Path) -> Iterator[None]:
    with ExitStack() as held:
        try:
            lock = DataDirLock(files, path, shared=True)
        except FileNotFoundError:
            # Nobody has it, as that one would have made the file; and whoever takes it from here on makes it.
            held.enter_context(_nobody_has_come(files, path))
        else:
            held.callback(lock.release)
        yield


@contextmanager
def _nobody_has_come(files: Files, path: Path) -> Iterator[None]:
    """Raises BrokenOff where somebody has, also in the place of what is raised meanwhile, as it may come of that."""
    failed: Exception | None = None
    try:
        yield
    except Exception as error:
        failed = error
    if files.exists(path / LOCK_NAME):
        raise BrokenOff(
            f"another process has taken {path} while it was read, which could not be kept from it, as there was no "
            f"{LOCK_NAME}: what was found may be of different moments"
        ) from failed
    if failed is not None:
        raise failed
