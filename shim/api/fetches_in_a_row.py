"""Offset fetches that follow one another in what a client has sent, answered together.

Who watches many groups does not wait for one answer before asking for the next, nor does who asks again and again.
Nothing is decided in between: so a question that is the one before it, byte for byte, has its answer.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from protocol.errors import DecodeError, EncodeError
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponseGroup
from shim.api.authorization import may_at_once
from shim.api.call import SIZE_FIELD, Connection, OrderedConnection, Services
from shim.api.offset_fetch import API, codes, groups_of, response_of
from shim.api.policies.fetches import fetches_all, needs_of
from shim.migration.hands.placements import Whose

MOST_ASKED_BYTES: Final = 256
"""Of a request; a larger one is taken by itself."""

KEPT: Final = 1024
"""Questions, with the last answer to each."""

KEPT_BYTES: Final = 256
"""Of such an answer; a longer one is encoded each time. Decoded, it is some ten times as large, and kept beside."""

MOST_BYTES: Final = 16_384
"""Of answers; from there on it is looked first whether the client reads."""

_HEAD: Final = Struct(">hhi")  # api key, version, correlation id
# Where in a frame, request or response, what begins.
_KIND, _REQUEST_ID, _QUESTION = 4, 8, 12
_RESPONSE_ID, _RESPONSE_REST = 4, 8


def several(services: Services, connection: OrderedConnection, data: bytes, position: int, most: int) -> int:
    """Up to the first that has to wait for something, or is another request, or is not all there."""
    kind = data[position + _KIND : position + _REQUEST_ID]
    version = int.from_bytes(kind[2:], "big")
    end, count, total = position, 0, 0
    asked: bytes | None = None
    answer = before = behind = b""
    parts: list[bytes] = []
    while count < most and total < MOST_BYTES and data[end + _KIND : end + _REQUEST_ID] == kind:
        size = int.from_bytes(data[end : end + SIZE_FIELD], "big", signed=True)
        stop = end + SIZE_FIELD + size
        if not _QUESTION - SIZE_FIELD <= size <= MOST_ASKED_BYTES or stop > len(data):
            break
        question = data[end + _QUESTION : stop]
        if question != asked:
            found = _answer(services, connection, version, question)
            if found is None:
                break
            asked, answer = question, found
            before, behind = answer[:_RESPONSE_ID], answer[_RESPONSE_REST:]
        parts += (before, data[end + _REQUEST_ID : end + _QUESTION], behind)
        count += 1
        total += len(answer)
        end = stop
    if count:
        connection.place(count)(b"".join(parts))
    return end


def _answer(services: Services, connection: Connection, version: int, question: bytes) -> bytes | None:
    """The response's frame; None where the request is to be taken by itself, and why does not matter here."""
    asked = _ASKED.get((version, question)) or _parsed(version, question)
    if asked is None or services.topics.any_in_doubt:
        return None
    group = asked.group
    if not services.authorizer.absent and (
        fetches_all((group,)) or not may_at_once(services, connection, needs_of((group,)))
    ):
        return None
    coordinator = services.runtime.durable(services.runtime.partition_of(group.group_id))
    if coordinator is None or services.placements.of(group.group_id) is not Whose.SERVED:
        return None
    found = coordinator.offset_fetch(group, require_stable=asked.request.require_stable)
    if found == asked.found:
        return asked.frame
    response = response_of(version, asked.request, (found,))
    if any(codes(response)):
        return None  # each is counted
    try:
        frame = API.response_frame(version, 0, response)
    except EncodeError:
        return None
    if len(frame) <= KEPT_BYTES:
        asked.found, asked.frame = found, frame
    return frame


class _Asked:
    """A question for the offsets of one group, and how the last answer to it was encoded."""

    __slots__ = ("found", "frame", "group", "request")

    def __init__(self, request: OffsetFetchRequest, group: OffsetFetchRequestGroup) -> None:
        self.request = request
        self.group = group
        self.found: OffsetFetchResponseGroup | None = None
        self.frame = b""


_ASKED: Final[dict[tuple[int, bytes], _Asked]] = {}


def _parsed(version: int, question: bytes) -> _Asked | None:
    try:
        _, request = API.parse_request(version, _HEAD.pack(API.key, version, 0) + question)
    except DecodeError:
        return None
    groups = groups_of(version, request)
    if len(groups) != 1:
        return None
    asked = _Asked(request, groups[0])
    if len(_ASKED) >= KEPT:
        _ASKED.clear()
    _ASKED[version, question] = asked
    return asked
