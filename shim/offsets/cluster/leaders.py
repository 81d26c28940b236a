"""Who leads the partitions of the cluster's offsets by now: no other broker is believed of their groups.

One that was deposed may not know it, as it is cut off from the controllers or was held up: it goes on to say that it
coordinates its groups, and answers with offsets that are old.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import metadata
from protocol.own.position import UNKNOWN_EPOCH
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.wire import ZERO_UUID
from shim.config import HostPort
from shim.logged_once import LoggedOnce
from shim.offsets.cluster.brokers import BrokerRefused, Brokers, LeadersUnknown
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import Leader

log = logging.getLogger(__name__)

_BELIEVED_SECONDS: Final = 1.0
"""So long one look serves for whatever is answered."""
_ANSWERED_WITHIN_SECONDS: Final = 2.5
"""More than a kept connection has patience; less than the 3 s that who looks at groups waits for their coordinators,
which would be blamed else."""
_OTHERS_WITHIN_SECONDS: Final = 0.5
"""Once most brokers have answered the others are waited for no longer, as they may hang;"""
_LATE_WITHIN_SECONDS: Final = 0.1
"""and this long, where they were late the last time."""

# An older request makes the topic, as it should be: a client's FindCoordinator does, too.
_WITHOUT_MAKING: Final = 4

_NOT_YET: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
"""Of the topic as a whole."""
_UNKNOWN: Final = "who leads {} is not known"


class _Look(NamedTuple):
    """``leaders``: by partition; None where the cluster does not show them to the shim."""

    began_at: float
    leaders: Mapping[int, Leader] | None

    def leader(self, group: str) -> tuple[int, Leader]:
        """With the group's partition, -1 where there is none yet."""
        if not self.leaders:
            return -1, Leader()
        partition = partition_for(group, 1 + max(self.leaders))
        return partition, self.leaders.get(partition, Leader())

    def is_led_by(self, node_id: int, group: str) -> bool:
        return self.leaders is None or self.leader(group)[1].node_id == node_id


