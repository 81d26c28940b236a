"""The data directory: who may use it, and which partitions are in it.

::

    DIR/.lock
    DIR/meta.properties                                 which cluster the offsets are of, as brokers note it; where they
                                                        are, if not in here, and who this is among those who share them
    DIR/log-places                                      which partitions are in here, where some are or were on topics
    DIR/<topic>-<partition>/<base offset, 20 digits>.log

Beside them: the checkpoints (checkpoint.py), what a process leaves to the next one (handover.py).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from shim.counted import counted
from shim.log.checkpoint import is_in_doubt, replace_for_good
from shim.log.errors import LogError
from shim.log.files import Files
from shim.log.names import give_anew
from shim.log.places import PLACES_NAME, Place, Places
from shim.workers_folder import SHARES_NAME

LOCK_NAME = ".lock"
META_NAME = "meta.properties"
_CLUSTER = "cluster.id"
_CHROOT = "zookeeper.chroot"
_PLACE = "offsets.log"
_INSTANCE = "shim.instance.id"
# Those of every age: brokers note their id among the properties since 0.8.2, and the file of high watermarks is older.
_BROKERS_PROPERTIES = frozenset({"broker.id", "node.id", "directory.id"})
_BROKERS_FILES = ("replication-offset-checkpoint", "log-start-offset-checkpoint")
_SEGMENT_NAME = re.compile(r"(\d{20})\.log")
_PARTITION_NAME = re.compile(r"([A-Za-z0-9._-]+)-(0|[1-9]\d{0,8})")


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def index_name(base_offset: int) -> str:
    return f"{base_offset:020d}.index"


def segment_base_offset(name: str) -> int | None:
    """None for what is no name of a segment."""
    match = _SEGMENT_NAME.fullmatch(name)
    return int(match[1]) if match else None


def segment_base_offsets(files: Files, folder: Path) -> list[int]:
    """Base offsets of the segments in a partition's folder, rising. Other files are left alone."""
    return [base for name in files.names(folder) if (base := segment_base_offset(name)) is not None]


def name_empty_segment(files: Files, path: Path) -> None:
    """Durably, also where there is one of that name: who made it may have been killed before it had synced that, or
    have failed to, and another sync would prove nothing then. Nothing is written to a segment before, so only an empty
    one may need it. Raises OSError."""
    give_anew(files, path)
    files.sync_directory(path.parent)


def cluster_id_of(files: Files, folder: Path) -> str | None:
    """Which cluster the data in a folder (the shim's, or a broker's) is of; None where it does not say."""
    return _meta(files, folder).get(_CLUSTER)


def refuse_brokers_folder(files: Files, data_dir: Path) -> None:
    """Raises LogError for a broker's log directory: it looks like a data directory, and is nothing to write into."""
    told = _BROKERS_PROPERTIES.intersection(_meta(files, data_dir))
    told |= {name for name in _BROKERS_FILES if files.exists(data_dir / name)}
    if told:
        raise LogError(f"{data_dir} is a broker's log directory ({min(told)}), and no data directory of a shim")


def refuse_log_on_topics(files: Files, data_dir: Path) -> None:
    """Raises LogError where the offsets are noted to be on topics of the cluster, or some of them: a log in here would
    be an empty one, or an old one."""
    if (places := Places.read(files, data_dir)) is not None:
        _refuse_other_places(places, Place.DIRECTORY, data_dir)
    elif (noted := _meta(files, data_dir).get(_PLACE)) is not None:
        raise LogError(
            f"the log of data directory {data_dir} is on topics of the cluster, not in it ({META_NAME} says "
            f"{_PLACE}={noted}): a shim serves it with offsets.log=kafka; {_look_there(noted.partition(':')[2])}"
        )


def _refuse_other_log(files: Files, data_dir: Path, prefix: str) -> None:
    """Raises LogError where the offsets are in the directory, or on other topics."""
    _refuse_other_topics(files, data_dir, prefix)
    if (places := Places.read(files, data_dir)) is not None:
        _refuse_other_places(places, Place.TOPIC, data_dir)
    elif partitions := partitions_in(files, data_dir):
        raise LogError(
            f"data directory {data_dir} has a log in it ({', '.join(sorted(partitions))}), whose offsets would be left "
            "behind: keep offsets.log=local, or give another --data-dir, or move them with offsets.log=moving"
        )


