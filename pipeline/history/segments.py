"""Which segment files there are, from the names in a directory alone, and what of them is to be read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pipeline.history.errors import DamagedSegment, UnreadableLog
from pipeline.history.scanning import Bad, Batches, scan
from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import partition_for

OFFSETS_TOPIC: Final = "__consumer_offsets"
STATE_TOPIC: Final = "__offset_shim_state"

_PLACES: Final = "log-places"
_IN_DIRECTORY: Final = "directory"
"""What that file says of a partition of which the directory has all."""

_FOLDER: Final = re.compile(rf"({OFFSETS_TOPIC}|{HISTORY_TOPIC}|{STATE_TOPIC})-(0|[1-9]\d{{0,8}})")
_SEGMENT: Final = re.compile(r"(\d{20})\.log(\.swap|\.cleaned)?")


class Segment(NamedTuple):
    """One segment of one partition. ``next_base``: where the next one begins; None of the last one, which alone can end
    in a torn write. ``gapless``: it has to end where the next one begins. ``later``: the paths of those behind it.
    ``size``: in bytes, when it was looked for."""

    topic: str
    partition: int
    path: str
    base_offset: int
    next_base: int | None
    gapless: bool
    later: tuple[str, ...]
    size: int


class Wanted(NamedTuple):
    """What is to be read of. ``partitions``, ``groups``: None for all. ``num_partitions``: how many the topic has,
    where that is known; without it groups are not looked for in their own partitions only."""

    partitions: frozenset[int] | None = None
    groups: tuple[str, ...] | None = None
    num_partitions: int | None = None


def segments_in(directories: Sequence[str], topic: str, wanted: Wanted) -> list[Segment]:
    """Of a data directory, or of the log directories of one broker; each log partition from its beginning on.

    Raises UnreadableLog where there is no partition of the topic, or one in two directories, or where what is wanted is
    on topics of the cluster; OSError.
    """
    folders: dict[int, str] = {}
    own: dict[int, bool] = {}
    elsewhere: dict[int, str] = {}
    for directory in directories:
        names = sorted(os.listdir(directory))  # noqa: PTH208  # a cluster's paths are text
        matches = [match for name in names if (match := _FOLDER.fullmatch(name))]
        is_ours = any(match[1] == STATE_TOPIC for match in matches)
        for match in (match for match in matches if match[1] == topic):
            partition = int(match[2])
            if partition in folders:
                raise UnreadableLog(f"partition {partition} of {topic} is in {folders[partition]} and in {directory}")
            folders[partition] = os.path.join(directory, match[0])  # noqa: PTH118  # a cluster's paths are text
            own[partition] = is_ours
        if is_ours:
            elsewhere |= dict.fromkeys(_on_topics(directory, folders), directory)
    if not folders:
        raise UnreadableLog(f"no partition of {topic} in {', '.join(directories)}")
    # A directory of the shim's has all partitions; a broker may have any of them.
    known = len(folders) if all(own.values()) and set(folders) == set(range(len(folders))) else None
    chosen = _chosen(folders, wanted, wanted.num_partitions or known)
    if missed := sorted(chosen & elsewhere.keys()):
        raise UnreadableLog(
            f"log partition {missed[0]} of {elsewhere[missed[0]]} is on a topic of the cluster"
            f"{f', and so are {len(missed) - 1} more' * (len(missed) > 1)}: what is here of it is older"
        )
    return [each for number in sorted(chosen) for each in _segments(topic, number, folders[number], own[number])]


def _on_topics(directory: str, partitions: Iterable[int]) -> set[int]:
    """Of these partitions of a data directory those that `log move` has brought to topics, or is bringing there or
    back: what counts is there, or may be. Raises OSError."""
    try:
        with open(f"{directory}/{_PLACES}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            places = dict(line.rstrip("\n").partition("=")[::2] for line in file)
    except FileNotFoundError:  # none was ever moved
        return set()
    return {partition for partition in partitions if places.get(str(partition)) != _IN_DIRECTORY}


def _chosen(folders: Iterable[int], wanted: Wanted, num_partitions: int | None) -> set[int]:
    chosen = set(folders)
    if wanted.partitions is not None:
        chosen &= wanted.partitions
    if wanted.groups is not None and num_partitions is not None:
        chosen &= {partition_for(group, num_partitions) for group in wanted.groups}
    return chosen


def _segments(topic: str, number: int, folder: str, is_ours: bool) -> Iterator[Segment]:
    paths = _paths(folder)
    bases = [base for base, _ in paths]
    for at, (base, path) in enumerate(paths):
        later = tuple(other for _, other in paths[at + 1 :])
        next_base = bases[at + 1] if later else None
        yield Segment(topic, number, path, base, next_base, is_ours, later, _size_of(path))


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 1  # gone meanwhile: the task that reads it says so


def _paths(folder: str) -> list[tuple[int, str]]:
    """Rising, as a broker would have them after its start (LogLoader of Kafka 4.3): a cleaned segment that did not come
    to take the place of others (``.log.swap``) is whole, and read instead of them; while there is a ``.cleaned`` at or
    below it, what it stands for is still there. The shim names its files likewise."""
    matches = [match for name in os.listdir(folder) if (match := _SEGMENT.fullmatch(name))]  # noqa: PTH208
    found = [(int(match[1]), match[2], match[0]) for match in matches]
    unfinished = min((base for base, kind, _ in found if kind == ".cleaned"), default=None)
    chosen = {base: name for base, kind, name in found if kind is None}
    for base, name in sorted((base, name) for base, kind, name in found if kind == ".swap"):
        if unfinished is None or base < unfinished:
            end = _end_of(f"{folder}/{name}")
            chosen = {at: other for at, other in chosen.items() if not base <= at < end}
            chosen[base] = name
    return [(base, f"{folder}/{name}") for base, name in sorted(chosen.items())]


def _end_of(path: str) -> int:
    """The offset after the last one of a whole segment."""
    fd = os.open(path, os.O_RDONLY)
    try:
        end = 0
        for found in scan(fd, os.fstat(fd).st_size):
            if isinstance(found, Bad):
                raise DamagedSegment(path, found.position, found.reason)
            end = end_offset(found.headers[-1]) if isinstance(found, Batches) else found.records[-1].offset + 1
        return end
    finally:
        os.close(fd)


def end_offset(header: object) -> int:
    """The offset after the last one of a batch, by its row of an array of HEADER."""
    return int(header["base_offset"]) + int(header["last_offset_delta"]) + 1  # type: ignore[index]
