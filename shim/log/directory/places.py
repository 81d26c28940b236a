"""Which of the offsets partitions are in a data directory, and which on topics of the cluster, where some are each.

A small file beside the log, replaced as a whole::

    version=1
    topics.prefix=__offset_shim
    0=directory
    1=topic
    2=to topic

Of a partition that is on its way, the topic says what counts: see docs/decisions/0022. Where there is no such file, all
partitions are where ``meta.properties`` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from shim.log.disk.checkpoint import is_in_doubt, replace_for_good
from shim.log.disk.files import Files
from shim.log.errors import LogError

PLACES_NAME: Final = "log-places"
_VERSION: Final = "1"


class Place(StrEnum):
    """Of a partition. On its way, it is where it was before as long as the topic does not say that it has come."""

    DIRECTORY = "directory"
    TOPIC = "topic"
    TO_TOPIC = "to topic"
    TO_DIRECTORY = "to directory"

    @property
    def is_settled(self) -> bool:
        return self in (Place.DIRECTORY, Place.TOPIC)


class Places:
    """Of all partitions. Blocking."""

    def __init__(self, files: Files, path: Path, prefix: str, places: Sequence[Place]) -> None:
        """``prefix``: how the names of the topics begin."""
        self._files = files
        self._path = path
        self.prefix = prefix
        self._places = list(places)
        self._is_noted = True

    @classmethod
    def read(cls, files: Files, data_dir: Path) -> Self | None:
        """None where there are none. Raises LogError where the file is malformed; OSError."""
        path = data_dir / PLACES_NAME
        if not files.exists(path):
            return None
        lines = files.read_file(path).decode("utf-8", "replace").splitlines()
        noted = [line.partition("=")[::2] for line in lines]
        try:
            (version, prefix), places = noted[:2], noted[2:]
            if version != ("version", _VERSION) or prefix[0] != "topics.prefix":
                raise ValueError
            if [number for number, _ in places] != [str(number) for number in range(len(places))] or not places:
                raise ValueError
            return cls(files, path, prefix[1], [Place(place) for _, place in places])
        except ValueError:
            raise LogError(f"{path} is damaged, or of another release: it says where partitions are") from None

    @classmethod
    def begun(cls, files: Files, data_dir: Path, prefix: str, places: Sequence[Place]) -> Self:
        """These, noted durably. Raises OSError."""
        made = cls(files, data_dir / PLACES_NAME, prefix, places)
        made._write()
        return made

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> Place:
        return self._places[number]

    def elsewhere_than(self, place: Place) -> Collection[int]:
        """The partitions that are not surely there."""
        return [number for number, its in enumerate(self._places) if its is not place]

    def note(self, number: int, place: Place) -> None:
        """Durably, when this returns. Raises OSError: then nobody knows, until it was noted."""
        if self._places[number] is not place:
            before, self._places[number] = self._places[number], place
            try:
                self._write()
            except BaseException:
                self._places[number] = before
                raise

    def found(self, number: int, place: Place) -> None:
        """As :meth:`note`, of a partition that was on its way, and of which its topic says that it is there. Raises
        OSError: it is there all the same, as whoever finds it on its way asks the topic, and what is noted next says
        so, too."""
        self._places[number] = place
        self._is_noted = False
        self._write()

    def assure(self) -> None:
        """All is noted, durably, when this returns: where the name of the file could not be synced, by whoever noted
        that, it is noted anew, as another sync would prove nothing. Raises OSError."""
        if not self._is_noted or is_in_doubt(self._files, self._path):
            self._write()

    def _write(self) -> None:
        places = (f"{number}={place}" for number, place in enumerate(self._places))
        lines = (f"version={_VERSION}", f"topics.prefix={self.prefix}", *places)
        replace_for_good(self._files, self._path, ("\n".join(lines) + "\n").encode())
        self._is_noted = True
