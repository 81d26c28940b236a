"""What is told of groups and of the hands that they are in, to whoever looks after them."""

from __future__ import annotations

from typing import NamedTuple


class Refused(Exception):
    """The group stays in the hands that it is in; the message is one line that says why."""


class NotKnown(Exception):
    """Neither the shim nor the cluster knows such a group."""


class GroupStatus(NamedTuple):
    """``storage``: in Kafka's words, ``offsets.storage``: "upstream" of a group that is passed through to the cluster's
    own coordinator, "kafka" of one that the shim serves. ``state`` and ``members``: of the coordinator in whose hands
    it is. ``changed_ms``: since when, in milliseconds since the epoch, and ``cause``: why; None and "" where nobody
    knows.
    """

    group: str
    storage: str
    dual_commit: bool
    state: str
    members: int
    changed_ms: int | None
    cause: str


class Planned(NamedTuple):
    """What a start would find. ``members_here``: of the members, how many have come through the shim
    lately. ``offsets``: partitions of which an offset would be adopted. ``hindrance``: "" where it would go through.
    """

    group: str
    state: str
    members: int
    members_here: int
    offsets: int
    hindrance: str
