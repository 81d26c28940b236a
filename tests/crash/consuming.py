"""A real consumer, unmodified, that commits every record it consumes; what it sent, and what was acknowledged."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from shim.demo.parts.process import Child
from tests.crash.acknowledged import Offsets, WrongOffsets

_PROGRAM = Path(__file__).with_name("committing_consumer.py")
_HEARD_WITHIN_S = 60.0
_STOP_TIMEOUT_S = 60.0


class Consuming:
    """A consumer process, from `__enter__` to `__exit__`, over however many crashes of the shim."""

    def __init__(self, bootstrap: str, topic: str, group: str, stderr_file: Path) -> None:
        self.group = group
        self.topic = topic
        self._argv = [sys.executable, str(_PROGRAM), bootstrap, topic, group]
        self._stderr_file = stderr_file
        self._changed = threading.Condition()
        # Largest offset by partition, of each of the two words that the program has.
        self._told: dict[str, dict[int, int]] = {"sent": {}, "acknowledged": {}}
        self._served: dict[int, int] = {}

    def _take(self, line: str) -> None:
        word, partition, offset = line.split()
        with self._changed:
            told = self._told[word]
            told[int(partition)] = max(int(offset), told.get(int(partition), 0))
            self._changed.notify_all()

    @property
    def committed(self) -> int:
        """Acknowledged commits so far: each is one record further."""
        return sum(self.acknowledged().values())

    def wait_committed(self, more_than: int, timeout: float = 30.0) -> None:
        """Wait until more commits than that have been acknowledged. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.committed > more_than, timeout):
                raise TimeoutError(f"no commit for {timeout:g} s: {self._stderr_file.read_text()[-2_000:]}")

    def acknowledged(self) -> dict[int, int]:
        """Offsets by partition. To be asked before what is served is."""
        with self._changed:
            return dict(self._told["acknowledged"])

    def check(self, acknowledged: dict[int, int], served: Offsets) -> None:
        """Raises WrongOffsets when `served` is older than that, or was never sent, or has gone backwards."""
        for partition in acknowledged.keys() | self._served.keys() | served.keys():
            least = max(acknowledged.get(partition, 0), self._served.get(partition, 0))
            committed = served.get(partition)
            if committed is None or committed.offset < least:
                raise WrongOffsets(f"{self.group} partition {partition}: {committed} served, {least} acknowledged")
            if committed.metadata != f"partition {partition} offset {committed.offset}":
                raise WrongOffsets(f"{self.group} partition {partition}: {committed}")
            if not self._has_sent(partition, committed.offset):
                raise WrongOffsets(f"{self.group} partition {partition}: {committed} was never sent")
            self._served[partition] = committed.offset

    def _has_sent(self, partition: int, offset: int) -> bool:
        """Its word comes through a pipe, a little after it was said."""
        with self._changed:
            return self._changed.wait_for(lambda: self._told["sent"].get(partition, 0) >= offset, _HEARD_WITHIN_S)

    def __enter__(self) -> Self:
        with self._stderr_file.open("wb") as stderr:
            self._child = Child(self._argv, on_line=self._take, stderr=stderr)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.stop(_STOP_TIMEOUT_S)
