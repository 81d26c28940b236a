"""The data directory: who may use it, and what is noted in it.

::

    DIR/.lock
    DIR/meta.properties                                 which cluster the offsets are of, as brokers note it; where they
                                                        are, if not in here, and who this is among those who share them
    DIR/log-places                                      which partitions are in here, where some are or were on topics

Beside them: the partitions (disk/layout.py), the checkpoints (disk/checkpoint.py), what a process leaves to the next
one (handover.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from shim.counted import counted
from shim.log.directory.meta_properties import (
    CLUSTER,
    META_NAME,
    PLACE,
    cluster_id_of,
    meta_lines,
    on_topics,
    read_meta,
    refuse_brokers_folder,
    refuse_log_on_topics,
    refuse_other_log,
    refuse_other_topics,
)
from shim.log.directory.places import PLACES_NAME, Place, Places
from shim.log.disk.checkpoint import is_in_doubt, replace_for_good
from shim.log.disk.files import Files
from shim.log.disk.layout import make_data_dir
from shim.log.errors import LogError
from shim.workers_folder import SHARES_NAME

LOCK_NAME: Final = ".lock"
_CHROOT: Final = "zookeeper.chroot"
_INSTANCE: Final = "shim.instance.id"


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
            copy = ", or look at a copy, which `log backup` makes of one in use" if shared else ""
            raise LogError(
                f"data directory {data_dir} is in use by another process (it holds {LOCK_NAME}): end that first{copy}"
            ) from None

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
        self._instance_id: str | None = None

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
        with _taken(files, path) as lock:
            if topics_prefix is None:
                refuse_log_on_topics(files, path)
                place = None
            else:
                place = on_topics(topics_prefix)
                refuse_other_log(files, path, topics_prefix)
                if PLACE not in read_meta(files, path):
                    # What an earlier start made, and was killed before it had synced the name.
                    files.sync_directory(path.parent)
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
        with _taken(files, path) as lock:
            refuse_other_topics(files, path, topics_prefix)
            files.sync_directory(path.parent)
            files.sync_directory(path)
            places = Places.read(files, path)
            if places is None:
                # Before there is anything else by which that could be told.
                where = Place.TOPIC if PLACE in read_meta(files, path) else Place.DIRECTORY
                places = Places.begun(files, path, topics_prefix, [where] * num_partitions)
            if len(places) != num_partitions:
                raise LogError(
                    f"{path / PLACES_NAME} is of {counted(len(places), 'partition')}, and {num_partitions} are asked "
                    "for: offsets.topic.num.partitions is fixed once the data directory exists"
                )
            places.assure()
            # So that no release that knows of no places takes what is in here for all that there is.
            return cls(files, path, lock, on_topics(topics_prefix)), places

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
        place = {} if self._place is None else {PLACE: self._place}
        if not self._files.exists(path):
            replace_for_good(self._files, path, meta_lines({"version": "1", CLUSTER: cluster_id, **place}))
        else:
            owner = cluster_id_of(self._files, self.path)
            if not owner:
                raise LogError(
                    f"{path} names no cluster: write {CLUSTER}=… of the cluster that the offsets are of into it"
                )
            if owner != cluster_id:
                raise LogError(f"data directory {self.path} belongs to cluster {owner}, this is cluster {cluster_id}")
            self._add(place)

    def instance_id(self) -> str:
        """Of whoever uses the directory, among those that share a log: made once, and noted durably; read once, and
        known from then on, whatever becomes of the disk. After :meth:`claim`. Raises OSError."""
        if self._instance_id is None:
            self._add({_INSTANCE: uuid.uuid4().hex})
            self._instance_id = read_meta(self._files, self.path)[_INSTANCE]
        return self._instance_id

    def check_chroot(self, chroot: str) -> None:
        """Raises LogError when groups of this data directory have offsets in ZooKeeper below another znode than that
        ("/" for the root): what is not found there would be taken for deleted; OSError."""
        noted = read_meta(self._files, self.path).get(_CHROOT)
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
        noted = read_meta(self._files, self.path)
        missing = {name: value for name, value in properties.items() if name not in noted}
        path = self.path / META_NAME
        if missing or is_in_doubt(self._files, path):
            content = self._files.read_file(path).rstrip(b"\n") + b"\n"
            replace_for_good(self._files, path, content + meta_lines(missing))

    def close(self) -> None:
        """Gives the directory back."""
        if self._lock is not None:
            self._lock.release()


@contextmanager
def _taken(files: Files, path: Path) -> Iterator[DataDirLock]:
    """For this process, made where it is not there; given back where what follows raises."""
    make_data_dir(files, path)
    refuse_brokers_folder(files, path)
    lock = DataDirLock(files, path)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise
