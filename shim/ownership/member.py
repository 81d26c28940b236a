"""A member of a consumer group of the cluster, by the classic protocol: static (KIP-345), so that one that is started
anew has its place again without the others' having to wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import heartbeat, join_group, leave_group, sync_group
from protocol.own.shim_group import PROTOCOL_TYPE
from shim.config import HostPort, Settings
from shim.logged_once import LoggedOnce
from shim.upstream import Cluster, UpstreamError
from shim.upstream.coordinators import Coordinators, KeyType

log = logging.getLogger(__name__)

_STATIC: Final = {join_group.API.key: 5, sync_group.API.key: 3, heartbeat.API.key: 3, leave_group.API.key: 3}
"""The first version of each that knows static members (Kafka 2.3)."""
_PROTOCOL: Final = "share"  # there is one
_AGAIN_SECONDS: Final = 0.2
_LEAVES_WITHIN_SECONDS: Final = 2.0

_JOINS_AGAIN: Final = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
)
_COMES_UP: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""The coordinator is being found, or loads: at a first start the cluster has to make the topic of its offsets first."""
_COMES_UP_WITHIN_SECONDS: Final = 10.0
_AWAY: Final = "away"
"""In an outage each broker that is asked next has words of its own for it, five times a second."""
_STAYS: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    }
)
"""Until somebody changes the brokers' configuration, or ours. Whatever else they answer is no reason to end a shim that
serves."""


class InstanceFenced(Exception):
    """Somebody else is a member under the same group.instance.id."""


class GroupTimes(NamedTuple):
    """Milliseconds, as the consumer's settings of these names. Brokers allow no session below
    `group.min.session.timeout.ms`, 6000 by default."""

    heartbeat_interval: int = 500
    session_timeout: int = 6_000
    rebalance_timeout: int = 10_000


class _Refused(UpstreamError):
    """With an error code."""

    def __init__(self, what: str, error: ErrorCode) -> None:
        super().__init__(f"{what}: {error.name}")
        self.error = error


class _Joined(NamedTuple):
    coordinator: HostPort
    member_id: str
    generation: int


