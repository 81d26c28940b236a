"""What a shim that has a client's request, and the one that owns the group's offsets partition, tell each other.

Source: docs/decisions/0021, "Between shims". A connection is made by the shim that has the request, and both begin with
:class:`Hello`. From then on messages of any number of requests go either way, each under the number that the one that
made the connection gave it. A message is an int32 size, an int8 kind and its fields, flexible (KIP-482) from version 0
on, which is the only one so far: what a later shim adds is to be tagged.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from protocol.codec import codec
from protocol.errors import DecodeError
from protocol.wire import Bool, Bytes, Int16, Int32, NullableBytes, String, TaggedFields

_HEAD: Final = Struct(">ib")
_KIND_AT: Final = 0  # in a frame without its size
_FIELDS_AT: Final = 1


class Hello(NamedTuple):
    """`log`: which log the shim's partitions are of: who has another one is to be told nothing. `name`: for people.
    `most_request_bytes`: of a client's request that is taken; one that is larger ends the connection.
    """

    log: String
    name: String
    most_request_bytes: Int32
    tagged: TaggedFields = ()


class Forward(NamedTuple):
    """To the owner: a client's request, a whole frame, and who the client is. Nobody has to ask for its rights."""

    number: Int32
    principal: String
    client_host: String
    frame: Bytes
    tagged: TaggedFields = ()


class Withdraw(NamedTuple):
    """To the owner: nobody waits for that one any more."""

    number: Int32
    tagged: TaggedFields = ()


class Told(NamedTuple):
    """To the owner: what the client's broker has answered to a question of its; None: that is not to be had."""

    number: Int32
    question: Int32
    frame: NullableBytes
    tagged: TaggedFields = ()


class Ping(NamedTuple):
    """To the owner, which gives it back as it is."""

    sequence: Int32
    tagged: TaggedFields = ()


class Ask(NamedTuple):
    """From the owner: the client's broker is to be asked this, as the client, before any later request of its.
    `prompt`: the broker has no reason to keep it back."""

    number: Int32
    question: Int32
    prompt: Bool
    frame: Bytes
    tagged: TaggedFields = ()


class Begun(NamedTuple):
    """From the owner: what follows does not come before this request, and nothing more is asked because of it."""

    number: Int32
    tagged: TaggedFields = ()


class Answer(NamedTuple):
    """From the owner, the last that it says of a request: the response, a whole frame."""

    number: Int32
    frame: Bytes
    tagged: TaggedFields = ()


class Refuse(NamedTuple):
    """From the owner, in the place of an answer."""

    number: Int32
    error_code: Int16
    tagged: TaggedFields = ()


class Pong(NamedTuple):
    """From the owner."""

    sequence: Int32
    tagged: TaggedFields = ()


TO_OWNER: Final[Mapping[int, type[Any]]] = {0: Hello, 1: Forward, 2: Withdraw, 3: Told, 4: Ping}
FROM_OWNER: Final[Mapping[int, type[Any]]] = {0: Hello, 32: Ask, 33: Begun, 34: Answer, 35: Refuse, 36: Pong}

_KINDS: Final[Mapping[type[Any], int]] = {cls: kind for kind, cls in {**TO_OWNER, **FROM_OWNER}.items()}

BESIDE_FRAME: Final = 1 << 17
"""More bytes than a message takes beside the frame in it: two strings of 32,767 bytes, and some."""


def encode(message: Any) -> bytes:
    """The message with its size. Raises EncodeError."""
    fields = codec(type(message), 0, flexible=True).encode(message)
    return _HEAD.pack(_FIELDS_AT + len(fields), _KINDS[type(message)]) + fields


def decode(kinds: Mapping[int, type[Any]], frame: bytes) -> Any:
    """One of `kinds`, of a frame without its size. Raises DecodeError, also for what is of a later version."""
    kind = kinds.get(frame[_KIND_AT] if frame else -1)
    if kind is None:
        raise DecodeError("no message of this direction", _KIND_AT, "kind")
    found, end = codec(kind, 0, flexible=True).decode(frame, _FIELDS_AT)
    if end != len(frame):
        raise DecodeError(f"{len(frame) - end} bytes too many", end, kind.__name__)
    return found
