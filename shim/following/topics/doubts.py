"""The topics that are in doubt: it is not known whether they are the ones that they were."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable


class TopicInDoubt(Exception):
    """It is not known in time whether the topic is the one that it was; a client is to ask again."""


class Doubt:
    """Of one topic, from the moment when somebody did not see it, or saw it with another id."""

    __slots__ = ("absent", "blocks", "gone", "held", "over", "partitions", "seen", "since", "told")

    def __init__(self, partitions: int, *, blocks: bool) -> None:
        self.partitions = partitions
        """How many there were before."""
        self.blocks = blocks
        """Whether its offsets are neither served nor taken: it was seen with another id, or they are being deleted, so
        what is committed is another one's. Otherwise somebody did not see it."""
        self.held = 0
        """By how many looks after a deletion that was answered: its offsets are neither served nor taken, too."""
        self.gone = False
        """Whether it is known that what is committed is another one's, whichever topic is seen by now."""
        self.since = time.monotonic()
        self.absent = 0
        """How often in a row all brokers did not have it."""
        self.seen: bytes | None = None
        """The id with which it was seen since they were asked, if it was."""
        self.told = False
        """Whether it was logged that this one lasts."""
        self.over = asyncio.Event()


class TopicDoubts:
    """By the topics' names."""

    def __init__(self) -> None:
        self._doubts: dict[str, Doubt] = {}
        self._begun = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._doubts)

    def __contains__(self, name: str) -> bool:
        return name in self._doubts

    def __getitem__(self, name: str) -> Doubt:
        return self._doubts[name]

    def get(self, name: str) -> Doubt | None:
        return self._doubts.get(name)

    def names(self) -> list[str]:
        return list(self._doubts)

    def begin(self, name: str, partitions: int, *, blocks: bool) -> Doubt:
        doubt = self._doubts[name] = Doubt(partitions, blocks=blocks)
        self._begun.set()
        return doubt

    def end(self, name: str) -> None:
        self._doubts.pop(name).over.set()

    def blocked(self, names: Iterable[str] | None) -> list[str]:
        """Of which of these (None: of all) no offset is served or taken."""
        if not self._doubts:
            return []
        of_concern = self._doubts if names is None else names
        return [name for name in of_concern if (doubt := self._doubts.get(name)) and (doubt.blocks or doubt.held)]

    async def wait_until_over(self, names: Collection[str]) -> None:
        """Wait until none of these is in doubt."""
        while (doubt := next((self._doubts[name] for name in names if name in self._doubts), None)) is not None:
            await doubt.over.wait()

    async def wait_for_any(self) -> None:
        """Wait until there is one."""
        while not self._doubts:
            self._begun.clear()
            await self._begun.wait()