class OffsetsLeaders:
    """For the event loop. As most brokers say, by the newest leader epoch that any of them tells: of those that answer
    one alone may be the one that is cut off."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._last = _Look(-math.inf, {})
        self._looking: asyncio.Task[None] | None = None
        self._waiting = 0
        self._late: set[int] = set()
        self._trouble = LoggedOnce(log)
        self._told_of_rights = False

    async def partitions(self) -> int:
        """How many the topic has. Raises UpstreamError."""
        look = await self._seen_since(asyncio.get_running_loop().time() - _BELIEVED_SECONDS)
        if look.leaders is None:
            raise BrokerRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {OFFSETS_TOPIC}")
        if not look.leaders:
            raise BrokerRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {OFFSETS_TOPIC}")
        return 1 + max(look.leaders)

    async def refused(self, node_id: int, groups: Collection[str]) -> dict[str, BrokerRefused]:
        """What that broker has answered by now of these groups is not to be believed of those that this gives: another
        one leads their partition, or nobody. Raises UpstreamError where that cannot be found out."""
        if not groups:  # it has refused them all, which is told whoever leads
            return {}
        now = asyncio.get_running_loop().time()
        look = await self._seen_since(now - _BELIEVED_SECONDS)
        if not all(look.is_led_by(node_id, group) for group in groups):
            look = await self._seen_since(now)  # it may have become the leader since
        refused: dict[str, BrokerRefused] = {}
        for group in groups:
            if not look.is_led_by(node_id, group):
                refused[group] = BrokerRefused(ErrorCode.NOT_COORDINATOR, f"group {group}: {_why(*look.leader(group))}")
        for error in refused.values():
            self._trouble.failed(_not_believed(node_id), error, kind="deposed")
        return refused

    async def _seen_since(self, moment: float) -> _Look:
        """By a look that has begun since then."""
        while self._last.began_at < moment:
            if self._looking is None or self._looking.done():
                look = self._look_again()
                self._looking = asyncio.get_running_loop().create_task(look, name=f"leaders of {OFFSETS_TOPIC}")
            self._waiting += 1
            try:
                await asyncio.shield(self._looking)  # others may wait for it, too
            finally:
                self._waiting -= 1
                if not self._waiting and self._looking is not None:
                    self._looking.cancel()  # nobody does any more
                    self._looking = None
        return self._last

    async def _look_again(self) -> None:
        what = _UNKNOWN.format(OFFSETS_TOPIC)
        try:
            self._last = await self._look()
        except UpstreamError as error:
            self._trouble.failed(what, error)
            raise
        self._trouble.went_well(what)

    async def _look(self) -> _Look:
        began_at = asyncio.get_running_loop().time()
        addresses = dict(self._brokers.addresses)  # one may leave meanwhile
        topics, failures = await self._asked(addresses)
        if 2 * len(topics) <= len(addresses) or not addresses:
            why = "; ".join((f"{len(topics)} of {len(addresses)} brokers have answered, and most must", *failures))
            raise LeadersUnknown(f"{OFFSETS_TOPIC}: {why}")
        its_id = _id_by_most(topics.values(), len(addresses))
        shown = {
            node_id: {each.partition_index: Leader(each.leader_id, each.leader_epoch) for each in topic.partitions}
            for node_id, topic in topics.items()
            if topic.error_code == ErrorCode.NONE and topic.topic_id in (its_id, ZERO_UUID)
        }
        if 2 * len(shown) <= len(addresses):
            codes = {topic.error_code for topic in topics.values()} - {ErrorCode.NONE, *_NOT_YET}
            if ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes:
                self._tell_of_rights()
                return _Look(began_at, None)
            if codes:
                raise BrokerRefused(codes.pop(), f"topic {OFFSETS_TOPIC}")
            return _Look(began_at, {})
        partitions = {number for leaders in shown.values() for number in leaders}
        newest = {
            number: _newest([leaders[number] for leaders in shown.values() if number in leaders], len(addresses))
            for number in partitions
        }
        for node_id, leaders in shown.items():
            if all(leaders.get(number, Leader()).node_id == leader.node_id for number, leader in newest.items()):
                self._trouble.went_well(_not_believed(node_id))
        return _Look(began_at, newest)

    async def _asked(
        self, addresses: Mapping[int, HostPort]
    ) -> tuple[dict[int, metadata.MetadataResponseTopic], list[str]]:
        """What each of them says that answers in time, and what others have failed of."""
        loop = asyncio.get_running_loop()
        asked = {loop.create_task(self._ask(node_id)): node_id for node_id in addresses}
        waiting, until = set(asked), loop.time() + _ANSWERED_WITHIN_SECONDS
        topics: dict[int, metadata.MetadataResponseTopic] = {}
        failures: list[str] = []
        try:
            while waiting and (seconds := until - loop.time()) > 0:
                done, waiting = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._late.discard(asked[task])
                    try:
                        topics[asked[task]] = task.result()
                    except UpstreamError as error:
                        failures.append(str(error))
                if 2 * len(topics) > len(asked):
                    all_late = self._late.issuperset(asked[task] for task in waiting)
                    until = min(until, loop.time() + (_LATE_WITHIN_SECONDS if all_late else _OTHERS_WITHIN_SECONDS))
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        late = sorted(asked[task] for task in waiting)
        self._late.update(late)
        failures += [f"broker {node_id} at {addresses[node_id]} has not" for node_id in late]
        return topics, sorted(failures)

    async def _ask(self, node_id: int) -> metadata.MetadataResponseTopic:
        newest = metadata.API.versions[1]
        version = await self._brokers.newest(node_id, metadata.API, at_least=1, at_most=newest)
        wanted = (metadata.MetadataRequestTopic(name=OFFSETS_TOPIC),)
        request = metadata.MetadataRequest(wanted, allow_auto_topic_creation=version < _WITHOUT_MAKING)
        answer = await self._brokers.ask(node_id, metadata.API, request, version=version)
        for topic in answer.topics:
            if topic.name == OFFSETS_TOPIC:
                return topic
        raise UpstreamError(f"broker {node_id}: Metadata of {OFFSETS_TOPIC} is answered with nothing")

    def _tell_of_rights(self) -> None:
        if not self._told_of_rights:
            self._told_of_rights = True
            log.warning(
                "%s may not be described: what a broker tells of groups is believed, though another one may coordinate "
                "them by now; allow the principal Describe on that topic",
                OFFSETS_TOPIC,
            )


def _id_by_most(topics: Iterable[metadata.MetadataResponseTopic], brokers: int) -> bytes:
    """Made anew the topic has another one, and its epochs begin again: those of before would be the newest. ZERO_UUID
    where no one is told by most of those that tell any, as brokers before 2.8 do not."""
    ids = Counter(topic.topic_id for topic in topics if topic.error_code == ErrorCode.NONE)
    del ids[ZERO_UUID]
    if len(ids) < 2:
        return next(iter(ids), ZERO_UUID)
    ((topic_id, count),) = ids.most_common(1)
    return topic_id if 2 * count > brokers else ZERO_UUID


def _newest(told: Collection[Leader], brokers: int) -> Leader:
    """Brokers before 2.1 tell no epochs: where one of them is among these that leader counts which most of all brokers
    name, with an epoch or without."""
    if all(leader.epoch > UNKNOWN_EPOCH for leader in told):
        return max(told, key=lambda leader: (leader.epoch, leader.node_id))
    ((node_id, count),) = Counter(leader.node_id for leader in told).most_common(1)
    return Leader(node_id) if 2 * count > brokers else Leader()


def _why(partition: int, leader: Leader) -> str:
    if partition < 0:
        return f"there is no topic {OFFSETS_TOPIC} yet"
    who = "nobody" if leader.node_id < 0 else f"broker {leader.node_id}"
    return f"{who} leads {OFFSETS_TOPIC}-{partition} by now"


def _not_believed(node_id: int) -> str:
    return f"what broker {node_id} tells of groups is not believed"
