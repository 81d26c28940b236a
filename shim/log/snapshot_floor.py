"""Below which offset a partition's snapshots count no more, as its log was compacted up to there.

A snapshot says what the records below its offset have made; those behind it are replayed onto that. Compaction may
take a tombstone from behind it, of a key that is in the snapshot: the snapshot's anchor stands where it stood, and what
was deleted would rise again. So before anything that compaction has written takes the place of what was there, every
snapshot of less than the end of the round goes, durably; and none of less may come any more, even one in the making.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from shim.log.files import Files

SNAPSHOT_NAME: Final = re.compile(r"(\d{20})\.snapshot")


class SnapshotOutdated(Exception):
    """The log was compacted beyond the offset of the snapshot."""


class SnapshotFloor:
    """Of one partition, for all threads."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._lock = Lock()
        self._offset = 0

    @property
    def offset(self) -> int:
        """Snapshots of less are of no use. Of what this process has compacted: what another one has, it has removed."""
        return self._offset

    def rise(self, offset: int) -> None:
        """Removes the snapshots of less than ``offset``, durably. Raises OSError: one of them may be there."""
        with self._lock:
            self._offset = max(self._offset, offset)
            for name in self._files.names(self._folder):
                if (match := SNAPSHOT_NAME.fullmatch(name)) and int(match[1]) < offset:
                    with suppress(FileNotFoundError):
                        self._files.unlink(self._folder / name)
            # Also when there was none: others remove snapshots, and not durably.
            self._files.sync_directory(self._folder)

    @contextmanager
    def admitting(self, offset: int) -> Iterator[None]:
        """While a snapshot of this offset is given its name. Raises SnapshotOutdated."""
        with self._lock:
            if offset < self._offset:
                raise SnapshotOutdated
            yield
