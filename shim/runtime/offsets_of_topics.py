"""For which topics there are offsets, in all partitions; and their deletion, when a topic is gone."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from protocol.errors import ErrorCode
from shim.coordinator import Asker, GroupCoordinator, Outcome, TopicDeletion, TopicDeletionStep
from shim.runtime.own_ticket import OwnTicket
from shim.runtime.runtime import Runtime

log = logging.getLogger(__name__)

# So much of the loop's time a deletion takes at most, while others wait for it: the topic's commits.
_SHARE: Final = 0.5
# Where it cannot be done for now.
_RETRY_S: Final = 0.5


class OffsetsOfTopics:
    """For the event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def in_use(self) -> set[str]:
        """The topics for which there are offsets, in the partitions that are served now."""
        topics: set[str] = set()
        for number in range(self._runtime.num_partitions):
            coordinator = self._runtime.coordinator(number)
            if coordinator is not None:
                topics |= coordinator.topics()
                await asyncio.sleep(0)
        return topics

    @property
    def are_all_known(self) -> bool:
        """Whether no partition is being loaded, of which :meth:`in_use` knows nothing."""
        return not self._runtime.unavailable[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    async def delete(self, topic: str) -> int:
        """Delete all offsets for a topic; gives how many there were. They are gone, durably, when this returns.

        It waits for partitions that are being loaded, or catch up with the cluster's log. One that cannot be served is
        left out, until a restart, as it is itself; and those of other processes, which find out for themselves.
        """
        deleted = 0
        for number in range(self._runtime.num_partitions):
            deleted += await self._delete_in(number, topic)
        return deleted

    async def _delete_in(self, number: int, topic: str) -> int:
        deletion = _Deletion(topic)
        offsets = 0
        while True:
            coordinator = self._runtime.coordinator(number)
            if coordinator is not None and coordinator.is_behind:
                # What is yet to be read of the cluster's log may be offsets of that topic.
                await asyncio.sleep(_RETRY_S)
                continue
            ticket: OwnTicket[TopicDeletionStep] = OwnTicket()
            begun = time.perf_counter()
            self._runtime.submit(number, deletion.step, ticket)
            await asyncio.sleep((time.perf_counter() - begun) / _SHARE)
            answer = await ticket.answered
            if isinstance(answer, TopicDeletionStep):
                offsets += answer.offsets
                if not answer.more:
                    return offsets
                continue
            if answer is ErrorCode.COORDINATOR_NOT_AVAILABLE and self._runtime.coordinator(number) is None:
                name = self._runtime.name_of(number)
                log.warning("%s is not served: offsets for %s are not deleted there", name, topic)
                return offsets
            if self._runtime.is_owned_elsewhere(number):
                return offsets
            # It is being loaded, or the disk hangs, or the write has failed, and nobody knows what of it is there.
            deletion = _Deletion(topic)
            await asyncio.sleep(_RETRY_S)


class _Deletion:
    """In one partition, begun anew where that has been read back."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._of: GroupCoordinator | None = None
        self._deletion: TopicDeletion | None = None

    def step(self, coordinator: GroupCoordinator, now: int, ticket: Asker) -> Outcome:
        if self._deletion is None or self._of is not coordinator:
            self._of, self._deletion = coordinator, coordinator.delete_topic_offsets(self._topic)
        return self._deletion.step(now, ticket)
