"""What a data directory has in it, by name: folders of partitions, with their segments and indexes.

::

    DIR/<topic>-<partition>/<base offset, 20 digits>.log
    DIR/<topic>-<partition>/<base offset, 20 digits>.index
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from shim.counted import counted
from shim.log.disk.files import Files
from shim.log.disk.names import give_anew
from shim.log.errors import LogError

ANY_SEGMENT: Final = "[0-9]*.log"
"""A pattern of files that segments fit."""

_SEGMENT_NAME: Final = re.compile(r"(\d{20})\.log")
_PARTITION_NAME: Final = re.compile(r"([A-Za-z0-9._-]+)-(0|[1-9]\d{0,8})")


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