def _refuse_other_topics(files: Files, data_dir: Path, prefix: str) -> None:
    place = _on_topics(prefix)
    places = Places.read(files, data_dir)
    noted = _meta(files, data_dir).get(_PLACE, place) if places is None else _on_topics(places.prefix)
    if noted != place:
        said_by = META_NAME if places is None else PLACES_NAME
        raise LogError(
            f"the log of data directory {data_dir} is on other topics ({said_by} says {_PLACE}={noted}, not {place})"
            f": set offsets.log.topics.prefix={noted.partition(':')[2]}, or give another --data-dir"
        )


def _refuse_other_places(places: Places, place: Place, data_dir: Path) -> None:
    if others := places.elsewhere_than(place):
        other_place, setting = _SET_FOR[place]
        all_there = not places.elsewhere_than(other_place)
        raise LogError(
            f"{counted(len(others), 'partition')} of {len(places)} of data directory {data_dir} "
            f"{'is' if len(others) == 1 else 'are'} not {_WHERE[place]} ({PLACES_NAME} says so): "
            + (
                f"a shim serves them with offsets.log={setting}, and moves them with offsets.log=moving"
                if all_there
                else "a shim serves them, and moves them, with offsets.log=moving"
            )
            + (f"; {_look_there(places.prefix)}" if place is Place.DIRECTORY else "")
        )


def _look_there(prefix: str) -> str:
    """For who would look into what is not in the directory."""
    return f"`offset-shim groups` at that shim, or Kafka's tools at topic {prefix}_offsets, show what is there"


_WHERE = {Place.DIRECTORY: "in it", Place.TOPIC: "on topics of the cluster"}
_SET_FOR = {Place.DIRECTORY: (Place.TOPIC, "kafka"), Place.TOPIC: (Place.DIRECTORY, "local")}
"""Of a place, the other one, and what `offsets.log` is where all is there."""


def _on_topics(prefix: str) -> str:
    return f"kafka:{prefix}"


