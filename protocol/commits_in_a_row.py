"""Plain commits that follow one another in what a client has sent, as one commit of all their offsets.

A client that does not wait for its answers sends many, which are read together. Most of what a commit costs is the same
for one of them and for all. To carry out the offsets of all of them in their order is to carry out each of them, one
right after the other: so that is one request, and its answer is taken apart again.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, NamedTuple, cast

from protocol.commit_rows import (
    FIRST_FLEXIBLE,
    NOT_PLAIN,
    REST_SIZE,
    ROW_SIZE,
    CommitRows,
    plain_request,
    response_to_plain,
)
from protocol.messages.offset_commit import API as CODEC
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

MOST: Final = 64
MOST_ROWS: Final = 4096
"""Of all of them: their records are one record set."""

_FRAME: Final = Struct(">ihhi")  # size, api key, version, correlation id
_SIZE: Final = 4
_SIZE_AND_KIND: Final = 8
_STRIDE: Final = ROW_SIZE + REST_SIZE
_NO_TAGS: Final = b"\x00\x00"  # of the topic, and of the request
_RESPONSE_SIZE: Final = Struct(">i")
_CORRELATION_ID: Final = 4
_RESPONSE_HEAD: Final = _RESPONSE_SIZE.size + _CORRELATION_ID
_PARTITION: Final = range(4)  # where in a row it is

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class CommitsInARow(NamedTuple):
    """``request`` has the offsets of all, in their order, a partition perhaps many times; each has ``rows`` of them.

    ``correlation_ids``: of each its bytes. ``answers``: of each the response's frame behind that, if it is committed;
    all of them are of one size. ``end``: where they end.
    """

    version: int
    client_id: str | None
    request: OffsetCommitRequest
    rows: int
    correlation_ids: list[bytes]
    answers: list[bytes]
    end: int

    def all_committed(self) -> bytes:
        """The frames of the responses when all are."""
        size = _RESPONSE_SIZE.pack(_CORRELATION_ID + len(self.answers[0]))
        parts: list[bytes] = []
        for correlation_id, answer in zip(self.correlation_ids, self.answers, strict=True):
            parts += (size, correlation_id, answer)
        return b"".join(parts)

    def answered(self, response: OffsetCommitResponse) -> bytes:
        """Likewise, when this is the response to ``request``."""
        (topic,) = response.topics
        frames = []
        for number, correlation_id in enumerate(self.correlation_ids):
            partitions = topic.partitions[number * self.rows : (number + 1) * self.rows]
            one = response._replace(topics=(topic._replace(partitions=partitions),))
            number_of = int.from_bytes(correlation_id, "big", signed=True)
            frames.append(CODEC.response_frame(self.version, number_of, one))
        return b"".join(frames)


def commits_in_a_row(data: bytes, pos: int, most: int) -> CommitsInARow | None:
    """Those that follow one another in ``data`` from the frame at ``pos`` on, which is all there, at most so many: by
    the same member for the same topic, with as many partitions. None where these are not two at least.
    """
    size, _, version, _ = _FRAME.unpack_from(data, pos)
    end, stop = pos + _SIZE + size, len(data)
    kind = data[pos : pos + _SIZE_AND_KIND]
    if version < FIRST_FLEXIBLE or most < 2 or data[end : end + _SIZE_AND_KIND] != kind:
        return None
    try:
        header, request = plain_request(version, data[pos:end], _SIZE)
    except NOT_PLAIN:
        return None
    topic = request.topics[0]
    count = cast(CommitRows, topic.partitions).size
    rows_at = end - pos - len(_NO_TAGS) - count * _STRIDE  # in each frame
    if len(request.topics) > 1:
        return None
    names = data[pos + _FRAME.size : pos + rows_at]
    each: list[bytes] = []
    correlation_ids: list[bytes] = []
    most = min(most, MOST, MOST_ROWS // count)
    while len(each) < most and end <= stop and data[pos : pos + _SIZE_AND_KIND] == kind:
        rows = data[pos + rows_at : end - len(_NO_TAGS)]
        if data[pos + _FRAME.size : pos + rows_at] != names or data[end - len(_NO_TAGS) : end] != _NO_TAGS:
            break
        if not _are_plain(rows, count):
            break
        each.append(rows)
        correlation_ids.append(data[pos + _SIZE_AND_KIND : pos + _FRAME.size])
        pos, end = end, end + _SIZE + size
    if len(each) < 2:
        return None
    answers, are_same = _answers(version, request, each, count)
    metadata = "" if each[0][ROW_SIZE] else None
    last = CommitRows(each[-1], _STRIDE, count, metadata) if are_same else None
    several = CommitRows(b"".join(each), _STRIDE, len(each) * count, metadata, last)
    return CommitsInARow(version, header.client_id, _with(request, several), count, correlation_ids, answers, pos)


def _are_plain(rows: bytes, count: int) -> bool:
    """No metadata, which is "" or null for all of them alike, and no tagged fields."""
    metadata = rows[ROW_SIZE]
    if count == 1:
        return metadata <= 1 and not rows[ROW_SIZE + 1]
    return (
        metadata <= 1
        and rows[ROW_SIZE::_STRIDE].count(metadata) == count
        and rows[ROW_SIZE + 1 :: _STRIDE].count(0) == count
    )


def _answers(version: int, request: OffsetCommitRequest, each: list[bytes], count: int) -> tuple[list[bytes], bool]:
    """To each, and whether they are the same, as they are where all have the same partitions."""
    known: dict[bytes, bytes] = {}
    if count == 1 and (first := cast(CommitRows, request.topics[0].partitions)).answer is not None:
        known[each[0][:4]] = first.answer
    answers = []
    for rows in each:
        partitions = rows[:4] if count == 1 else b"".join([rows[place::_STRIDE] for place in _PARTITION])
        answer = known.get(partitions)
        if answer is None:
            one = _with(request, CommitRows(rows, _STRIDE, count, ""))
            answer = known[partitions] = response_to_plain(version, 0, one)[_RESPONSE_HEAD:]
        answers.append(answer)
    return answers, len(known) == 1


def _with(request: OffsetCommitRequest, rows: CommitRows) -> OffsetCommitRequest:
    name, topic_id, _, _ = request.topics[0]
    topic = _new(OffsetCommitRequestTopic, (name, topic_id, rows, ()))
    made: OffsetCommitRequest = _new(OffsetCommitRequest, (*request[:_TOPICS], (topic,), ()))
    return made


_TOPICS: Final = OffsetCommitRequest._fields.index("topics")
