"""What groups take in memory, and the limit on it (`group.memory.max.bytes`).

Not the offsets, which are bounded by what there is to commit to. Everything else that a client can make the coordinator
keep counts: groups, members, pending members, what members offer, assignments. A group takes what it needs, as it
changes, from the share of its offsets partition, and gives it back; one limit is on the shares of all partitions of a
process. Whoever would go beyond it is refused; what is there already is never touched.
"""

from collections.abc import Iterable
from sys import getsizeof
from typing import Final, Protocol

from protocol.offsets_log import GroupMetadataValue, encode_value

# What each takes beside its strings, lists and dicts included, on a 64-bit CPython; `tests/coordinator` measures them.
GROUP_BYTES: Final = 1_024
MEMBER_BYTES: Final = 2_688
PENDING_MEMBER_BYTES: Final = 512
PROTOCOL_BYTES: Final = 192
# The UUID in a member's id, as wide as the widest character makes it, and the address of its client.
_UUID_AND_HOST_BYTES: Final = 256


class OfferedProtocol(Protocol):
    """What a member offers, as it stands in the request or in the member."""

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> bytes: ...


def protocols_size(protocols: Iterable[OfferedProtocol]) -> int:
    return sum(PROTOCOL_BYTES + getsizeof(each.name) + len(each.metadata) for each in protocols)


def metadata_size(value: GroupMetadataValue) -> int:
    """Of subscriptions and assignments, which a record holds beside what its members hold already."""
    return sum(len(member.subscription) + len(member.assignment) for member in value.members)


def record_size(value: GroupMetadataValue) -> int:
    """Bytes that it takes in the log: ids and names are of clients' choice, too, up to 32 KiB each."""
    return len(encode_value(value))


def group_size(group_id: str) -> int:
    """Of a group without members."""
    return GROUP_BYTES + getsizeof(group_id)


def member_size(client_id: str, group_instance_id: str | None, protocols: Iterable[OfferedProtocol]) -> int:
    """Of a member that is to be made: no less than :meth:`shim.coordinator.state.group.Member.size` will be."""
    instance = group_instance_id or ""
    strings = (client_id, instance, instance or client_id)
    return MEMBER_BYTES + sum(map(getsizeof, strings)) + _UUID_AND_HOST_BYTES + protocols_size(protocols)


def pending_member_size(member_id: str) -> int:
    return PENDING_MEMBER_BYTES + getsizeof(member_id)


class GroupMemory:
    """How much the groups of all partitions take; shared by those that are served by one process, in one thread."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def has_room(self, more: int) -> bool:
        """What takes no more has room, also where the limit was lowered since."""
        return more <= 0 or self.used + more <= self.limit


class MemoryShare:
    """What one offsets partition uses of it."""

    __slots__ = ("_memory", "used")

    def __init__(self, memory: GroupMemory) -> None:
        self._memory = memory
        self.used = 0

    def has_room(self, more: int) -> bool:
        """In all of it."""
        return self._memory.has_room(more)

    def take(self, more: int) -> None:
        """So much more is used; where that is below 0, it is given back."""
        self.used += more
        self._memory.used += more

    def move_to(self, memory: GroupMemory) -> None:
        """Be a share of this memory, in place of the other."""
        self._memory.used -= self.used
        self._memory = memory
        memory.used += self.used
