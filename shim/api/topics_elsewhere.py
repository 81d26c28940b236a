"""Topics of which a client is about to be told: the other processes that have offsets partitions look at them, too,
before it is, as each finds out for itself that one was made anew. Otherwise one that has not yet would go on to serve
the old topic's offsets, and delete those that it is given for the new one with them.

Between processes this is a Metadata request (key 3) that goes no further than to them, with the ids that the client is
about to be told, or in a version that has none. The response has those that nobody may be told of yet. Where a client
is about to be told that they were deleted, the request is for none to be made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from protocol.apis import ApiKey
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.metadata import API, MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.metadata import MetadataResponseTopic as Topic
from protocol.wire import ZERO_UUID
from shim.api.call import SIZE_FIELD, Call, Served, Services
from shim.api.route import Route
from shim.following import Topics
from shim.forwarding import Broken, Failed, Peer, Peers, Request

VERSIONS: Final = (9, 12)
FIRST_WITH_IDS: Final = 10

_ANSWERED_WITHIN_SECONDS: Final = 3.0
_MOST_KEPT: Final = 100_000
"""Topics that all others have looked at."""


async def looked_at(topics: Topics, ids: Mapping[str, bytes], *, has_ids: bool) -> set[str]:
    """By this process. Gives those of which no broker has shown it that id."""
    if not has_ids:
        await topics.look_at(ids)
        return set()
    strange = topics.strange(ids)
    return await topics.look_at(strange) if strange else set()


class TopicsElsewhere:
    """For the event loop."""

    def __init__(self, peers: Peers, num_partitions: int) -> None:
        self._peers = peers
        self._num_partitions = num_partitions
        self._seen: dict[str, bytes] = {}
        self._by: set[Peer | None] = set()
        """All of them have looked at these."""

    async def looked_at(self, ids: Mapping[str, bytes], *, has_ids: bool) -> set[str]:
        """By all others that have partitions. Gives those of which no broker has shown one of them that id. Who does
        not answer is passed over, and asked again the next time: it may be gone, and clients are to be told where
        topics are."""
        owners = self._owners()
        if owners != self._by or len(self._seen) > _MOST_KEPT:
            self._by = owners
            self._seen.clear()
        if has_ids:
            ids = {name: its for name, its in ids.items() if its not in (ZERO_UUID, self._seen.get(name))}
        if not ids:
            return set()
        found = await self._asked(ids, VERSIONS[has_ids], deleted=False)
        unseen = {name for names in found for name in names or ()}
        if has_ids and None not in found and owners == self._by:
            self._seen.update((name, its) for name, its in ids.items() if name not in unseen)
        return unseen

    async def looked_for(self, deleted: Iterable[str]) -> None:
        """By all others that have partitions: no broker that answers has these any more."""
        await self._asked(dict.fromkeys(deleted, ZERO_UUID), VERSIONS[0], deleted=True)

    def _owners(self) -> set[Peer | None]:
        return {self._peers.owner_of(number) for number in range(self._num_partitions)} - {None}

    async def _asked(self, ids: Mapping[str, bytes], version: int, *, deleted: bool) -> Sequence[set[str] | None]:
        topics = tuple(MetadataRequestTopic(its, name) for name, its in ids.items())
        frame = API.request_frame(version, 0, "", MetadataRequest(topics, allow_auto_topic_creation=not deleted))
        return await asyncio.gather(*(self._answer(owner, version, frame, ids) for owner in self._owners()))

    async def _answer(self, owner: Peer, version: int, frame: bytes, ids: Mapping[str, bytes]) -> set[str] | None:
        """None where it does not answer."""
        answer = _Answer()
        forwarded = self._peers.forward(owner, Request(frame, "", ""), answer)
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_SECONDS):
                _, response = API.parse_response(version, await answer.frame, SIZE_FIELD)
        except DecodeError:
            self._peers.misanswered(owner)
            return None
        except (Failed, TimeoutError):
            return None
        finally:
            if forwarded is not None:
                forwarded.withdraw()
        return ids.keys() & {topic.name for topic in response.topics}


class _Answer:
    """See :class:`shim.forwarding.Asked`."""

    def __init__(self) -> None:
        self.frame: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def ask(self, question: int, frame: bytes, *, prompt: bool) -> None:
        raise Broken("it asks a broker in the name of a client that there is not")

    def begun(self) -> None:
        return

    def answered(self, frame: bytes) -> None:
        if not self.frame.done():
            self.frame.set_result(frame)

    def failed(self, error: ErrorCode) -> None:
        if not self.frame.done():
            self.frame.set_exception(Failed(error))


# -- where another process asks


async def _handle(services: Services, call: Call[MetadataRequest, MetadataResponse]) -> None:
    ids = {each.name: each.topic_id for each in call.request.topics or () if each.name is not None}
    unseen: set[str] = set()
    if call.request.allow_auto_topic_creation:
        unseen = await looked_at(services.topics, ids, has_ids=call.version >= FIRST_WITH_IDS)
    else:
        await services.topics.look_for(services.topics.of_concern(dict.fromkeys(ids)))
    call.answer(_not_now(unseen, ErrorCode.LEADER_NOT_AVAILABLE))


def _failure(call: Call[MetadataRequest, MetadataResponse], error: ErrorCode) -> MetadataResponse:
    return _not_now([each.name for each in call.request.topics or () if each.name is not None], error)


def _not_now(names: Iterable[str], error: ErrorCode) -> MetadataResponse:
    return MetadataResponse(topics=tuple(Topic(error, name) for name in names))


def _codes(_: Any) -> Iterable[int]:
    """What others may not tell their clients yet is no error here."""
    return ()


_LOOK: Final = Route(ApiKey(API.key), *VERSIONS, Served(API, _handle, _failure, _codes))

LOOKS: Final[Mapping[int, Route]] = {
    _LOOK.key << 16 | version: _LOOK for version in range(VERSIONS[0], VERSIONS[1] + 1)
}
"""What processes ask each other, as in :data:`shim.api.table.ROUTES`."""
