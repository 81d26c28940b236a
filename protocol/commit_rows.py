"""OffsetCommit without an object for each partition: a commit that is plain stays the bytes that it was.

Nearly every commit is: no metadata, no tagged fields, and the same few bytes for each partition. Such a request is
decoded to the same message as any other, but that the partitions of a topic are :class:`CommitRows`, a sequence that
makes its elements when they are asked for. Who works on all of them at once takes columns of the bytes.

All other requests, and all that are malformed, are left to the codec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple, cast, overload

from protocol.api import Api
from protocol.codec import Buffer
from protocol.errors import DecodeError, ErrorCode
from protocol.generated import varint
from protocol.headers import RequestHeader
from protocol.messages.offset_commit import API as CODEC
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.wire import ZERO_UUID

ROW_SIZE: Final = 16
"""Bytes of a row: partition int32, offset int64, leader epoch int32, big-endian."""
RECORD_SIZE: Final = 4096
"""More than a record of a row takes, whatever names the request has."""
OFFSET_AT: Final = 4
"""Where in a row the offset is; the leader epoch is behind it."""
REST_SIZE: Final = 2
"""Behind a row there may be what a plain partition has beside it: the length of no metadata, and the number of no
tagged fields."""
FIRST_FLEXIBLE: Final = 8

ROW: Final = Struct(">iqi")
_ROWS: Final = {ROW_SIZE: ROW, ROW_SIZE + REST_SIZE: Struct(f"{ROW.format}{REST_SIZE}x")}
_FIRST: Final = ROW.unpack_from
_NO_EPOCH: Final = b"\xff"
_SIZE_WITHOUT_EPOCH: Final = 12

# Partition numbers as they are on the wire, the two lower bytes of each: where in there a column of rows is found,
# these are consecutive.
_NUMBERED: Final = 4096
_HIGH: Final = b"".join(bytes((high,)) * 256 for high in range(_NUMBERED >> 8))
_LOW: Final = bytes(range(256)) * (_NUMBERED >> 8)


class CommitRows(Sequence[OffsetCommitRequestPartition]):
    """The partitions of one topic of a plain commit, at least one.

    ``raw`` has a row every ``stride`` bytes, the first one at 0; ``metadata`` is what the request has for each: "" or
    None. ``known``: of a request that was there before, but for its offset, what is the same in both; then there is
    one row, and ``raw`` is that.
    """

    __slots__ = (
        "_columns",
        "consecutive",
        "highest",
        "known",
        "last",
        "lowest",
        "metadata",
        "raw",
        "size",
        "stride",
    )

    def __init__(
        self, raw: bytes, stride: int, count: int, metadata: str | None, last: CommitRows | None = None
    ) -> None:
        """``last``, of rows that are several blocks, each of the same partitions: the last block."""
        self.raw = raw
        self.stride = stride
        self.known: KnownCommit | None = None
        self._columns: list[bytes] | None = None
        self.metadata = metadata
        self.size = count
        """How many there are; costs less than `len`."""
        self.last = last
        """None where there is one block. What remains when all rows are carried out in their order."""
        self.consecutive = count == 1 or (last is None and _are_consecutive(raw, stride, count))
        """Whether each partition is the one before it, and one."""
        self.lowest: int = int.from_bytes(raw[:4], "big", signed=True)
        self.highest = self.lowest + count - 1
        if last is not None:
            self.lowest, self.highest = last.lowest, last.highest
        elif not self.consecutive:
            partitions = [partition for partition, _, _ in self.values()]
            self.lowest, self.highest = min(partitions), max(partitions)

    @property
    def columns(self) -> list[bytes]:
        """For each of the ROW_SIZE places of a row the byte there, of all rows. Made once: what is made of them is the
        records, the history and the state."""
        columns = self._columns
        if columns is None:
            raw, stride = self.raw, self.stride
            columns = self._columns = [raw[place::stride] for place in range(ROW_SIZE)]
        return columns

    def values(self) -> Iterator[tuple[int, int, int]]:
        """Partition, offset and leader epoch of each."""
        return cast("Iterator[tuple[int, int, int]]", _ROWS[self.stride].iter_unpack(self.raw))

    def first(self) -> tuple[int, int, int]:
        """Likewise, of the first one."""
        row: tuple[int, int, int] = _FIRST(self.raw)
        return row

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[OffsetCommitRequestPartition]:
        metadata = self.metadata
        for partition, offset, leader_epoch in self.values():
            yield OffsetCommitRequestPartition(partition, offset, leader_epoch, committed_metadata=metadata)

    @overload
    def __getitem__(self, index: int) -> OffsetCommitRequestPartition: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[OffsetCommitRequestPartition]: ...
    def __getitem__(self, index: int | slice) -> OffsetCommitRequestPartition | Sequence[OffsetCommitRequestPartition]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        """Whether the other one has the same partitions, rows or not."""
        return tuple(self) == tuple(other) if isinstance(other, CommitRows | tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def _are_consecutive(raw: bytes, stride: int, count: int) -> bool:
    first = raw[2] << 8 | raw[3]
    end = first + count
    return (
        end <= _NUMBERED
        and raw[3::stride] == _LOW[first:end]
        and raw[2::stride] == _HIGH[first:end]
        and not any(raw[1::stride])
        and not any(raw[::stride])
    )


class KnownCommit:
    """What is the same in all commits of one partition by one client. ``before_topics``: the request's fields.
    ``answer``: the end of the response's frame if it is committed. ``history``: for protocol/own/history_runs.py, which
    keeps there who commits (client id, host and principal), and what is the same in each record of the history: before
    the time, before the row, and behind it."""

    __slots__ = ("answer", "before_topics", "client_id", "history", "topic")

    def __init__(self, client_id: str | None, before_topics: tuple[Any, ...], topic: str, answer: bytes) -> None:
        self.client_id = client_id
        self.before_topics = before_topics
        self.topic = topic
        self.answer = answer
        self.history: tuple[tuple[str, str, str], bytes, bytes, bytes] | None = None


class AllCommitted(NamedTuple):
    """The response to a plain commit of which all was committed."""

    request: OffsetCommitRequest

    def response(self) -> OffsetCommitResponse:
        """As the message that it is."""
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    topic.name,
                    topic.topic_id,
                    tuple(OffsetCommitResponsePartition(p.partition_index, ErrorCode.NONE) for p in topic.partitions),
                )
                for topic in self.request.topics
            )
        )


def rows_in(topics: Iterable[OffsetCommitRequestTopic]) -> int:
    """How many partitions all of them have, if these are rows; otherwise 0."""
    count = 0
    for topic in topics:
        partitions: object = topic.partitions
        if partitions.__class__ is not CommitRows:
            return 0
        count += partitions.size
    return count


# --- decoding --------------------------------------------------------------------------------------------------------

# Fields are passed over, not decoded: from the client id to the topics a client says the same in each of its commits,
# so that is decoded once, by the codec. What is kept of it is bounded by both numbers.
_KEPT: Final = 1024
_SHORT: Final = 512

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD: Final = Struct(">hhi")  # api key, version, correlation id
_LONGEST: Final = 0x7F  # of a compact length, of one byte
_FIRST_WITH_INSTANCE: Final = 7
_FIRST_WITH_EPOCH: Final = 6
_RETENTION_TIME: Final = range(2, 5)
_VERSIONS: Final = range(2, 10)

_TOPICS: Final = OffsetCommitRequest._fields.index("topics")

# tuple.__new__ skips the constructors of named tuples, as the codec does.
_new: Any = tuple.__new__


class _NotPlain(Exception):
    pass


NOT_PLAIN: Final = (_NotPlain, IndexError, struct_error, UnicodeDecodeError, DecodeError)


# By version, and all of the request from the client id to the partition: the rest of it has a fixed size.
_known: Final[dict[tuple[int, bytes], KnownCommit]] = {}
_MOST_KNOWN: Final = 4096
_BEHIND_PARTITION: Final = ROW_SIZE - OFFSET_AT + REST_SIZE + 2  # ends with no tagged fields of topic and request
_PLAIN_ENDS: Final = (b"\x01\x00\x00\x00", b"\x00\x00\x00\x00")


def plain_request(version: int, frame: bytes, pos: int) -> tuple[RequestHeader, OffsetCommitRequest]:
    """Header and body of the plain request whose header begins at `pos`; raises one of NOT_PLAIN for any other."""
    if len(frame) - pos > _SHORT:
        return _scanned(version, frame, pos)
    key = version, frame[pos + _HEAD.size : -_BEHIND_PARTITION]
    known = _known.get(key)
    if known is None or frame[-4:] not in _PLAIN_ENDS:
        header, request = _scanned(version, frame, pos)
        rows = cast(CommitRows, request.topics[0].partitions)
        if version >= FIRST_FLEXIBLE and len(request.topics) == rows.size == 1:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            answer = response_to_plain(version, 0, request)[_FRAME_HEAD.size :]
            _known[key] = KnownCommit(header.client_id, request[:_TOPICS], request.topics[0].name, answer)
        return header, request
    row_at = -_BEHIND_PARTITION - OFFSET_AT
    rows = CommitRows(frame[row_at : row_at + ROW_SIZE], ROW_SIZE, 1, "" if frame[-4] else None)
    rows.known = known
    topic = _new(OffsetCommitRequestTopic, (known.topic, ZERO_UUID, rows, ()))
    header = _new(RequestHeader, (*_HEAD.unpack_from(frame, pos), known.client_id, ()))
    return header, _new(OffsetCommitRequest, (*known.before_topics, (topic,), ()))


def _scanned(version: int, frame: bytes, pos: int) -> tuple[RequestHeader, OffsetCommitRequest]:
    """Likewise, of a request of any number of topics and partitions."""
    if version >= FIRST_FLEXIBLE:
        at = _flexible_topics_at(frame, pos)
        count, first, topic_of = frame[at] - 1, at + 1, _flexible_topic
    elif version in _VERSIONS:
        at = _topics_at(version, frame, pos)
        count, first, topic_of = _INT32.unpack_from(frame, at)[0], at + 4, _topic
    else:
        raise _NotPlain
    if at - pos > _SHORT or not 0 < count < _LONGEST:
        raise _NotPlain
    client_id, before_topics = _before_topics(version, frame[pos + _HEAD.size : at])
    at = first
    topics = []
    for _ in range(count):
        topic, at = topic_of(version, frame, at)
        topics.append(topic)
    if version >= FIRST_FLEXIBLE:
        if frame[at]:
            raise _NotPlain
        at += 1
    if at != len(frame):
        raise _NotPlain
    header = _new(RequestHeader, (*_HEAD.unpack_from(frame, pos), client_id, ()))
    return header, _new(OffsetCommitRequest, (*before_topics, tuple(topics), ()))


def _flexible_topics_at(frame: bytes, pos: int) -> int:
    """Where the topics of the request begin, from version 8 on."""
    at = _after_text(frame, pos + _HEAD.size)  # client id
    if frame[at]:  # tagged fields
        raise _NotPlain
    at += 1
    size = frame[at]  # group id
    if not 0 < size <= _LONGEST:
        raise _NotPlain
    at += size + 4  # and generation
    size = frame[at]  # member id
    if not 0 < size <= _LONGEST:
        raise _NotPlain
    at += size
    size = frame[at]  # group instance id
    if size > _LONGEST:
        raise _NotPlain
    return at + (size or 1)


def _topics_at(version: int, frame: bytes, pos: int) -> int:
    """Likewise, up to version 7."""
    at = _after_text(frame, pos + _HEAD.size)  # client id
    at = _after_text(frame, at) + 4  # group id, generation
    at = _after_text(frame, at)  # member id
    if version in _RETENTION_TIME:
        at += 8
    return _after_text(frame, at) if version >= _FIRST_WITH_INSTANCE else at


def _after_text(frame: bytes, at: int) -> int:
    size: int = _INT16.unpack_from(frame, at)[0]
    return at + 2 + max(0, size)


@lru_cache(_KEPT)
def _before_topics(version: int, raw: bytes) -> tuple[str | None, tuple[Any, ...]]:
    """The client id, and all of a request before its topics."""
    no_topics = b"\x01\x00" if version >= FIRST_FLEXIBLE else bytes(4)
    header, request = CODEC.parse_request(version, _HEAD.pack(CODEC.key, version, 0) + raw + no_topics)
    return header.client_id, request[:_TOPICS]


def _flexible_topic(version: int, frame: bytes, at: int) -> tuple[OffsetCommitRequestTopic, int]:
    """The topic, and where it ends."""
    size, name_at = frame[at], at + 1
    at += size
    count = frame[at]
    if not 0 < size <= _LONGEST or count < 2:
        raise _NotPlain
    at += 1
    if count > _LONGEST:
        high = frame[at]
        if high > _LONGEST:
            raise _NotPlain
        count += (high << 7) - 0x80
        at += 1
    count -= 1
    stride = ROW_SIZE + REST_SIZE
    end = at + count * stride
    raw = frame[at:end]
    metadata = frame[at + ROW_SIZE]
    if (
        frame[end]  # tagged fields of the topic, and of the partitions
        or metadata > 1
        or raw[ROW_SIZE::stride].count(metadata) != count
        or raw[ROW_SIZE + 1 :: stride].count(0) != count
    ):
        raise _NotPlain
    rows = CommitRows(raw, stride, count, "" if metadata else None)
    name = frame[name_at : name_at + size - 1].decode()
    return _new(OffsetCommitRequestTopic, (name, ZERO_UUID, rows, ())), end + 1


def _topic(version: int, frame: bytes, at: int) -> tuple[OffsetCommitRequestTopic, int]:
    """Likewise, up to version 7."""
    name_size = _INT16.unpack_from(frame, at)[0]
    if not 0 <= name_size <= _SHORT:
        raise _NotPlain
    name_at, at = at + 2, at + 2 + name_size
    name = frame[name_at:at].decode()
    count = _INT32.unpack_from(frame, at)[0]
    at += 4
    size = ROW_SIZE if version >= _FIRST_WITH_EPOCH else _SIZE_WITHOUT_EPOCH
    stride = size + REST_SIZE
    end = at + count * stride
    if count < 1 or end > len(frame):
        raise _NotPlain
    raw = frame[at:end]
    metadata = raw[size : size + REST_SIZE]
    if metadata not in (b"\x00\x00", b"\xff\xff") or any(
        raw[size + place :: stride].count(metadata[0]) != count for place in range(REST_SIZE)
    ):
        raise _NotPlain
    if version < _FIRST_WITH_EPOCH:
        with_epoch = bytearray(_NO_EPOCH * (count * ROW_SIZE))
        for place in range(_SIZE_WITHOUT_EPOCH):
            with_epoch[place::ROW_SIZE] = raw[place::stride]
        raw, stride = bytes(with_epoch), ROW_SIZE
    rows = CommitRows(raw, stride, count, None if metadata[0] else "")
    return _new(OffsetCommitRequestTopic, (name, ZERO_UUID, rows, ())), end


# --- encoding --------------------------------------------------------------------------------------------------------

_FIRST_WITH_THROTTLE_TIME: Final = 3
_FRAME_HEAD: Final = Struct(">ii")  # size, correlation id


def response_to_plain(version: int, correlation_id: int, request: OffsetCommitRequest) -> bytes:
    """The frame of the response to a plain request of which all was committed."""
    known = cast(CommitRows, request.topics[0].partitions).known
    if known is not None:
        answer = known.answer
        return _FRAME_HEAD.pack(_INT32.size + len(answer), correlation_id) + answer
    flexible = version >= FIRST_FLEXIBLE
    stride = 7 if flexible else 6  # partition, error, and the number of no tagged fields
    parts: list[bytes | bytearray] = [
        b"",
        _INT32.pack(correlation_id),
        b"\x00" if flexible else b"",
        bytes(4) if version >= _FIRST_WITH_THROTTLE_TIME else b"",
        bytes((len(request.topics) + 1,)) if flexible else _INT32.pack(len(request.topics)),
    ]
    for topic in request.topics:
        rows = cast(CommitRows, topic.partitions)
        count = len(rows)
        parts.append(_topic_head(flexible, topic.name, count))
        if count == 1:
            parts += (rows.raw[:4], bytes(stride - 4))
        else:
            partitions = bytearray(count * stride)
            for place in range(4):
                partitions[place::stride] = rows.raw[place :: rows.stride]
            parts.append(partitions)
        if flexible:
            parts.append(b"\x00")
    if flexible:
        parts.append(b"\x00")
    parts[0] = _INT32.pack(sum(map(len, parts)))
    return b"".join(parts)


def _topic_head(flexible: bool, name: str, count: int) -> bytes:
    """The name, and the number of partitions."""
    raw = name.encode()
    if flexible:
        return varint(len(raw) + 1) + raw + varint(count + 1)
    return _INT16.pack(len(raw)) + raw + _INT32.pack(count)


class _RowsApi(Api[OffsetCommitRequest, OffsetCommitResponse | AllCommitted]):
    """The API as a server speaks it. Plain requests come as rows, and may be answered with AllCommitted."""

    def parse_request(self, version: int, frame: Buffer, pos: int = 0) -> tuple[RequestHeader, OffsetCommitRequest]:
        if frame.__class__ is bytes and pos >= 0:
            try:
                return plain_request(version, frame, pos)
            except NOT_PLAIN:
                pass  # the codec says what it is, or what is wrong
        return CODEC.parse_request(version, frame, pos)

    def request_frame(
        self, version: int, correlation_id: int, client_id: str | None, msg: OffsetCommitRequest
    ) -> bytes:
        """Of rows, too, as of any other sequence of partitions."""
        topics = tuple(topic._replace(partitions=tuple(topic.partitions)) for topic in msg.topics)
        return CODEC.request_frame(version, correlation_id, client_id, msg._replace(topics=topics))

    def response_frame(self, version: int, correlation_id: int, msg: OffsetCommitResponse | AllCommitted) -> bytes:
        if msg.__class__ is AllCommitted:
            return response_to_plain(version, correlation_id, msg.request)
        return CODEC.response_frame(version, correlation_id, cast(OffsetCommitResponse, msg))


API: Final = _RowsApi(
    key=CODEC.key,
    name=CODEC.name,
    request=OffsetCommitRequest,
    response=cast("type[OffsetCommitResponse | AllCommitted]", OffsetCommitResponse),
    versions=CODEC.versions,
    flexible_since=CODEC.flexible_since,
)
