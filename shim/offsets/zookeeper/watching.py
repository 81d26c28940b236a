"""Offsets that consumers write to ZooKeeper themselves (``offsets.storage=zookeeper``), as they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from compat import zookeeper as layout
from protocol.topic_partition import Partition
from shim.logged_once import LoggedOnce
from shim.offsets.store import StoredOffset
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.watched_group import Look, WatchedGroup
from shim.offsets.zookeeper.znodes import EnsembleUnavailable, SessionEvent

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0
"""The pause before what has failed is tried again."""
_NOT_SEEN: Final = "changes of offsets in ZooKeeper are not seen"

_CHANGED_AT_ONCE: Final = 200
_UNREAD_AT_ONCE: Final = 20
"""Groups in a look, of those with changes and of those that were not read yet: a change does not wait for all of the
latter."""


class OffsetsWatch:
    """Tells of offsets in ZooKeeper that change, of the groups that are watched. For the event loop.

    ``changed`` is called with a group and what stands there now, of the partitions that were read; the versions are
    those of :meth:`.offsets.ZooKeeperOffsets.fetch`. What the shim writes itself is told, too, and after
    each time that the connection was lost all is told again: whoever is told goes by the versions. What is deleted is
    not told, nor what is no offset.

    ``ensemble``: started by somebody else, before or after, who also closes it.
    """

    def __init__(self, ensemble: Ensemble, changed: Callable[[str, Mapping[Partition, StoredOffset]], None]) -> None:
        self.look = 0
        """Which one is under way, or was last; they begin one after the other's end."""
        self._ensemble = ensemble
        self._tell = changed
        self._groups: dict[str, WatchedGroup] = {}
        self._unread: dict[str, None] = {}  # groups, in order
        self._changed: dict[str, set[layout.Offsets]] = {}
        self._wanted = asyncio.Event()
        self._connected = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._trouble = LoggedOnce(log)
        ensemble.watch_session(self._session_changed)

    def watch(self, group: str) -> None:
        """From now on; the first reading is :meth:`run`'s. Raises :class:`compat.zookeeper.NotAName`."""
        layout.group_path(group)
        if group not in self._groups:
            self._groups[group] = WatchedGroup(LoggedOnce(log))
            self._unread[group] = None
            self._wanted.set()

    def unwatch(self, group: str) -> None:
        """Nothing is told of it any more."""
        watched = self._groups.pop(group, None)
        if watched is not None:
            watched.settled.set()
            self._unread.pop(group, None)
            self._changed.pop(group, None)
            self._trouble.forget(_not_watched(group))

    async def known(self, group: str) -> None:
        """Wait until all that the group has was read and told once since the connection stands, and is watched.

        Raises KeyError where it is not watched, or not any more.
        """
        while True:
            watched = self._groups[group]
            await watched.settled.wait()
            if self._groups.get(group) is watched:
                return

    async def run(self) -> None:
        """Until cancelled. What fails is tried again."""
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                while (look := self._next_look()).wanted:
                    await self._take(look)
        finally:
            if self._retry is not None:
                self._retry.cancel()
                self._retry = None

    def _next_look(self) -> Look:
        self.look += 1
        wanted: set[layout.Offsets] = set()
        for group in list(islice(self._changed, _CHANGED_AT_ONCE)):
            wanted |= self._changed.pop(group)
        for group in list(islice(self._unread, _UNREAD_AT_ONCE)):
            del self._unread[group]
            wanted.add(layout.Offsets(group))
        groups = {name: self._groups[name] for name in sorted({each.group for each in wanted})}
        return Look(self._ensemble, self._fired, groups, wanted)

    async def _take(self, look: Look) -> None:
        self._connected.clear()
        try:
            await look.read()
            self._trouble.went_well(_NOT_SEEN)
            self._looked(look)
        except EnsembleUnavailable as error:
            self._want(look.wanted)
            self._trouble.failed(_NOT_SEEN, error, kind="away")
            # Short of a new connection, too: one that hung for a moment goes on as if nothing had been.
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await self._connected.wait()
        except BaseException:
            self._want(look.wanted)
            raise

    def _looked(self, look: Look) -> None:
        failed: dict[str, set[layout.Offsets]] = {}
        for each in look.wanted:
            if each.path in look.failed:
                failed.setdefault(each.group, set()).add(each)
        for name, group in look.groups.items():
            if self._groups.get(name) is not group:
                continue  # not watched any more, or it is read anew
            group.failing = (group.failing - look.wanted) | failed.get(name, set())
            if group.failing:
                self._again_later(name, look, failed.get(name, set()))
            else:
                self._trouble.went_well(_not_watched(name))
            if name in look.found:
                self._tell(name, look.found[name])
            if group.listed and not group.failing:
                group.settled.set()

    def _again_later(self, group: str, look: Look, failed: set[layout.Offsets]) -> None:
        if failed:
            self._trouble.failed(_not_watched(group), look.failed[min(each.path for each in failed)])
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        for group in self._groups.values():
            self._want(group.failing)

    def _fired(self, path: str) -> None:
        changed = layout.parse_offsets_path(path)
        if changed is not None:
            self._want([changed])

    def _want(self, wanted: Iterable[layout.Offsets]) -> None:
        """Of groups that are watched; a watch that was left behind may tell of others."""
        for each in wanted:
            if each.group in self._groups:
                self._changed.setdefault(each.group, set()).add(each)
                self._wanted.set()

    def _session_changed(self, event: SessionEvent) -> None:
        """The watches have gone with the connection."""
        for name, group in self._groups.items():
            self._groups[name] = WatchedGroup(group.trouble)
            group.settled.set()
        self._changed.clear()
        self._unread = dict.fromkeys(self._groups)
        self._wanted.set()
        if event is SessionEvent.CONNECTED:
            self._connected.set()


def _not_watched(group: str) -> str:
    return f"offsets of group {group!r} in ZooKeeper are not seen"