class GroupMember:
    """For the event loop."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        group_id: str,
        instance_id: str,
        *,
        metadata: Callable[[], bytes],
        assign: Callable[[Mapping[str, bytes]], Awaitable[bytes]],
        assigned: Callable[[int, bytes], None],
        times: GroupTimes = GroupTimes(),  # noqa: B008  # it is immutable
    ) -> None:
        """``metadata``: what is said of this member, each time that it joins. ``assign``: what all members are told,
        given the metadata of all by their instance ids; asked of the one that leads; it may raise UpstreamError, and
        the members join once more. ``assigned``: called with the generation and what this member was told."""
        self._coordinators = Coordinators(cluster, settings)
        self._group_id = group_id
        self._instance_id = instance_id
        self._metadata = metadata
        self._assign = assign
        self._assigned = assigned
        self._times = times
        self._member_id = ""
        self._joined: _Joined | None = None
        self._checks: list[asyncio.Future[bool]] = []
        self._woken = asyncio.Event()
        self._rejoins = False
        self._trouble = LoggedOnce(log)
        self.is_leader = False
        """Whether it is this one that shares out, by the newest generation that it has joined."""

    async def run(self) -> None:
        """Until cancelled. Raises InstanceFenced, and UpstreamError where brokers refuse what does not pass."""
        comes_up_until = time.monotonic() + _COMES_UP_WITHIN_SECONDS
        try:
            while True:
                try:
                    joined = await self._join()
                    comes_up_until = 0.0
                    self._trouble.went_well(self._what)
                    self._joined = joined
                    await self._stay(joined)
                except _Refused as refused:
                    self._over()
                    if refused.error is ErrorCode.UNKNOWN_MEMBER_ID:
                        self._member_id = ""
                    if refused.error in _JOINS_AGAIN:
                        log.info("%s: joining again", refused)
                        continue
                    if refused.error in _STAYS:
                        raise
                    passes = refused.error in _COMES_UP
                    comes_up = passes and time.monotonic() < comes_up_until
                    level, kind = logging.INFO if comes_up else logging.WARNING, _AWAY if passes else None
                    self._trouble.failed(self._what, refused, level, kind=kind)
                    await asyncio.sleep(_AGAIN_SECONDS)  # a coordinator tells nobody when it is there
                except UpstreamError as error:
                    self._over()
                    self._trouble.failed(self._what, error, kind=_AWAY)
                    await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            self._over()

    @property
    def _what(self) -> str:
        return f"what partitions are whose is not known from group {self._group_id}"

    @property
    def coordinator(self) -> HostPort | None:
        """The group's, while this one is in a generation."""
        return None if self._joined is None else self._joined.coordinator

    def rejoin(self) -> None:
        """Have everything shared out anew. A broker does so for any member whose metadata has changed since it joined,
        and for the one that leads."""
        self._rejoins = True
        self._woken.set()

    async def confirmed(self, generation: int) -> bool:
        """Whether a heartbeat that is sent from now on is taken in that generation; waits until that is known."""
        if self._joined is None or self._joined.generation != generation:
            return False
        check: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._checks.append(check)
        self._woken.set()
        return await check

    async def leave(self) -> None:
        """After :meth:`run`, as the last thing. The others hear of it with their next heartbeats; where no broker can
        be told in time, when this one's session has timed out."""
        identity = leave_group.MemberIdentity(self._member_id, self._instance_id)
        request = leave_group.LeaveGroupRequest(self._group_id, members=(identity,))
        at_least = _STATIC[leave_group.API.key]
        try:
            async with asyncio.timeout(_LEAVES_WITHIN_SECONDS):
                if self._member_id:
                    await self._coordinators.ask(await self._coordinator(), leave_group.API, request, at_least=at_least)
        except (TimeoutError, UpstreamError) as error:
            log.info("group %s is not left, and waits for this member: %s", self._group_id, error)
        finally:
            self._coordinators.close()

    # -- into a generation

    async def _coordinator(self) -> HostPort:
        error, found = await self._coordinators.of(self._group_id, KeyType.GROUP)
        if found is None:
            raise _Refused(f"FindCoordinator of {self._group_id}", error)
        return found

    async def _join(self) -> _Joined:
        coordinator, times = await self._coordinator(), self._times
        self._rejoins = False
        request = join_group.JoinGroupRequest(
            self._group_id,
            times.session_timeout,
            times.rebalance_timeout,
            self._member_id,
            self._instance_id,
            PROTOCOL_TYPE,
            (join_group.JoinGroupRequestProtocol(_PROTOCOL, self._metadata()),),
        )
        # It is answered when all others have joined, too, or are not waited for any more.
        patience = (times.rebalance_timeout + times.session_timeout) / 1000
        answer = await self._coordinators.ask(
            coordinator,
            join_group.API,
            request,
            at_least=_STATIC[join_group.API.key],
            once=True,
            within_seconds=patience,
        )
        self._check("JoinGroup", answer.error_code)
        self._member_id = answer.member_id
        self.is_leader = answer.leader == answer.member_id
        shared: tuple[sync_group.SyncGroupRequestAssignment, ...] = ()
        if self.is_leader and not answer.skip_assignment:
            told = await self._assign(
                {each.group_instance_id or each.member_id: each.metadata for each in answer.members}
            )
            shared = tuple(sync_group.SyncGroupRequestAssignment(each.member_id, told) for each in answer.members)
        sync = sync_group.SyncGroupRequest(
            *(self._group_id, answer.generation_id, answer.member_id, self._instance_id),
            *(PROTOCOL_TYPE, _PROTOCOL, shared),
        )
        synced = await self._coordinators.ask(
            coordinator, sync_group.API, sync, at_least=_STATIC[sync_group.API.key], once=True, within_seconds=patience
        )
        self._check("SyncGroup", synced.error_code)
        self._assigned(answer.generation_id, synced.assignment)
        return _Joined(coordinator, answer.member_id, answer.generation_id)

    # -- as long as it lasts

    async def _stay(self, joined: _Joined) -> None:
        """Until it is to be joined anew. Raises UpstreamError."""
        request = heartbeat.HeartbeatRequest(self._group_id, joined.generation, joined.member_id, self._instance_id)
        while not self._rejoins:
            checks, self._checks = self._checks, []
            self._woken.clear()
            try:
                answer = await self._coordinators.ask(
                    joined.coordinator, heartbeat.API, request, at_least=_STATIC[heartbeat.API.key]
                )
                self._check("Heartbeat", answer.error_code)
            except BaseException:
                self._checks += checks
                raise
            for check in checks:
                _tell(check, taken=True)
            try:
                async with asyncio.timeout(self._times.heartbeat_interval / 1000):
                    await self._woken.wait()
            except TimeoutError:
                continue
        self._over()

    def _over(self) -> None:
        """Nobody is told any more that the generation is still the one."""
        self._joined = None
        checks, self._checks = self._checks, []
        for check in checks:
            _tell(check, taken=False)

    def _check(self, what: str, code: int) -> None:
        """Raises _Refused, InstanceFenced."""
        error = ErrorCode.for_code(code)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            raise InstanceFenced(f"group {self._group_id} has another member {self._instance_id}")
        if error is not ErrorCode.NONE:
            raise _Refused(f"{what} of group {self._group_id}", error)


def _tell(check: asyncio.Future[bool], *, taken: bool) -> None:
    if not check.done():  # whoever waits may have gone away
        check.set_result(taken)
