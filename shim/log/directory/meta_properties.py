"""`meta.properties`: of which cluster the offsets of a data directory are, and on which topics, if they are on any; and
who may not have it for that.

Brokers note the cluster by the same name in their log directories.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shim.counted import counted
from shim.log.directory.places import PLACES_NAME, Place, Places
from shim.log.disk.files import Files
from shim.log.disk.layout import partitions_in
from shim.log.errors import LogError

META_NAME: Final = "meta.properties"
CLUSTER: Final = "cluster.id"
PLACE: Final = "offsets.log"
# Those of every age: brokers note their id among the properties since 0.8.2, and the file of high watermarks is older.
_BROKERS_PROPERTIES: Final = frozenset({"broker.id", "node.id", "directory.id"})
_BROKERS_FILES: Final = ("replication-offset-checkpoint", "log-start-offset-checkpoint")


def read_meta(files: Files, folder: Path) -> dict[str, str]:
    """What is noted, by name; nothing where there is no such file. Raises OSError."""
    path = folder / META_NAME
    if not files.exists(path):
        return {}
    lines = files.read_file(path).decode("utf-8", "replace").splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def meta_lines(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def cluster_id_of(files: Files, folder: Path) -> str | None:
    """Which cluster the data in a folder (the shim's, or a broker's) is of; None where it does not say."""
    return read_meta(files, folder).get(CLUSTER)


def refuse_brokers_folder(files: Files, data_dir: Path) -> None:
    """Raises LogError for a broker's log directory: it looks like a data directory, and is nothing to write into."""
    told = _BROKERS_PROPERTIES.intersection(read_meta(files, data_dir))
    told |= {name for name in _BROKERS_FILES if files.exists(data_dir / name)}
    if told:
        raise LogError(f"{data_dir} is a broker's log directory ({min(told)}), and no data directory of a shim")


def refuse_log_on_topics(files: Files, data_dir: Path) -> None:
    """Raises LogError where the offsets are noted to be on topics of the cluster, or some of them: a log in here would
    be an empty one, or an old one."""
    if (places := Places.read(files, data_dir)) is not None:
        _refuse_other_places(places, Place.DIRECTORY, data_dir)
    elif (noted := read_meta(files, data_dir).get(PLACE)) is not None:
        raise LogError(
            f"the log of data directory {data_dir} is on topics of the cluster, not in it ({META_NAME} says "
            f"{PLACE}={noted}): a shim serves it with offsets.log=kafka; {_look_there(noted.partition(':')[2])}"
        )


def refuse_other_log(files: Files, data_dir: Path, prefix: str) -> None:
    """Raises LogError where the offsets are in the directory, or on other topics."""
    refuse_other_topics(files, data_dir, prefix)
    if (places := Places.read(files, data_dir)) is not None:
        _refuse_other_places(places, Place.TOPIC, data_dir)
    elif partitions := partitions_in(files, data_dir):
        raise LogError(
            f"data directory {data_dir} has a log in it ({', '.join(sorted(partitions))}), whose offsets would be left "
            "behind: keep offsets.log=local, or give another --data-dir, or move them with offsets.log=moving"
        )


def refuse_other_topics(files: Files, data_dir: Path, prefix: str) -> None:
    place = on_topics(prefix)
    places = Places.read(files, data_dir)
    noted = read_meta(files, data_dir).get(PLACE, place) if places is None else on_topics(places.prefix)
    if noted != place:
        said_by = META_NAME if places is None else PLACES_NAME
        raise LogError(
            f"the log of data directory {data_dir} is on other topics ({said_by} says {PLACE}={noted}, not {place})"
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


def on_topics(prefix: str) -> str:
    return f"kafka:{prefix}"
