"""The cluster's own offsets as a place that an outbox feeds: what brokers refuse, in the words of such places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from protocol.errors import ErrorCode
from protocol.group_kinds import SHARE
from protocol.topic_partition import TopicPartition
from shim.offsets.cluster.brokers import BrokerRefused
from shim.offsets.cluster.groups import ClusterGroups, Committed, RefusedPartition
from shim.offsets.store import GroupInUse, StoreError, StoreRefused, StoreUnanswered, StoreUnavailable
from shim.upstream.errors import Unanswered, UpstreamError

_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)
"""There is nothing that could have the offset any more. A commit makes its group; one that is refused because of the
group is to one of another kind."""

_KINDS: Final[Mapping[int, type[StoreError]]] = {
    # Who has no membership may commit to a group, and delete of it, that nobody is in.
    ErrorCode.UNKNOWN_MEMBER_ID: GroupInUse,
    ErrorCode.ILLEGAL_GENERATION: GroupInUse,
    ErrorCode.REBALANCE_IN_PROGRESS: GroupInUse,
    ErrorCode.STALE_MEMBER_EPOCH: GroupInUse,
    ErrorCode.NON_EMPTY_GROUP: GroupInUse,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: GroupInUse,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: StoreRefused,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: StoreRefused,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: StoreRefused,
    ErrorCode.INVALID_GROUP_ID: StoreRefused,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: StoreRefused,
    ErrorCode.GROUP_ID_NOT_FOUND: StoreRefused,
}
"""Whatever else is refused may not be the next time."""


def is_nowhere(refused: RefusedPartition) -> bool:
    """Whether the cluster has no such topic or partition."""
    return refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class ClusterStore:
    """Raises StoreUnavailable, StoreRefused, and GroupInUse where the group has members in the cluster."""

    def __init__(self, cluster_groups: ClusterGroups) -> None:
        self._cluster_groups = cluster_groups

    async def offsets_of(self, groups: Mapping[str, Committed]) -> dict[str, Committed]:
        """Of each what the cluster has, what is pending of transactions left out. ``groups``: with the offsets that the
        shim has, from which leader epochs are taken where the brokers keep none (before Kafka 2.1)."""
        with self._told(groups):
            found = await self._cluster_groups.offsets_of(list(groups), stable=False)
            if not groups or await self._cluster_groups.keeps_leader_epochs(next(iter(groups))):
                return found
        return {group: _with_epochs(found[group], own) for group, own in groups.items()}

    async def commit(self, group: str, offsets: Committed, may_send: Callable[[], None]) -> set[TopicPartition]:
        """What the cluster has no topic or partition for is passed over: gives that. Of what was refused the others are
        committed. ``may_send``: as for :meth:`ClusterGroups.try_commit`."""
        with self._told([group], changes=True):
            refused = await self._cluster_groups.try_commit(group, offsets, may_send)
        _raise_for(refused)
        return {each.at for each in refused if is_nowhere(each)}

    async def delete(self, group: str, partitions: Sequence[TopicPartition], may_send: Callable[[], None]) -> None:
        """As :meth:`commit`; the group itself goes there by itself when it has nothing left."""
        try:
            with self._told([group], changes=True):
                refused = await self._cluster_groups.try_delete(group, partitions, may_send)
        except _NothingThere:
            return
        _raise_for(refused)

    @contextmanager
    def _told(self, groups: Collection[str], *, changes: bool = False) -> Iterator[None]:
        try:
            yield
        except UpstreamError as error:
            for group in groups:
                self._cluster_groups.forget(group)
            if not isinstance(error, BrokerRefused):
                unanswered = changes and isinstance(error, Unanswered)
                raise (StoreUnanswered if unanswered else StoreUnavailable)(str(error)) from error
            if error.code in _GONE:
                raise _NothingThere(str(error)) from error
            if error.code in _KINDS:
                raise _error(error.code, str(error)) from error
            # The same for all groups that a coordinator has, or is yet to have: one line in the log.
            raise StoreUnavailable(f"brokers answer {ErrorCode.for_code(error.code).name}") from error


class _NothingThere(StoreUnavailable):
    """The cluster knows no such group."""


def _raise_for(refused: Sequence[RefusedPartition]) -> None:
    left = [each for each in refused if not is_nowhere(each)]
    if left:
        more = f" (and {len(left) - 1} more)" if left[1:] else ""
        raise _error(left[0].code, f"{left[0]}{more}")


def _error(code: int, told: str) -> StoreError:
    kind = _KINDS.get(code, StoreUnavailable)
    if kind is GroupInUse:
        told += ": it has members in the cluster, past the shim"
    elif code == ErrorCode.GROUP_ID_NOT_FOUND:
        told += f": the cluster has a {SHARE.name} group of that name"
    return kind(told)


def _with_epochs(found: Committed, own: Committed) -> Committed:
    return {at: its._replace(leader_epoch=own[at].leader_epoch) if at in own else its for at, its in found.items()}
