"""The groups that a start could be about, of all that the cluster or ZooKeeper has."""

from __future__ import annotations

from collections.abc import Iterable, Set

from protocol.group_kinds import kind_listed
from protocol.own.shim_group import PROTOCOL_TYPE
from protocol.own.state_log import Step
from shim.migration.hands.placements import SERVED, Placements, Whose
from shim.migration.hindrances import other_protocol
from shim.migration.looking.beside_shims import has_members
from shim.migration.looking.in_zookeeper import InZooKeeper
from shim.migration.reader import GroupReader
from shim.migration.words import Candidates, Refused
from shim.offsets.cluster.describing import LOOK_SECONDS, NOBODY, LiveGroup
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.upstream.errors import UpstreamError


class Startable:
    """For the event loop."""

    def __init__(
        self, cluster_groups: ClusterGroups, placements: Placements, reader: GroupReader, in_zookeeper: InZooKeeper
    ) -> None:
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._reader = reader
        self._in_zookeeper = in_zookeeper

    async def candidates(self) -> Candidates:
        """The groups that a start could be about: those that the cluster or ZooKeeper has, and the shim does not keep
        in its log alone. None of those that another shim has, or worker, nor of a partition that is not served; nor
        those of shims themselves, which are the cluster's for good; nor those of which nobody has anything, and which a
        start does not know."""
        listed = await self._cluster_groups.listed(LOOK_SECONDS)
        live = listed.groups
        unanswered = [str(each) for each in listed.unanswered] if listed.asked else [str(listed.trouble)]
        in_zookeeper: set[str] = set()
        try:
            in_zookeeper.update(await self._in_zookeeper.groups())
        except StoreError as error:
            unanswered.append(f"ZooKeeper: {error}")
        shims = {group for group, its in live.items() if its.protocol_type == PROTOCOL_TYPE}
        names = {
            group
            for group in (live.keys() | in_zookeeper) - shims
            if self._reader.has_coordinator(group) and self._can_start(group)
        }
        in_doubt = [live[group] for group in names - in_zookeeper if self._placements.of(group) is Whose.UNKNOWN]
        groups = sorted(names - await self._with_nothing(in_doubt))
        # One that is served is at zookeeper, and goes on from there.
        theirs = (live[group] for group in groups if group in live and self._placements.of(group) not in SERVED)
        others = {each.group: why for each in theirs if (why := other_protocol(kind_listed(each.type)))}
        return Candidates(groups, unanswered, others)

    async def _with_nothing(self, groups: Iterable[LiveGroup]) -> Set[str]:
        """Those that the cluster lists without members and offsets: until its next look for what has expired, it keeps
        a group that all have left, or whose offsets were deleted. What a transaction is about to commit is not waited
        for."""
        empty = [each for each in groups if each.state in (*NOBODY, "")]
        try:
            offsets = await self._cluster_groups.offsets_of([each.group for each in empty], stable=False)
            return {
                each.group
                for each in empty
                if not offsets[each.group] and not await has_members(self._cluster_groups, each)
            }
        except (UpstreamError, Refused):  # `plan` and `start` ask again, and say of which group it is
            return frozenset()

    def _can_start(self, group: str) -> bool:
        return self._placements.of(group) not in SERVED or self._reader.step(group) is Step.ZOOKEEPER
