"""Whom to ask about a group: which broker coordinates it, and which brokers answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, Self, TypeVar

from protocol.messages import find_coordinator
from protocol.partition import OFFSETS_TOPIC
from shim.offsets.cluster.brokers import (
    RETRY_SECONDS,
    BrokerRefused,
    Brokers,
    LeadersUnknown,
    passes,
    until_ready,
)
from shim.offsets.cluster.leaders import OffsetsLeaders
from shim.upstream.errors import UpstreamError

GROUPS_A_REQUEST: Final = 50

_NEXT_AFTER_S: Final = 1.0
"""A broker that has not said within that time who coordinates a group may hang: another one is asked."""

_JUST_NOW_S: Final = 0.05
"""In this turn of the loop, or the one before."""

_NEWEST_FIND: Final = 6
_MANY_KEYS_SINCE: Final = 4

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Deadline(NamedTuple):
    """When brokers are to have answered, by the loop's time, and how long from when they were asked that is."""

    at: float
    seconds: float

    @classmethod
    def within(cls, seconds: float) -> Self:
        return cls(asyncio.get_running_loop().time() + seconds, seconds)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


class Coordinators:
    """Of the groups of one cluster, as brokers have told them."""

    def __init__(self, brokers: Brokers, patience_seconds: float) -> None:
        """``patience_seconds``: how long what passes by itself, at the brokers, is waited for."""
        self._brokers = brokers
        self._patience_seconds = patience_seconds
        self.leaders: Final = OffsetsLeaders(brokers)
        self._known: dict[str, int] = {}
        self._times_asked = 0
        self._given_up_at: dict[int, float] = {}
        """When it was last waited in vain for others, after that broker had answered; of the loop's time."""
        self._silent: set[int] = set()
        """Brokers that have not answered when they were asked last: others are asked first."""

    def forget(self, group: str) -> None:
        """Something about it has failed: another broker may coordinate it by now."""
        self._known.pop(group, None)

    def learn(self, group: str, node_id: int) -> None:
        """That broker says that it does."""
        self._known[group] = node_id

    async def not_believed(self, node_id: int, groups: Collection[str]) -> dict[str, BrokerRefused]:
        """See :meth:`OffsetsLeaders.refused`. To be asked of whatever a broker tells that others go by, once it has: it
        may have been held up with the question, and be replaced. Raises UpstreamError."""
        try:
            refused = await self.leaders.refused(node_id, groups)
        except asyncio.CancelledError:
            self._given_up_at[node_id] = asyncio.get_running_loop().time()
            raise
        for group in refused:
            self.forget(group)
        return refused

    @asynccontextmanager
    async def answering(self, node_id: int, deadline: Deadline | None) -> AsyncIterator[None]:
        """Raises UpstreamError, too, where it takes longer; who has not answered last is silent."""
        try:
            async with asyncio.timeout_at(None if deadline is None else deadline.at):
                yield
        except TimeoutError:
            if self._given_up_at.get(node_id, -math.inf) > asyncio.get_running_loop().time() - _JUST_NOW_S:
                self._silent.discard(node_id)
                what = f"who leads {OFFSETS_TOPIC} is not known"
                raise LeadersUnknown(f"{what}, as others have not answered in {deadline}") from None
            self._silent.add(node_id)
            raise UpstreamError(f"{self.named(node_id)} has not answered in {deadline}") from None
        except (BrokerRefused, LeadersUnknown):
            self._silent.discard(node_id)
            raise
        except UpstreamError:
            self._silent.add(node_id)
            raise
        self._silent.discard(node_id)

    def named(self, node_id: int) -> str:
        address = self._brokers.addresses.get(node_id)
        return f"broker {node_id}" + ("" if address is None else f" at {address}")

    async def at_once(
        self,
        groups: Collection[str],
        ask: Callable[[int, Sequence[str]], Awaitable[Mapping[str, Answer | UpstreamError]]],
        within_seconds: float,
    ) -> dict[str, Answer | UpstreamError]:
        """What ``ask`` gives of the groups of one broker, of all brokers at once; or why there is no answer, which
        names a broker that has not answered in that time."""
        loop, deadline = asyncio.get_running_loop(), Deadline.within(within_seconds)
        found: dict[str, Answer | UpstreamError] = {}
        left = list(groups)
        while left:
            found |= await self._asked_once(left, ask, deadline)
            failed = [group for group in left if isinstance(found[group], UpstreamError)]
            for group in failed:
                self.forget(group)
            # What is left of the time is less than most brokers take that have not answered.
            left = [group for group in failed if isinstance(found[group], BrokerRefused) and passes(found[group])]
            if loop.time() + RETRY_SECONDS >= deadline.at:
                break
            if left:
                await asyncio.sleep(RETRY_SECONDS)  # a broker tells nobody when it is ready
        return found

    async def _asked_once(
        self,
        groups: Sequence[str],
        ask: Callable[[int, Sequence[str]], Awaitable[Mapping[str, Answer | UpstreamError]]],
        deadline: Deadline,
    ) -> dict[str, Answer | UpstreamError]:
        async def at(node_id: int, its: Sequence[str]) -> Mapping[str, Answer | UpstreamError]:
            try:
                async with self.answering(node_id, deadline):
                    return await ask(node_id, its)
            except UpstreamError as error:
                return dict.fromkeys(its, error)

        try:
            async with asyncio.timeout_at(deadline.at):
                coordinators = await self._of(groups)
        except TimeoutError:
            return dict.fromkeys(groups, UpstreamError(f"the cluster has not answered in {deadline}"))
        except UpstreamError as error:
            return dict.fromkeys(groups, error)
        found: dict[str, Answer | UpstreamError] = {}
        by_node: dict[int, list[str]] = {}
        for group, coordinator in coordinators.items():
            if isinstance(coordinator, UpstreamError):
                found[group] = coordinator
            else:
                by_node.setdefault(coordinator, []).append(group)
        for answers in await asyncio.gather(*(at(node_id, its) for node_id, its in by_node.items())):
            found |= answers
        return found

    async def of(self, group: str) -> int:
        """Raises UpstreamError, where brokers do not know for as long as there is patience."""
        return (await self.of_each([group]))[group]

    async def of_each(self, groups: Sequence[str]) -> Mapping[str, int]:
        """Likewise, many in a request. Raises as :meth:`of`, of the first one that has none."""
        return await until_ready(partial(self.found, groups), self._patience_seconds)

    async def found(self, groups: Sequence[str]) -> Mapping[str, int]:
        """As :meth:`of_each`, without patience: for who asks again himself."""
        coordinators: dict[str, int] = {}
        for group, coordinator in (await self._of(groups)).items():
            if isinstance(coordinator, UpstreamError):
                raise coordinator
            coordinators[group] = coordinator
        return coordinators

    async def _of(self, groups: Sequence[str]) -> dict[str, int | UpstreamError]:
        """Raises UpstreamError where no broker answers."""
        found: dict[str, int | UpstreamError] = {group: self._known[group] for group in groups if group in self._known}
        for some in slices([group for group in groups if group not in found], GROUPS_A_REQUEST):
            for group, coordinator in (await self._find_all(some)).items():
                found[group] = coordinator
                if not isinstance(coordinator, UpstreamError):
                    self._known[group] = coordinator
        return found

    async def _find_all(self, groups: Sequence[str]) -> dict[str, int | UpstreamError]:
        """As the first broker says that answers: each time another one is asked first, as one that is cut off from the
        controllers tells where they were, and those that were silent at last."""
        node_ids = list(self._brokers.addresses)
        if not node_ids:
            raise UpstreamError("no broker of the cluster is known")
        first = self._times_asked % len(node_ids)
        self._times_asked += 1
        *before, last = sorted((*node_ids[first:], *node_ids[:first]), key=self._silent.__contains__)
        for node_id in before:
            with suppress(UpstreamError):
                async with self.answering(node_id, Deadline.within(_NEXT_AFTER_S)):
                    return await self._found_by(node_id, groups)
        async with self.answering(last, None):
            return await self._found_by(last, groups)

    async def _found_by(self, node_id: int, groups: Sequence[str]) -> dict[str, int | UpstreamError]:
        version = await self._brokers.newest(node_id, find_coordinator.API, at_least=0, at_most=_NEWEST_FIND)
        nothing = UpstreamError(f"{self.named(node_id)}: FindCoordinator is answered with nothing")
        found: dict[str, int | UpstreamError] = dict.fromkeys(groups, nothing)
        if version < _MANY_KEYS_SINCE:
            for group in groups:
                one = find_coordinator.FindCoordinatorRequest(group)
                answer = await self._brokers.ask(node_id, find_coordinator.API, one)
                found[group] = _coordinator_in(answer, group)
            return found
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=tuple(groups))
        answer = await self._brokers.ask(node_id, find_coordinator.API, request)
        return found | {each.key: _coordinator_in(each, each.key) for each in answer.coordinators}


def _coordinator_in(found: Any, group: str) -> int | UpstreamError:
    """``found``: what has error code and node id of its coordinator."""
    if found.error_code:
        return BrokerRefused(found.error_code, f"the coordinator of group {group}")
    node_id: int = found.node_id
    return node_id


def slices(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
