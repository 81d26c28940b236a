"""What shims that share a log on topics tell each other in their consumer group.

Source: docs/decisions/0018. It is the classic group protocol, with a protocol type of its own: what a member says of
itself goes with JoinGroup, and what the leader makes of that, the same for all members, with SyncGroup. The generation
of an assignment is that of the group, and stands there.

Each is an int16 version and its fields, flexible (KIP-482) from version 0 on, which is the only one so far. What a
later shim adds is to be tagged, so that shims of both versions can be in one group: what is said of standbys is. A
shim that knows nothing of them passes over it, says that it follows nothing, and so is named for nothing; where such a
one shares out, nobody is.
"""

from typing import Annotated, Final, NamedTuple

from protocol.errors import DecodeError
from protocol.own.typed_records import decode_value, encode_value
from protocol.wire import Int32, String, TaggedFields, UInt16, tag

PROTOCOL_TYPE: Final = "offset-shim"
"""With `consumer` brokers would try to read the subscription."""

_FIELDS_AT: Final = 2  # behind the version


class ListenerAddress(NamedTuple):
    """Where clients of one listener find a shim: node id *i* at `bootstrap_port` + 1 + *i*."""

    listener: String
    host: String
    bootstrap_port: UInt16
    tagged: TaggedFields = ()


class ShimMember(NamedTuple):
    """What a shim says of itself. `name`: for people. `node_ids`: those that it had in the last assignment that it
    knows, of that `generation`; -1 and none where it knows none. `follows`: those of other shims whose partitions it
    has followed by the same assignment, so that it has them soon; None: it follows none, and will not.
    """

    name: String
    addresses: tuple[ListenerAddress, ...]
    generation: Int32 = -1
    node_ids: tuple[Int32, ...] = ()
    follows: Annotated[tuple[Int32, ...] | None, tag(0)] = None
    tagged: TaggedFields = ()


class AssignedShim(NamedTuple):
    """A member, by its `group.instance.id`."""

    instance_id: String
    name: String
    addresses: tuple[ListenerAddress, ...]
    tagged: TaggedFields = ()


class AssignedNode(NamedTuple):
    """A broker, and the shim that stands for it: the position in `ShimAssignment.shims`."""

    node_id: Int32
    shim: Int32
    tagged: TaggedFields = ()


class ShimAssignment(NamedTuple):
    """`partitions`: for each offsets partition, from 0 on, the node id that it belongs to. Who has the node owns it.
    `standbys`: for each of `nodes`, in their order, the position of the shim that follows its partitions; -1: none.
    """

    shims: tuple[AssignedShim, ...]
    nodes: tuple[AssignedNode, ...]
    partitions: tuple[Int32, ...]
    standbys: Annotated[tuple[Int32, ...], tag(0)] = ()
    tagged: TaggedFields = ()


def encode_member(member: ShimMember) -> bytes:
    """Raises EncodeError."""
    return encode_value(member)


def decode_member(raw: bytes) -> ShimMember:
    """Raises DecodeError, also for what a later version of the shim has written."""
    return decode_value(ShimMember, raw, "member")


def encode_assignment(assignment: ShimAssignment) -> bytes:
    """Raises EncodeError."""
    return encode_value(assignment)


def decode_assignment(raw: bytes) -> ShimAssignment:
    """Each node id stands at one of the shims, and each partition belongs to one of the node ids; standbys, too, are
    among the shims. Raises DecodeError, also for what a later version of the shim has written.
    """
    assignment = decode_value(ShimAssignment, raw, "assignment")
    shims, nodes, partitions, standbys, _ = assignment
    node_ids = {node.node_id for node in nodes}
    for wrong, reason in (
        (len({shim.instance_id for shim in shims}) < len(shims), "a shim is there twice"),
        (len(node_ids) < len(nodes), "a node id is there twice"),
        (any(not 0 <= node.shim < len(shims) for node in nodes), "a node id has a shim that is not there"),
        (not node_ids.issuperset(partitions), "a partition has a node id that is not there"),
        (len(standbys) not in (0, len(nodes)), "there are standbys of some of the node ids"),
        (any(not -1 <= shim < len(shims) for shim in standbys), "a node id has a standby that is not there"),
    ):
        if wrong:
            raise DecodeError(reason, _FIELDS_AT, "assignment")
    return assignment