def _meta(files: Files, folder: Path) -> dict[str, str]:
    path = folder / META_NAME
    if not files.exists(path):
        return {}
    lines = files.read_file(path).decode("utf-8", "replace").splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def _lines(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


class DataDirLock:
    """Exclusive use of a data directory; or, ``shared``, with others that only look, and nobody who writes.

    Raises LogError when another process (or another log in this one) has it; OSError, for a shared one
    FileNotFoundError where nobody has ever had the directory: looking makes no file in it.
    """

    def __init__(self, files: Files, data_dir: Path, *, shared: bool = False) -> None:
        self._files = files
        take = files.lock_shared if shared else files.lock
        try:
            self._fd = take(data_dir / LOCK_NAME)
        except BlockingIOError:
            raise LogError(f"data directory {data_dir} is in use by another process (it holds {LOCK_NAME})") from None

    def release(self) -> None:
        if self._fd >= 0:
            self._files.unlock(self._fd)
            self._fd = -1


class DataDir:
    """A data directory that this process has for itself, and what is noted in it: which cluster the offsets are of,
    where they are, and where in ZooKeeper old consumers have theirs. Blocking.

    ``path``: absolute.
    """

    def __init__(self, files: Files, path: Path, lock: DataDirLock | None, place: str | None) -> None:
        """``lock``: None where another process has it, which has this one and others work here. ``place``: what is to
        be noted of where the offsets are; None where they are in here."""
        self.path = path
        self._files = files
        self._lock = lock
        self._place = place
        self._cluster_id: str | None = None

    @classmethod
    def open(cls, path: Path, *, topics_prefix: str | None = None, files: Files | None = None) -> Self:
        """Takes the directory for this process, and makes it where it is not there: for a log in it, or, where
        ``topics_prefix`` is given, for one on the topics whose names begin with that. Who opens a log in it makes the
        names durable that an earlier start may have left.

        Raises LogError for a broker's folder, when another process has the directory, and when its offsets are
        elsewhere; OSError.
        """
        files = files or Files()
        path = path.absolute()
        make_data_dir(files, path)
        refuse_brokers_folder(files, path)
        with ExitStack() as undone:
            lock = DataDirLock(files, path)
            undone.callback(lock.release)
            if topics_prefix is None:
                refuse_log_on_topics(files, path)
                place = None
            else:
                place = _on_topics(topics_prefix)
                _refuse_other_log(files, path, topics_prefix)
                if _PLACE not in _meta(files, path):
                    # What an earlier start made, and was killed before it had synced the name.
                    files.sync_directory(path.parent)
            undone.pop_all()
            return cls(files, path, lock, place)

    @classmethod
    def open_to_move(
        cls, path: Path, *, topics_prefix: str, num_partitions: int, files: Files | None = None
    ) -> tuple[Self, Places]:
        """As :meth:`open`, for a log of which some partitions may be in here, and others on topics; and where each is,
        which is durable by then. Raises the same, and LogError for another number of partitions.
        """
        files = files or Files()
        path = path.absolute()
        make_data_dir(files, path)
        refuse_brokers_folder(files, path)
        with ExitStack() as undone:
            lock = DataDirLock(files, path)
            undone.callback(lock.release)
            _refuse_other_topics(files, path, topics_prefix)
            files.sync_directory(path.parent)
            files.sync_directory(path)
            places = Places.read(files, path)
            if places is None:
                # Before there is anything else by which that could be told.
                where = Place.TOPIC if _PLACE in _meta(files, path) else Place.DIRECTORY
                places = Places.begun(files, path, topics_prefix, [where] * num_partitions)
            if len(places) != num_partitions:
                raise LogError(
                    f"{path / PLACES_NAME} is of {counted(len(places), 'partition')}, and {num_partitions} are asked "
                    "for: offsets.topic.num.partitions is fixed once the data directory exists"
                )
            places.assure()
            undone.pop_all()
            # So that no release that knows of no places takes what is in here for all that there is.
            return cls(files, path, lock, _on_topics(topics_prefix)), places

    def claim(self, cluster_id: str) -> None:
        """Note durably, at one stroke, that the directory belongs to this cluster, and on which topics its offsets are,
        if they are on any.

        Raises LogError when it belongs to another one: offsets mean nothing, or the wrong thing, anywhere else;
        OSError.
        """
        if cluster_id == self._cluster_id:
            return
        with self._alone():
            self._claim(cluster_id)
        self._cluster_id = cluster_id

    def _claim(self, cluster_id: str) -> None:
        path = self.path / META_NAME
        place = {} if self._place is None else {_PLACE: self._place}
        if not self._files.exists(path):
            replace_for_good(self._files, path, _lines({"version": "1", _CLUSTER: cluster_id, **place}))
        else:
            owner = cluster_id_of(self._files, self.path)
            if not owner:
                raise LogError(
                    f"{path} names no cluster: write {_CLUSTER}=… of the cluster that the offsets are of into it"
                )
            if owner != cluster_id:
                raise LogError(f"data directory {self.path} belongs to cluster {owner}, this is cluster {cluster_id}")
            self._add(place)

    def instance_id(self) -> str:
        """Of whoever uses the directory, among those that share a log: made once, and noted durably. After
        :meth:`claim`. Raises OSError."""
        self._add({_INSTANCE: uuid.uuid4().hex})
        return _meta(self._files, self.path)[_INSTANCE]

    def check_chroot(self, chroot: str) -> None:
        """Raises LogError when groups of this data directory have offsets in ZooKeeper below another znode than that
        ("/" for the root): what is not found there would be taken for deleted; OSError."""
        noted = _meta(self._files, self.path).get(_CHROOT)
        if noted not in (None, chroot):
            raise LogError(
                f"groups of data directory {self.path} have their offsets in ZooKeeper below {noted}, --zookeeper "
                f"names {chroot}: if that is meant, write {_CHROOT}={chroot} into {self.path / META_NAME}"
            )

    def note_chroot(self, chroot: str) -> None:
        """Note durably that they have, after :meth:`claim`. Raises OSError."""
        with self._alone():
            self._add({_CHROOT: chroot})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Of those that share the directory nobody else notes anything meanwhile. Whoever has it all is alone. Raises
        OSError."""
        if self._lock is not None:
            yield
            return
        held = self._files.wait_for_lock(self.path / SHARES_NAME / LOCK_NAME)
        try:
            yield
        finally:
            self._files.unlock(held)

    def _add(self, properties: Mapping[str, str]) -> None:
        """Notes durably those that are not there yet. Raises OSError, also before :meth:`claim`."""
        noted = _meta(self._files, self.path)
        missing = {name: value for name, value in properties.items() if name not in noted}
        path = self.path / META_NAME
        if missing or is_in_doubt(self._files, path):
            content = self._files.read_file(path).rstrip(b"\n") + b"\n"
            replace_for_good(self._files, path, content + _lines(missing))

    def close(self) -> None:
        """Gives the directory back."""
        if self._lock is not None:
            self._lock.release()


def make_data_dir(files: Files, data_dir: Path) -> None:
    """The folder, with those that it is in, every new name durable."""
    if files.exists(data_dir):
        return
    missing = [folder for folder in (data_dir, *data_dir.parents) if not files.exists(folder)]
    # The deepest folder that is there may be of an earlier start that was killed before it had synced that name.
    files.sync_directory(missing[-1].parent.parent)
    for folder in reversed(missing):
        files.mkdir(folder)
        files.sync_directory(folder.parent)


def open_partitions(files: Files, data_dir: Path, topic: str, num_partitions: int) -> list[Path]:
    """The folders of the partitions of ``topic``; made, each with an empty first segment, when there are none.

    The names in ``data_dir`` itself are durable only when the caller has synced it.

    Partition 0 is made last, after all others are durable. So where partition 0 has a segment every partition must be
    there; where it has none, the creation broke off before anything could be written, and is begun again. What an
    earlier start made and could not sync, or was killed before, is synced now: no record is written under a name that
    may vanish. (Where the sync of a folder's own name has failed in a process before this one, it is taken at its word:
    such a name cannot be given anew without a moment in which it is not there.)

    Raises LogError when the directory holds another number of partitions, or when one of them is missing.
    """
    found = partitions_in(files, data_dir).get(topic, set())
    folders = [data_dir / f"{topic}-{partition}" for partition in range(num_partitions)]
    count = max(found, default=-1) + 1
    created = 0 in found and bool(segment_base_offsets(files, data_dir / f"{topic}-0"))
    if not created:
        for partition in found:
            _refuse_records(files, data_dir / f"{topic}-{partition}", data_dir / f"{topic}-0")
    if (created and count != num_partitions) or count > num_partitions:
        raise LogError(
            f"data directory {data_dir} holds {counted(count, 'partition')} of {topic}, and {num_partitions} are asked "
            "for: offsets.topic.num.partitions is fixed once the data directory exists"
        )
    if created:
        missing = [folder for partition, folder in enumerate(folders) if partition not in found]
        if missing:
            raise LogError(f"partition folder {missing[0]} is missing ({len(missing)} of {num_partitions})")
    else:
        files.sync_directory(data_dir.parent)
        for folder in reversed(folders[1:]):
            _make_partition(files, folder)
        files.sync_directory(data_dir)
    _make_partition(files, folders[0])
    return folders


def has_other_topics(files: Files, data_dir: Path, topics: Collection[str]) -> bool:
    """Whether there are partitions of topics that are not among these."""
    return not partitions_in(files, data_dir).keys() <= set(topics)


def partitions_in(files: Files, data_dir: Path) -> dict[str, set[int]]:
    """By topic the partitions that have a folder in here."""
    found: dict[str, set[int]] = {}
    for entry in files.names(data_dir):
        if match := _PARTITION_NAME.fullmatch(entry):
            found.setdefault(match[1], set()).add(int(match[2]))
    return found


def _refuse_records(files: Files, folder: Path, first: Path) -> None:
    for base_offset in segment_base_offsets(files, folder):
        if base_offset or files.size_of(folder / segment_name(base_offset)):
            raise LogError(f"partition folder {first}, or its segments, are missing, while {folder} holds records")


def _make_partition(files: Files, folder: Path) -> None:
    if not files.exists(folder):
        files.mkdir(folder)
    first = folder / segment_name(0)
    if segment_base_offsets(files, folder) in ([], [0]) and not (files.exists(first) and files.size_of(first)):
        name_empty_segment(files, first)
