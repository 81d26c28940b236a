"""The log, from when it is opened to when it is loaded; and whose it is."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from shim.config import Settings
from shim.disk_log import open_share, open_whole
from shim.log import DataDir, LogError, OffsetsLog
from shim.log.directory.places import Place, Places
from shim.log.errors import unusable
from shim.ownership.member import InstanceFenced
from shim.ownership.sharing import Sharing
from shim.runtime import Runtime
from shim.serve.errors import CannotStart, DiskHangs
from shim.serve.tasks import first_of
from shim.upstream import Cluster, UpstreamError, reason_of
from shim.workers.at_parent import Worker

log = logging.getLogger("shim")

LAST_WRITE_SECONDS: Final = 3.0
"""How long the log may take over its last write, and again over whatever else it is at, once everybody is answered or
cut off."""


class Opened(NamedTuple):
    """``offsets_log``: the one that is in the data directory; None where all is on topics. ``places``: where each
    partition is, if that may be either."""

    data_dir: DataDir
    offsets_log: OffsetsLog | None = None
    places: Places | None = None

    def close(self) -> None:
        if self.offsets_log is not None:
            self.offsets_log.close()
        self.data_dir.close()


async def open_or_stop(
    data_dir: Path, settings: Settings, stop: asyncio.Event, worker: Worker | None = None
) -> Opened | None:
    """``worker``: where others have the rest of the log. None when the shim is stopped meanwhile."""
    # Not the loop's own threads, for which it waits at its end.
    thread = ThreadPoolExecutor(1, thread_name_prefix="log-open")
    opening = asyncio.get_running_loop().run_in_executor(thread, _opened, data_dir, settings, worker)
    thread.shutdown(wait=False)
    try:
        if await first_of(asyncio.shield(opening), stop, []):
            return await opening
        async with asyncio.timeout(LAST_WRITE_SECONDS):
            (await opening).close()
    except LogError as error:
        raise CannotStart(str(error)) from error
    except TimeoutError:
        raise hangs(data_dir) from None
    except OSError as error:
        raise CannotStart(unusable(data_dir, error)) from error
    return None


def _opened(data_dir: Path, settings: Settings, worker: Worker | None) -> Opened:
    prefix = settings.offsets_log_topics_prefix
    if settings.offsets_log == "kafka":
        return Opened(DataDir.open(data_dir, topics_prefix=prefix))
    if worker is not None:
        share = open_share(data_dir, settings, worker.share, clean=worker.clean)
        return Opened(share.data_dir, share)
    if settings.offsets_log == "moving":
        count = settings.offsets_topic_num_partitions
        held, places = DataDir.open_to_move(data_dir, topics_prefix=prefix, num_partitions=count)
        is_all_there = len(places.elsewhere_than(Place.DIRECTORY)) == count
        return Opened(held, open_whole(data_dir, settings, held, says_new=not is_all_there), places)
    offsets_log = open_whole(data_dir, settings)
    return Opened(offsets_log.data_dir, offsets_log)


def hangs(data_dir: Path) -> DiskHangs:
    return DiskHangs(f"the disk under {data_dir} does not answer: stopped without waiting for it any longer")


async def load(runtime: Runtime, data_dir: Path) -> None:
    try:
        await runtime.load()
    except (LogError, UpstreamError) as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(unusable(data_dir, error)) from error


async def share(sharing: Sharing, data_dir: DataDir) -> None:
    """The partitions of a log on topics, for as long as the shim runs."""
    try:
        await sharing.run(data_dir.instance_id)
    except InstanceFenced as error:
        raise CannotStart(f"another shim runs with a copy of data directory {data_dir.path}: {error}") from error
    except UpstreamError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(unusable(data_dir.path, error)) from error


async def note_chroot(data_dir: DataDir, zookeeper: str, claimed: asyncio.Event) -> None:
    """Groups have offsets in that ZooKeeper: another chroot is a mistake from here on."""
    await claimed.wait()
    try:
        data_dir.note_chroot(chroot_of(zookeeper))
    except OSError as error:
        log.warning("the chroot of ZooKeeper is not noted: %s", reason_of(error))


def chroot_of(zookeeper: str) -> str:
    """Of a connect string."""
    return "/" + zookeeper.partition("/")[2].strip("/")


def claim(data_dir: DataDir, cluster: Cluster, zookeeper: str | None) -> None:
    """``zookeeper``: a connect string. Raises :class:`CannotStart` where the offsets are of something else."""
    try:
        if cluster.cluster_id is not None:
            data_dir.claim(cluster.cluster_id)
            if zookeeper is not None:
                data_dir.check_chroot(chroot_of(zookeeper))
    except LogError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(unusable(data_dir.path, error)) from error
