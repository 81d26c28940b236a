"""Shims that have one log share its partitions: as members of a consumer group of the cluster.

The group only proposes. Whose a partition is, the log says: whoever writes to it is fenced by the next owner. See
docs/decisions/0018.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Final

from protocol.errors import DecodeError
from protocol.own.shim_group import (
    ListenerAddress,
    ShimMember,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_member,
)
from protocol.partition import OFFSETS_TOPIC
from shim.config import HostPort, Settings
from shim.counted import counted
from shim.logged_once import LoggedOnce
from shim.ownership.assignment import Shares, assign, assign_to_one
from shim.ownership.member import GroupMember
from shim.runtime import Runtime
from shim.upstream import Cluster, UpstreamError
from shim.upstream.topic_leaders import TopicLeaders

log = logging.getLogger(__name__)

_WHO_LEADS: Final = "who leads partitions of the cluster's offsets is not known"
_ONE_HAS_ALL: Final = "one shim has all groups"
_IDLE: Final = "this shim has no groups"
_PATIENCE_SECONDS: Final = 3.0
_LATELY_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0


class Sharing:
    """For the event loop."""

    def __init__(
        self, cluster: Cluster, settings: Settings, runtime: Runtime, name: str, addresses: Sequence[ListenerAddress]
    ) -> None:
        """``name``: for people. ``addresses``: where clients find this shim."""
        self._cluster = cluster
        self._settings = settings
        self._runtime = runtime
        self._name = name
        self._addresses = tuple(addresses)
        self._leaders = TopicLeaders(cluster, settings, OFFSETS_TOPIC)
        self._member: GroupMember | None = None
        self._moved_at: dict[int, float] = {}
        self._lost = asyncio.Event()
        self._gone: dict[int, float] = {}
        self._any_gone = asyncio.Event()
        self.lead_away: Callable[[Collection[int]], None] = lambda node_ids: None
        """Called with brokers that stand at other shims since a moment ago, to have clients look where: most keep a
        connection for as long as it lasts, and know it by the broker's node id."""
        self._trouble = LoggedOnce(log)
        self.shares: Shares | None = None
        """The newest that are known."""
        runtime.lost = self._lost.set
        runtime.named_owner = self.named_owner

    def take_settings(self, settings: Settings) -> None:
        """Of the next look at who leads."""
        self._settings = settings

    async def run(self, instance_id: Callable[[], str]) -> None:
        """Until cancelled. ``instance_id`` is asked for once the log is open, and so known to be the cluster's. Raises
        InstanceFenced, OSError, and UpstreamError where the group cannot be had."""
        # In a new cluster FindCoordinator makes `__consumer_offsets`, for good, of the brokers that are there by then;
        # those that the log's topics need were waited for.
        await self._runtime.log_open.wait()
        own_id = instance_id()
        self._member = member = GroupMember(
            self._cluster,
            self._settings,
            self._settings.offsets_log_topics_prefix,
            own_id,
            metadata=self._metadata,
            assign=self._assign,
            assigned=lambda generation, data: self._assigned(own_id, generation, data),
        )
        tasks = [
            asyncio.ensure_future(each)
            for each in (
                *(member.run(), self._take_again(member)),
                *(self._follow_leaders(member), self._lead_clients_away()),
            )
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def leave(self) -> None:
        """When everything is given up, so that the others need not wait until this one is missed. Once."""
        member, self._member = self._member, None
        if member is not None:
            await member.leave()

    # -- what members tell each other

    def _metadata(self) -> bytes:
        shares = self.shares
        had = (-1, (), ()) if shares is None else (shares.generation, shares.node_ids, shares.followed_node_ids)
        generation, node_ids, followed = had
        follows = followed if self._settings.standby_replicas else None
        return encode_member(ShimMember(self._name, self._addresses, generation, node_ids, follows))

    async def _assign(self, members: Mapping[str, bytes]) -> bytes:
        """Raises UpstreamError."""
        told: dict[str, ShimMember] = {}
        for instance_id, data in members.items():
            try:
                told[instance_id] = decode_member(data)
            except DecodeError as error:
                # It gets nothing, and finds out for itself that it cannot read what the others share.
                log.error("a member of the shims' group is no shim of this release: %s", error)
        leaders, brokers = await self._leaders_now(), self._cluster.brokers
        if not told or not brokers:
            raise UpstreamError("nobody to share anything between")
        if leaders is None:
            # Who coordinates a group there says nothing of whose it is here. So that clients find it all the same, it
            # is where every broker is.
            newest = max(told, key=lambda each: (bool(told[each].node_ids), told[each].generation, each))
            return encode_assignment(assign_to_one(told, newest, brokers, self._runtime.num_partitions))
        return encode_assignment(assign(told, leaders, brokers, self._runtime.num_partitions))

    def _assigned(self, own_id: str, generation: int, data: bytes) -> None:
        try:
            shares = Shares(decode_assignment(data), generation, own_id)
            if len(shares.assignment.partitions) != self._runtime.num_partitions:
                raise DecodeError(f"{len(shares.assignment.partitions)} partitions", 0, "assignment")
        except DecodeError as error:
            log.error("what the shims have shared out cannot be read, as of another release: %s", error)
            return
        self._note_moves(shares)
        self.shares = shares
        log.info(
            "generation %d: %s of %d, with broker ids %s; standby of %d; shims: %s",
            *(generation, counted(len(shares.owned), "partition"), self._runtime.num_partitions),
            *(", ".join(map(str, shares.node_ids)) or "none", len(shares.followed)),
            ", ".join(sorted(each.name for each in shares.assignment.shims)),
        )
        self._tell_of_idling(shares)
        if len({shares.owner_of(number).instance_id for number in range(self._runtime.num_partitions)}) > 1:
            self._trouble.went_well(_ONE_HAS_ALL)  # another member may lead by now, and have counted
        self._own(shares)
        if self._member is not None and shares.own is not None and shares.own.addresses != self._addresses:
            self._member.rejoin()  # what the others tell clients is where it was before it was started anew

    def _tell_of_idling(self, shares: Shares) -> None:
        """Who stands at no broker stands by; who does, and has nothing, may have nothing for good."""
        if shares.node_ids and not shares.owned:
            nodes = ", ".join(map(str, shares.node_ids))
            why = UpstreamError(f"of the brokers at it ({nodes}) none leads a partition of {OFFSETS_TOPIC}")
            self._trouble.failed(_IDLE, why)
        else:
            self._trouble.went_well(_IDLE)

    def _own(self, shares: Shares) -> None:
        self._runtime.own(shares.owned, shares.followed if self._settings.standby_replicas else ())

    def _note_moves(self, shares: Shares) -> None:
        before = self.shares
        if before is not None:
            now = time.monotonic()
            self._gone |= dict.fromkeys(set(before.node_ids) - set(shares.node_ids), now)
            self._any_gone.set()
            for number in range(self._runtime.num_partitions):
                if shares.owner_of(number).addresses != before.owner_of(number).addresses:
                    self._moved_at[number] = now

    def peer_of(self, partition: int, listener: str) -> HostPort | None:
        """Where the shim that is to own an offsets partition listens under that name. None for this one, and where that
        is not known."""
        shares = self.shares
        if shares is None or (owner := shares.owner_of(partition)).instance_id == shares.instance_id:
            return None
        found = (each for each in owner.addresses if each.listener == listener)
        return next((HostPort(each.host, each.bootstrap_port) for each in found), None)

    def stands_elsewhere(self, node_id: int) -> bool:
        """Whether a broker is known to stand at another shim."""
        shares = self.shares
        return shares is not None and node_id not in shares.node_ids and shares.shim_of(node_id) is not None

    def named_owner(self, partition: int) -> str:
        """For people: another shim that is to own an offsets partition; "" for this one, and where it is not known."""
        shares = self.shares
        if shares is None or (owner := shares.owner_of(partition)).instance_id == shares.instance_id:
            return ""
        return owner.name

    def other_owners(self) -> Sequence[str]:
        """For people: the other shims that are to own offsets partitions."""
        return sorted({*map(self.named_owner, range(self._runtime.num_partitions))} - {""})

    def moved_lately(self, partition: int) -> bool:
        """Whether it was at another shim a moment ago: clients that are new may be old ones."""
        return time.monotonic() - self._moved_at.get(partition, -math.inf) < _LATELY_SECONDS

    # -- what goes on

    async def _take_again(self, member: GroupMember) -> None:
        """A partition that somebody else has is taken again where the group still says that it is this one's: whoever
        has it did not know that."""
        while True:
            await self._lost.wait()
            self._lost.clear()
            shares = self.shares
            if shares is not None and await member.confirmed(shares.generation) and shares is self.shares:
                self._own(shares)

    async def _lead_clients_away(self) -> None:
        """Again and again, as a client that comes back may have been told of the old place once more, by a shim that
        had not heard yet."""
        while True:
            await self._any_gone.wait()
            self._any_gone.clear()
            while gone := self._still_gone():
                self.lead_away(gone)
                await asyncio.sleep(_AGAIN_SECONDS)

    def _still_gone(self) -> Collection[int]:
        """Of late."""
        assert self.shares is not None
        here, since = self.shares.node_ids, time.monotonic() - _LATELY_SECONDS
        self._gone = {node_id: at for node_id, at in self._gone.items() if at > since and node_id not in here}
        return self._gone.keys()

    async def _follow_leaders(self, member: GroupMember) -> None:
        """Each partition belongs to the broker that the cluster names for its groups. Where that has been another one
        for two looks it is shared out anew, and where there is a broker that stands nowhere; until then its owner has a
        port for that one, too."""
        before = None
        while True:
            await asyncio.sleep(self._settings.topology_refresh_interval_ms / 1000)
            if self.shares is None or not member.is_leader:
                self._trouble.forget(_WHO_LEADS)  # whoever leads the group asks
                continue
            try:
                wrong = self._wrong(self.shares, await self._leaders_now())
            except UpstreamError as error:
                self._trouble.failed(_WHO_LEADS, error)
                continue
            self._trouble.went_well(_WHO_LEADS)
            if wrong and wrong == before:
                member.rejoin()
            before = wrong

    def _wrong(self, shares: Shares, leaders: Mapping[int, int] | None) -> Set[tuple[int | None, int]]:
        """Partitions with brokers that lead them and where they are not; without one, brokers that stand nowhere."""
        new = {(None, node_id) for node_id in self._cluster.brokers if shares.shim_of(node_id) is None}
        return new | {its for its in (leaders or {}).items() if its[1] != shares.node_of(its[0])}

    async def _leaders_now(self) -> Mapping[int, int] | None:
        """The node ids that lead partitions of the cluster's offsets; None where there is another number of them than
        here. Raises UpstreamError."""
        led = await self._leaders.look_up(_PATIENCE_SECONDS)
        here = self._runtime.num_partitions
        if len(led.places) != here:
            why = UpstreamError(f"offsets.topic.num.partitions is {here}, the cluster's has {len(led.places)}")
            self._trouble.failed(_ONE_HAS_ALL, why)
            return None
        self._trouble.went_well(_ONE_HAS_ALL)
        nodes = {address: node_id for node_id, address in self._cluster.brokers.items()}
        leaders = ((number, nodes.get(place.leader)) for number, place in led.places.items() if place.leader)
        return {number: node_id for number, node_id in leaders if node_id is not None}
