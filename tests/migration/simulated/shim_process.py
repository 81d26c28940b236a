"""The parts of a shim that have to do with dual commit, as `serve` puts them together, until they are killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from protocol.commit_rows import API, AllCommitted
from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC
from protocol.messages.offset_commit import API as CODEC
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.own.state_log import Step
from shim.config import Settings
from shim.coordinator import Caller, GroupCoordinator
from shim.disk_log import DiskBackend, open_log
from shim.migration.deciding import decide
from shim.migration.dual.dual_commit import DualCommit
from shim.migration.dual.lookup import Lookup
from shim.migration.feeding import Feeding
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import SERVED, Placements, Whose
from shim.migration.hindrances import Hindrances
from shim.migration.mirror.mirror import Mirror
from shim.migration.moving.hand_over import HandOver
from shim.migration.moving.locks import GroupLocks
from shim.migration.moving.stepping import Stepping
from shim.migration.reader import GroupReader
from shim.migration.stores import Stores
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets
from shim.runtime import Runtime
from shim.runtime.own_ticket import OwnTicket
from tests.migration.no_groups import NoGroups, none_blocked, none_uncertain, passed_by
from tests.migration.simulated.disk import DISK, Disk
from tests.migration.simulated.simulated_ensemble import SimulatedEnsemble
from tests.migration.simulated.virtual_time import OWNER, VirtualClock, end_tasks_of
from tests.migration.simulated.znode_tree import ZnodeTree

TOPIC: Final = "orders"
SETTINGS: Final = Settings(
    offsets_topic_num_partitions=1,
    offsets_mirror_upstream=False,
    log_cleaner_enable=False,
    offsets_retention_minutes=10**6,
)
CALLER: Final = Caller("client", "/127.0.0.1")
Result = TypeVar("Result")
_Looks = Callable[[Sequence[str]], Awaitable[dict[str, ErrorCode]]]
Offsets = dict[int, int | None]
"""Partition → offset, None for none."""


class NotDone(Exception):
    """What a client is told, in place of an answer; or nothing, the shim being killed. Whether it was done nobody
    knows."""


class ShimProcess:
    """``has_zookeeper``: whether it runs with one."""

    def __init__(self, data_dir: Path, tree: ZnodeTree, rng: random.Random, *, has_zookeeper: bool = True) -> None:
        self.disk = Disk(rng)
        self._context = copy_context()
        self._context.run(OWNER.set, self)
        self._context.run(DISK.set, self.disk)
        self._context.run(self._make, data_dir, tree, rng, has_zookeeper)

    def _make(self, data_dir: Path, tree: ZnodeTree, rng: random.Random, has_zookeeper: bool) -> None:
        clock = VirtualClock()
        self._log = DiskBackend(open_log(data_dir, SETTINGS, files=self.disk), SETTINGS, clock, files=self.disk)
        runtime = self.runtime = Runtime(self._log, SETTINGS, clock)
        self.cluster = NoGroups()
        cluster = cast(ClusterGroups, self.cluster)
        self.ensemble = SimulatedEnsemble(tree, rng)
        ensemble = cast(Ensemble, self.ensemble)
        dual_commit = DualCommit(runtime, ZooKeeperOffsets(ensemble), ensemble) if has_zookeeper else None
        self._dual_commit = dual_commit
        self.stores = Stores(runtime, Mirror(runtime, cluster, SETTINGS, none_blocked), dual_commit)
        self.feeding = Feeding(runtime, self.stores.mirror, dual_commit)
        lookup = Lookup(None if dual_commit is None else dual_commit.store)
        self.placements = Placements(runtime)
        self.first_contact = FirstContact(runtime, self.placements, cluster, SETTINGS, passed_by, lookup)
        reader = GroupReader(runtime, cluster, self.placements)
        locks = GroupLocks(runtime, cluster, self.placements, reader, SETTINGS)
        self.stepping = Stepping(locks, reader, self.stores)
        hindrances = Hindrances(self.placements, reader)
        self.hand_over = HandOver(locks, reader, hindrances, cluster, self.stores.mirror, passed_by, none_uncertain)
        runtime.admit()

    def start(self) -> None:
        for chore in (self.runtime.load, self.runtime.run, self.feeding.run):
            self._task(chore())
        if self._dual_commit is not None:
            self._task(self._dual_commit.watch.run())

    @property
    def dual_commit(self) -> DualCommit:
        """Of one that has a ZooKeeper."""
        assert self._dual_commit is not None
        return self._dual_commit

    def _task(self, coroutine: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        return self._context.run(asyncio.create_task, coroutine)

    async def kill(self) -> None:
        self.disk.dead = True
        self.ensemble.abandon()
        await end_tasks_of(self)
        self._context.run(self.runtime.stop)
        await end_tasks_of(self)
        self._context.run(self.feeding.close)
        self._log._cleaning.join()
        self.disk.abandon()

    async def loses_its_partition(self) -> None:
        """To another one."""
        lost = self._served_next(is_served=False)
        self.runtime.own([])
        await lost.wait()

    async def gets_it_back(self, group: str, offsets: Mapping[int, int]) -> None:
        """With what the other one has acknowledged."""
        records = [
            (encode_key(OffsetCommitKey(group, TOPIC, at)), encode_value(OffsetCommitValue(each)))
            for at, each in offsets.items()
        ]
        await self._log.write_apart(0, [records], [])
        loaded = self._served_next(is_served=True)
        self.runtime.own([0])
        await loaded.wait()

    def _served_next(self, *, is_served: bool) -> asyncio.Event:
        """Set when its partition comes to be served, or is not any more."""
        told = asyncio.Event()
        self.runtime.watch(lambda _, coordinator: told.set() if (coordinator is not None) is is_served else None)
        return told

    async def does(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Raises NotDone where it is killed before it answers."""
        task = self._task(coroutine)
        await asyncio.wait([task])
        if task.cancelled():
            raise NotDone("the shim was killed")
        return task.result()

    # -- requests, as shim.api.hands takes them

    def step_of(self, group: str) -> Step | None:
        coordinator = self.runtime.coordinator_of(group)
        return None if coordinator is None else coordinator.step_of(group)

    async def commit(self, group: str, offsets: Offsets) -> None:
        """Raises NotDone."""
        partitions = [OffsetCommitRequestPartition(at, each) for at, each in offsets.items() if each is not None]
        asked = OffsetCommitRequest(
            group_id=group, topics=(OffsetCommitRequestTopic(TOPIC, partitions=tuple(partitions)),)
        )
        # As it comes over the wire, in rows.
        _, request = API.parse_request(8, CODEC.request_frame(8, 1, "client", asked), 4)

        def operation(coordinator: GroupCoordinator, now: int, asker: Any) -> Any:
            return coordinator.offset_commit(now, CALLER, 8, request, asker)

        response = await self._change(group, operation)
        if not isinstance(response, AllCommitted):
            _check(each.error_code for topic in response.topics for each in topic.partitions)

    async def delete(self, group: str, partitions: list[int]) -> None:
        """Raises NotDone."""
        topic = OffsetDeleteRequestTopic(TOPIC, tuple(map(OffsetDeleteRequestPartition, partitions)))
        request = OffsetDeleteRequest(group_id=group, topics=(topic,))

        def operation(coordinator: GroupCoordinator, now: int, asker: Any) -> Any:
            return coordinator.offset_delete(now, CALLER, 0, request, asker)

        response = await self._change(group, operation, self.stores.not_deletable)
        _check([response.error_code, *(each.error_code for topic in response.topics for each in topic.partitions)])

    async def delete_group(self, group: str) -> None:
        """Raises NotDone."""

        def operation(coordinator: GroupCoordinator, now: int, asker: Any) -> Any:
            return coordinator.delete_group(now, CALLER, group, asker)

        _check([(await self._change(group, operation, self.stores.not_deletable)).error_code])

    async def _change(self, group: str, operation: Any, looks: _Looks | None = None) -> Any:
        """``looks``: what is asked before in any case."""
        whose = await self._whose(group)
        if whose is Whose.SERVED:
            return _answered(await decide(self.runtime, group, operation))
        if looks is not None or not self.stores.is_ready(group):
            _refuse(await (looks or self.stores.not_ready)([group]))
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.runtime.submit(
            self.runtime.partition_of(group), operation, _Held(told, partial(self.stores.after, [group]))
        )
        response, after = await told
        if after is not None and await after:
            raise NotDone("it is not where else it has to be")
        return _answered(response)

    async def _whose(self, group: str) -> Whose:
        """Raises NotDone where it is not served."""
        if self.placements.of(group) is Whose.UNKNOWN:
            await self.first_contact.find_out(group, CLASSIC)
        whose = self.placements.of(group)
        if whose not in SERVED:
            raise NotDone(whose)
        return whose

    async def fetch(self, group: str) -> Offsets:
        """Raises NotDone."""
        whose = await self._whose(group)
        if whose is Whose.SERVED_WITH_STORES:
            _refuse(await self.stores.not_ready([group]))
        ticket: OwnTicket[Any] = OwnTicket()
        request = OffsetFetchRequestGroup(group_id=group, topics=None)
        self.runtime.ask(self.runtime.partition_of(group), lambda it: it.offset_fetch(request), ticket)
        found = _answered(await ticket.answered)
        return {each.partition_index: each.committed_offset for topic in found.topics for each in topic.partitions}


class _Held:
    """A ticket: what else has to be waited for is known when the answer is."""

    def __init__(self, told: asyncio.Future[Any], after: Any) -> None:
        self._told = told
        self._after = after

    def answer(self, response: Any) -> None:
        if not self._told.done():
            self._told.set_result((response, self._after()))

    def fail(self, error: ErrorCode) -> None:
        if not self._told.done():
            self._told.set_result((error, None))


def _refuse(refused: dict[str, ErrorCode]) -> None:
    for error in refused.values():
        raise NotDone(error)


def _answered(response: Any) -> Any:
    if isinstance(response, ErrorCode) and response is not ErrorCode.NONE:
        raise NotDone(response)
    return response


def _check(errors: Any) -> None:
    for each in errors:
        if each is not ErrorCode.NONE and each != 0:
            raise NotDone(ErrorCode(each))
