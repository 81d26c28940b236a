"""The words in which messages are declared: Kafka's wire types and the marks of a field.

A message is a `typing.NamedTuple` whose fields stand in wire order and whose annotations carry the wire type::

    class OffsetCommitRequestPartition(NamedTuple):
        partition_index: Int32
        committed_offset: Int64
        committed_leader_epoch: Annotated[Int32, since(6), ignorable] = -1
        committed_metadata: NullableString = ""
        tagged: TaggedFields = ()

* An array is written `tuple[X, ...]`, a nullable one `tuple[X, ...] | None`; a struct is written as its class, a
  nullable struct as `X | None`.
* `since(6)`, `between(2, 4)`, `only(1)` and `until(7)` say which versions have the field; without one, all have it.
  A field that some version lacks needs a default, which is what decoding that version gives. Encoding another value for
  a version that lacks the field is an error, unless the field is `ignorable`.
* `nullable_since(7)` narrows the versions in which a `... | None` field may be null.
* `tag(0)` makes the field a tagged field (KIP-482) of the versions that have it; its default is not written.
* `tagged: TaggedFields = ()`, last, holds the tagged fields nobody declared, as they came. Only flexible versions
  carry them.

Source: the Kafka protocol guide, "Protocol Primitive Types" (Kafka 4.3), and KIP-482.
"""

from dataclasses import dataclass
from typing import Annotated

# The largest version number there can be on the wire (int16).
NEWEST = 32767

# Kafka refuses longer strings in every encoding, the compact one included.
MAX_STRING = 32767

# The largest unsigned varint: a length or count + 1, a tag.
MAX_UINT32 = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number (or a uuid) of fixed width: `code` is its `struct` letter, `size` its bytes, `low`..`high` its range."""

    code: str
    size: int
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 with a length in front: int16, or in flexible versions an unsigned varint of length + 1.

    `errors` is what becomes of bytes that are not UTF-8, as in `bytes.decode`.
    """

    errors: str = "strict"


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes with a length in front: int32, or in flexible versions an unsigned varint of length + 1."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The place of the tagged fields that the schema does not name."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions `first`..`last` (both included) that have the field."""

    first: int
    last: int = NEWEST

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class NullableVersions(Versions):
    """The versions in which the field may be null."""


@dataclass(frozen=True, slots=True)
class Tag:
    """The number of a tagged field."""

    number: int


@dataclass(frozen=True, slots=True)
class Ignorable:
    """The field may be dropped without a word where a version cannot carry it."""


@dataclass(frozen=True, slots=True)
class NeverCompact:
    """The field keeps its old encoding in flexible versions too (the client id of the request header)."""


def since(first: int) -> Versions:
    return Versions(first)


def between(first: int, last: int) -> Versions:
    return Versions(first, last)


def only(version: int) -> Versions:
    return Versions(version, version)


def until(last: int) -> Versions:
    return Versions(0, last)


def nullable_since(first: int) -> NullableVersions:
    return NullableVersions(first)


def tag(number: int) -> Tag:
    return Tag(number)


ignorable = Ignorable()
never_compact = NeverCompact()

Bool = Annotated[bool, Fixed("?", 1)]
Int8 = Annotated[int, Fixed("b", 1, -(2**7), 2**7 - 1)]
Int16 = Annotated[int, Fixed("h", 2, -(2**15), 2**15 - 1)]
Int32 = Annotated[int, Fixed("i", 4, -(2**31), 2**31 - 1)]
Int64 = Annotated[int, Fixed("q", 8, -(2**63), 2**63 - 1)]
UInt16 = Annotated[int, Fixed("H", 2, 0, 2**16 - 1)]
UInt32 = Annotated[int, Fixed("I", 4, 0, 2**32 - 1)]
Float64 = Annotated[float, Fixed("d", 8)]
# 16 raw bytes: topic ids are only passed on and compared, and a uuid.UUID costs a microsecond to make.
Uuid = Annotated[bytes, Fixed("16s", 16)]
String = Annotated[str, Text()]
NullableString = Annotated[str | None, Text()]
# Offset metadata, in which some clients pack binary state: what is not UTF-8 is kept, and comes back byte for byte.
OpaqueString = Annotated[str, Text("surrogateescape")]
NullableOpaqueString = Annotated[str | None, Text("surrogateescape")]
Bytes = Annotated[bytes, Blob()]
NullableBytes = Annotated[bytes | None, Blob()]
# Record batches: on the wire they are nullable bytes, which protocol.records opens where somebody wants them.
Records = NullableBytes
TaggedFields = Annotated[tuple[tuple[int, bytes], ...], Unknown()]

ZERO_UUID = bytes(16)
