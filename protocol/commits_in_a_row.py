"""Plain commits that follow one another in what a client has sent, as one commit of all their offsets.

A client that does not wait for its answers sends many, which are read together. Most of what a commit costs is the same
for one of them and for all. To carry out the offsets of all of them in their order is to carry out each of them, one
right after the other: so that is one request, and its answer is taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
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

_KEPT: Final = 1024
MOST: Final = 64
MOST_ROWS: Final = 4096
"""Of all of them: their records are one record set."""

_FRAME: Final = Struct(">ihhi")  # size, api key, version, correlation id
_SIZE: Final = 4
_SIZE_AND_KIND: Final = 8
_CORRELATION_ID: Final = 4
_STRIDE: Final = ROW_SIZE + REST_SIZE
_NO_TAGS: Final = b"\x00\x00"  # of the topic, and of the request
_RESPONSE_SIZE: Final = Struct(">i")
_RESPONSE_HEAD: Final = _RESPONSE_SIZE.size + _CORRELATION_ID
_PARTITION: Final = range(4)  # where in a row it is

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class CommitsInARow(NamedTuple):
    """``request`` has the offsets of all, in their order, a partition perhaps many times; each has ``rows`` of them.

    ``correlation_ids``: of each its bytes. ``answers``: of each the response's frame behind that, if it is committed,
    or one where it is the same for all; they are of one size. ``end``: where they end.
    """

    version: int
    client_id: str | None
    request: OffsetCommitRequest
    rows: int
    correlation_ids: Sequence[bytes]
    answers: Sequence[bytes]
    end: int

    def all_committed(self) -> bytes:
        """The frames of the responses when all are."""
        size = _RESPONSE_SIZE.pack(_CORRELATION_ID + len(self.answers[0]))
        if len(self.answers) == 1:
            answer = self.answers[0]
            return size + (answer + size).join(self.correlation_ids) + answer
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


@lru_cache(_KEPT)
def _frame_of(names: int, rows: int) -> Struct:
    """A commit's frame: size and kind, correlation id, so many bytes of names, such rows, the tags."""
    return Struct(f"{_SIZE_AND_KIND}s{_CORRELATION_ID}s{names}s{rows}s{len(_NO_TAGS)}s")


def commits_in_a_row(data: bytes, pos: int, most: int) -> CommitsInARow | None:
    """Those that follow one another in ``data`` from the frame at ``pos`` on, which is all there, at most so many: by
    the same member for the same topic, with as many partitions. None where these are not two at least.
    """
    size, _, version, _ = _FRAME.unpack_from(data, pos)
    size += _SIZE
    second = pos + size
    if (
        version < FIRST_FLEXIBLE
        or most < 2
        or data[second : second + _SIZE_AND_KIND] != data[pos : pos + _SIZE_AND_KIND]
    ):
        return None
    try:
        header, request = plain_request(version, data[pos:second], _SIZE)
    except NOT_PLAIN:
        return None
    if len(request.topics) > 1:
        return None
    count = cast(CommitRows, request.topics[0].partitions).size
    number = min((len(data) - pos) // size, most, MOST, MOST_ROWS // count)
    if number < 2:
        return None
    frame = _frame_of(size - _FRAME.size - count * _STRIDE - len(_NO_TAGS), count * _STRIDE)
    # By columns: what has to be alike is compared for all of them at once.
    kinds, correlation_ids, names, each, ends = zip(*frame.iter_unpack(data[pos : pos + number * size]), strict=True)
    raw = b"".join(each)
    metadata = raw[ROW_SIZE]
    if not (
        kinds.count(kinds[0]) == names.count(names[0]) == ends.count(_NO_TAGS) == number
        and raw[ROW_SIZE::_STRIDE].count(metadata) == number * count
        and raw[ROW_SIZE + 1 :: _STRIDE].count(0) == number * count
    ):
        plain = bytes((metadata, 0)) * count
        first = (kinds[0], names[0], _NO_TAGS, plain)
        rests = [_rests(rows, count) for rows in each]
        number = [*map(first.__eq__, zip(kinds, names, ends, rests, strict=True)), False].index(False)
        if number < 2:
            return None
        correlation_ids, each = correlation_ids[:number], each[:number]
        raw = b"".join(each)
    answers = _answers(version, request, each, count)
    no_metadata = "" if metadata else None
    last = CommitRows(each[-1], _STRIDE, count, no_metadata) if len(answers) == 1 else None
    several = CommitRows(raw, _STRIDE, number * count, no_metadata, last)
    end = pos + number * size
    return CommitsInARow(version, header.client_id, _with(request, several), count, correlation_ids, answers, end)


def _rests(rows: bytes, count: int) -> bytes:
    """What is behind each row."""
    return b"".join([rows[place - REST_SIZE : place] for place in range(_STRIDE, count * _STRIDE + 1, _STRIDE)])


def _answers(version: int, request: OffsetCommitRequest, each: Sequence[bytes], count: int) -> list[bytes]:
    """To each of them, or one where all have the same partitions."""
    if count == 1:
        partitions = [rows[:4] for rows in each]
    else:
        partitions = [b"".join([rows[place::_STRIDE] for place in _PARTITION]) for rows in each]
    known: dict[bytes, bytes] = {}
    first = cast(CommitRows, request.topics[0].partitions)
    if first.known is not None:
        known[partitions[0]] = first.known.answer
    for key, rows in zip(partitions, each, strict=True):
        if key not in known:
            one = _with(request, CommitRows(rows, _STRIDE, count, ""))
            known[key] = response_to_plain(version, 0, one)[_RESPONSE_HEAD:]
    return list(known.values()) if len(known) == 1 else [known[key] for key in partitions]


def _with(request: OffsetCommitRequest, rows: CommitRows) -> OffsetCommitRequest:
    name, topic_id, _, _ = request.topics[0]
    topic = _new(OffsetCommitRequestTopic, (name, topic_id, rows, ()))
    made: OffsetCommitRequest = _new(OffsetCommitRequest, (*request[:_TOPICS], (topic,), ()))
    return made


_TOPICS: Final = OffsetCommitRequest._fields.index("topics")
