"""What is known of the znodes of groups that are watched, and a look at those that have changed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence

from compat import zookeeper as layout
from protocol.topic_partition import Partition
from shim.logged_once import LoggedOnce
from shim.offsets.store import StoredOffset
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offset_znodes import offset_znode, stored
from shim.offsets.zookeeper.znodes import EnsembleError, NoZnode, Watch


class WatchedGroup:
    """As far as a connection goes: another one begins with nothing. ``trouble``: its strange znodes."""

    def __init__(self, trouble: LoggedOnce) -> None:
        self.trouble = trouble
        self.topics: dict[str, set[str]] = {}
        """Topic → the znodes below it that say offsets. Each of them, and the topic's own, is watched or wanted; where
        one is not there any more, its parent's watch tells of a new one."""
        self.strange: dict[str, set[str]] = {}
        """Topic → the znodes below it whose names say no partition, or none of their own."""
        self.listed = False
        """Whether ``topics`` are all there are."""
        self.failing: set[layout.Offsets] = set()
        """What could not be read, to be tried again."""
        self.settled = asyncio.Event()
        """Everything was read and told once; or the group is not watched any more, or by another one of these."""


class Look:
    """At what is ``wanted`` of these groups, and at what turns out to be new there. What it has read is watched.

    ``wanted`` grows. It is done when :meth:`read` is; where that raises, all of it is to be looked at again.
    """

    def __init__(
        self, ensemble: Ensemble, watch: Watch, groups: Mapping[str, WatchedGroup], wanted: set[layout.Offsets]
    ) -> None:
        self.groups = groups
        self.wanted = wanted
        self.found: dict[str, dict[Partition, StoredOffset]] = {}
        self.failed: dict[str, EnsembleError] = {}
        """Path → why it could not be read."""
        self._ensemble = ensemble
        self._watch = watch

    async def read(self) -> None:
        """Raises :class:`shim.offsets.zookeeper.znodes.EnsembleUnavailable`."""
        await self._read_topics([each for each in self.wanted if each.topic is None])
        await self._read_partitions([each for each in self.wanted if each.topic is not None and each.name is None])
        await self._read_offsets([each for each in self.wanted if each.name is not None])

    async def _read_topics(self, wanted: Sequence[layout.Offsets]) -> None:
        paths = [each.path for each in wanted]
        found = await self._ensemble.children_many(paths, watch=self._watch, wrong=self.failed)
        missing: dict[str, layout.Offsets] = {}
        for each, path, topics in zip(wanted, paths, found, strict=True):
            group = self.groups[each.group]
            if self._is_missing(path):
                missing[path] = each
            elif path not in self.failed:
                group.listed = True
                for gone in group.topics.keys() - set(topics):
                    self._is_gone(layout.Offsets(each.group, gone), group)
                for new in set(topics) - group.topics.keys():
                    group.topics[new] = set()
                    self.wanted.add(layout.Offsets(each.group, new))
        await self._await_creation(missing)

    async def _await_creation(self, missing: Mapping[str, layout.Offsets]) -> None:
        paths = list(missing)
        found = await self._ensemble.exist_many(paths, watch=self._watch, wrong=self.failed)
        for (path, at), there in zip(missing.items(), found, strict=True):
            group = self.groups[at.group]
            for topic in list(group.topics):
                self._is_gone(layout.Offsets(at.group, topic), group)
            if there:
                self._watch(path)  # created since
            else:
                group.listed = path not in self.failed

    async def _read_partitions(self, wanted: Sequence[layout.Offsets]) -> None:
        known = [each for each in wanted if each.topic in self.groups[each.group].topics]
        paths = [each.path for each in known]
        found = await self._ensemble.children_many(paths, watch=self._watch, wrong=self.failed)
        for each, path, names in zip(known, paths, found, strict=True):
            assert each.topic is not None
            group = self.groups[each.group]
            if self._is_missing(path):
                self._is_gone(each, group)
            elif path not in self.failed:
                chosen = layout.choose(names)
                before = group.topics[each.topic] | group.strange.pop(each.topic, set())
                for name in before - {*chosen.names.values(), *chosen.strange}:
                    group.trouble.went_well(_not_told(f"{path}/{name}"))
                if chosen.strange:
                    group.strange[each.topic] = set(chosen.strange)
                for name, why in chosen.strange.items():
                    group.trouble.failed(_not_told(f"{path}/{name}"), ValueError(why))
                there = set(map(sys.intern, chosen.names.values()))  # of many topics, these are the same few
                new = there - group.topics[each.topic]
                group.topics[each.topic] = there
                self.wanted.update(layout.Offsets(each.group, each.topic, name) for name in new)

    async def _read_offsets(self, wanted: Sequence[layout.Offsets]) -> None:
        places = [
            offset_znode(each.group, each.topic, each.name)
            for each in wanted
            if each.topic is not None
            and each.name is not None
            and each.name in self.groups[each.group].topics.get(each.topic, ())
        ]
        paths = [each.path for each in places]
        found = await self._ensemble.get_many(paths, watch=self._watch, wrong=self.failed)
        for place, znode in zip(places, found, strict=True):
            group = self.groups[place.group]
            if znode is not None:
                try:
                    self.found.setdefault(place.group, {})[place.partition] = stored(place, znode)
                    group.trouble.went_well(_not_told(place.path))
                except layout.NotAnOffset as error:
                    group.trouble.failed(_not_told(place.path), error)
            elif self._is_missing(place.path):
                topic, name = place.path.split("/")[-2:]
                group.topics[topic].discard(name)
                group.trouble.went_well(_not_told(place.path))  # it stands there no more

    @staticmethod
    def _is_gone(at: layout.Offsets, group: WatchedGroup) -> None:
        """A topic, and with it what was not taken as an offset."""
        assert at.topic is not None
        for name in group.topics.pop(at.topic) | group.strange.pop(at.topic, set()):
            group.trouble.went_well(_not_told(f"{at.path}/{name}"))

    def _is_missing(self, path: str) -> bool:
        """Such a one has not failed."""
        missing = isinstance(self.failed.get(path), NoZnode)
        if missing:
            del self.failed[path]
        return missing


def _not_told(path: str) -> str:
    return f"what stands at {path} is not taken as an offset"
