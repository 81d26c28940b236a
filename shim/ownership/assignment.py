"""Who of the shims that share a log gets what, and what that says to whoever asks.

An offsets partition belongs to the node id of the broker that leads the same partition of the cluster's
`__consumer_offsets`, and a node id to a shim: so a client that asks the cluster who coordinates its group is led to the
shim that owns the partition. Only whole node ids can be shared out, so balance is as good as these allow.

A node stays with the shim that had it, unless another one has so much less that with the node it still has less than
the first had, by half of the node's partitions at least. A move hands over all of these, and without that limit a shim
that has 16 and gets 18 more would hand on the 16 to another one with 16, for a gain of 2. A node that has to move
anyway goes where it is best for the balance. Two shims never change nodes with one another for the sake of it.

Of the partitions of a node another shim is the standby, which follows them, and gets the node when its shim has gone:
it counts as the one that had it then. The nodes of one shim are shared out among the others by the same rules as the
nodes themselves, as if that shim had gone, so that none has to move then. Of those that are equal in this, one gets
them that follows less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from protocol.own.shim_group import AssignedNode, AssignedShim, ShimAssignment, ShimMember
from shim.config import HostPort
from shim.upstream import PortMap, stable_choice

_NOBODY: Final = -1


def assign(
    members: Mapping[str, ShimMember], leaders: Mapping[int, int], node_ids: Collection[int], num_partitions: int
) -> ShimAssignment:
    """The same for the same arguments, whatever their order.

    `members`: by `group.instance.id`. `leaders`: of `__consumer_offsets`, partition -> node id. A partition without a
    leader, or with one that is not among `node_ids`, belongs to the node that FindCoordinator names then, too.

    Partitions are shared out evenly; nodes that lead none so that all shims stand for about as many nodes. Where there
    are more shims than nodes, some have none. Raises ValueError without a broker, and without a member.
    """
    if not members:
        raise ValueError("no member is known")
    partitions = tuple(
        leader if (leader := leaders.get(partition, -1)) in node_ids else stable_choice(partition, node_ids)
        for partition in range(num_partitions)
    )
    led = Counter(partitions)
    instance_ids = sorted(members)
    homes = {node_id: instance_ids.index(member) for node_id, member in _last_had(members).items()}
    places = _shared_out(led, homes, [0] * len(instance_ids))
    standbys = _standbys(led, places, members)
    stood_for = Counter(places.values())
    idle = dict.fromkeys(set(node_ids) - led.keys(), 1)
    places |= _shared_out(idle, homes, [stood_for[shim] for shim in range(len(instance_ids))])
    return ShimAssignment(
        tuple(AssignedShim(each, members[each].name, members[each].addresses) for each in instance_ids),
        tuple(AssignedNode(node_id, places[node_id]) for node_id in sorted(places)),
        partitions,
        tuple(standbys.get(node_id, _NOBODY) for node_id in sorted(places)) if standbys else (),
    )


def assign_to_one(
    members: Mapping[str, ShimMember], one: str, node_ids: Collection[int], num_partitions: int
) -> ShimAssignment:
    """All to that member; the others have, and follow, nothing. Raises ValueError without a broker."""
    alone = assign({one: members[one]}, {}, node_ids, num_partitions)
    instance_ids = sorted(members)
    return alone._replace(
        shims=tuple(AssignedShim(each, members[each].name, members[each].addresses) for each in instance_ids),
        nodes=tuple(AssignedNode(each.node_id, instance_ids.index(one)) for each in alone.nodes),
    )


def _last_had(members: Mapping[str, ShimMember]) -> dict[int, str]:
    """By node id who had it in the newest generation, or followed it; of two who say so, the last by name."""
    said = [
        (member.generation, had, name, node_id)
        for name, member in members.items()
        for had, node_ids in ((False, member.follows or ()), (True, member.node_ids))
        for node_id in node_ids
    ]
    return {node_id: name for _, _, name, node_id in sorted(said)}


def _last_followed(members: Mapping[str, ShimMember]) -> dict[int, str]:
    """By node id who followed it in the newest generation; of two who say so, the last by name."""
    said = [(member.generation, name, node_id) for name, member in members.items() for node_id in member.follows or ()]
    return {node_id: name for _, name, node_id in sorted(said)}


def _standbys(led: Counter[int], places: Mapping[int, int], members: Mapping[str, ShimMember]) -> dict[int, int]:
    """Node id -> another shim than it is at, of those that follow others at all; of nodes that lead something."""
    instance_ids = sorted(members)
    willing = [shim for shim, each in enumerate(instance_ids) if members[each].follows is not None]
    last = {node_id: instance_ids.index(member) for node_id, member in _last_followed(members).items()}
    loads, followed = Counter[int](), Counter[int]()
    for node_id, weight in led.items():
        loads[places[node_id]] += weight
    found: dict[int, int] = {}
    for owner in range(len(instance_ids)):
        # Whoever comes behind it first, so that of shims that are equal each follows another one.
        others = sorted((shim for shim in willing if shim != owner), key=lambda shim: (shim < owner, shim))
        weights = {node_id: weight for node_id, weight in led.items() if places[node_id] == owner}
        if not others or not weights:
            continue
        homes = {node_id: others.index(last[node_id]) for node_id in weights if last.get(node_id) in others}
        before = [loads[shim] for shim in others]
        for node_id, place in _shared_out(weights, homes, before, [followed[shim] for shim in others]).items():
            found[node_id] = others[place]
            followed[others[place]] += led[node_id]
    return found


class _Move(NamedTuple):
    """A node to another shim. The least one is made first: of a node that is away from home, or that makes the sum of
    the squares of the loads smallest; `change` is half of what it changes that by.
    """

    is_at_home: bool
    change: int
    weight: int
    node_id: int
    to: int


def _shared_out(
    weights: Mapping[int, int], homes: Mapping[int, int], before: Sequence[int], among_equals: Sequence[int] = ()
) -> dict[int, int]:
    """Node id -> shim. `homes`: the shims that had them. `before`: the load of each shim without these nodes.
    `among_equals`: of each shim; of those that have the least load, the one that has the least of this comes first. It
    does not matter to whether a node moves: that is to be as it will be without it.

    It comes to an end: each move makes the sum of the squares of the loads smaller.
    """
    loads = [*before]
    places: dict[int, int] = {}
    for node_id in sorted(weights, key=lambda each: (each not in homes, -weights[each], each)):
        places[node_id] = homes[node_id] if node_id in homes else _least(loads, among_equals)
        loads[places[node_id]] += weights[node_id]
    while move := min(_moves(weights, homes, loads, places, among_equals), default=None):
        loads[places[move.node_id]] -= move.weight
        loads[move.to] += move.weight
        places[move.node_id] = move.to
    return places


def _moves(
    weights: Mapping[int, int],
    homes: Mapping[int, int],
    loads: list[int],
    places: Mapping[int, int],
    among_equals: Sequence[int],
) -> Iterator[_Move]:
    """Those that are worth it. Where one to any other shim is, one to the least loaded is, too."""
    least = _least(loads, among_equals)
    for node_id, place in places.items():
        weight, gap = weights[node_id], loads[place] - loads[least]
        is_at_home = homes.get(node_id) == place
        if 2 * gap >= 3 * weight if is_at_home else gap > weight:
            yield _Move(is_at_home, weight * (weight - gap), weight, node_id, least)


def _least(loads: list[int], among_equals: Sequence[int]) -> int:
    if not among_equals:
        return loads.index(min(loads))
    return min(range(len(loads)), key=lambda shim: (loads[shim], among_equals[shim]))


class Shares:
    """An assignment, for whoever asks. `generation`: of the group; `instance_id`: of this shim."""

    __slots__ = (
        "_shims",
        "assignment",
        "followed",
        "followed_node_ids",
        "generation",
        "instance_id",
        "node_ids",
        "owned",
    )

    def __init__(self, assignment: ShimAssignment, generation: int, instance_id: str) -> None:
        self.assignment = assignment
        self.generation = generation
        self.instance_id = instance_id
        self._shims = {node.node_id: assignment.shims[node.shim] for node in assignment.nodes}
        self.node_ids = tuple(
            node_id for node_id, shim in sorted(self._shims.items()) if shim.instance_id == instance_id
        )
        """The brokers that this shim stands for."""
        self.owned = self._partitions_of(self.node_ids)
        """The offsets partitions of this shim."""
        self.followed_node_ids = tuple(
            node.node_id
            for node, standby in zip(assignment.nodes, assignment.standbys, strict=False)
            if standby != node.shim and standby != _NOBODY and assignment.shims[standby].instance_id == instance_id
        )
        """The brokers whose partitions it follows, which other shims own."""
        self.followed = self._partitions_of(self.followed_node_ids)
        """These partitions."""

    def _partitions_of(self, node_ids: Collection[int]) -> frozenset[int]:
        return frozenset(number for number, node_id in enumerate(self.assignment.partitions) if node_id in node_ids)

    @property
    def own(self) -> AssignedShim | None:
        """What all are told of this shim; None where that is nothing."""
        return next((each for each in self.assignment.shims if each.instance_id == self.instance_id), None)

    def node_of(self, partition: int) -> int:
        """The node id that an offsets partition belongs to. Raises IndexError where there is no such partition."""
        return self.assignment.partitions[partition]

    def owner_of(self, partition: int) -> AssignedShim:
        """Raises IndexError where there is no such partition."""
        return self._shims[self.node_of(partition)]

    def shim_of(self, node_id: int) -> AssignedShim | None:
        """The shim that stands for a broker; None for a broker that the assignment does not know."""
        return self._shims.get(node_id)

    def address(self, node_id: int, listener: str) -> HostPort | None:
        """Where clients of that listener find a broker. None where the assignment does not know the broker, its shim
        has no such listener, or no port there can stand for the broker.
        """
        shim = self.shim_of(node_id)
        return None if shim is None else port_of(shim, node_id, listener)


def port_of(shim: AssignedShim, node_id: int, listener: str) -> HostPort | None:
    """Where clients of that listener find a broker at that shim, whether it stands for the broker or not. None where
    the shim has no such listener, or no port there can stand for the broker."""
    for address in shim.addresses:
        if address.listener == listener:
            ports = PortMap(address.host, address.bootstrap_port)
            return ports.of(node_id) if ports.has(node_id) else None
    return None
