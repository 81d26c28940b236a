"""Messages to bytes and back: a struct in one version, by the functions that `protocol.compiler` makes of its table.

Decoded, a message is objects, which take many times the bytes that they were. So that nobody can have them made for a
message that is refused in the end, more than SKIM_ABOVE bytes are checked before they are decoded, by a third function:
the decoder without the making.

Compiled functions only say *that* something is wrong. `protocol.reference` then walks the same bytes slowly and says
what and where; the checking functions take it past the elements of arrays that are sound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast

from protocol import reference
from protocol.compiler import Skim, compile_decoder, compile_encoder, compile_skimmer
from protocol.errors import DecodeError, EncodeError
from protocol.generated import DECODE_FAILURES
from protocol.schema import Kind, StructOf, Table, table

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

Buffer: TypeAlias = bytes | bytearray | memoryview

SKIM_ABOVE: Final = 64 * 1024
"""Bytes, from the message's start to the end of the buffer, above which a message is checked before it is decoded."""


class Decode(Protocol[T_co]):
    def __call__(self, buf: Buffer, pos: int = 0, /) -> tuple[T_co, int]: ...


class Encode(Protocol[T_contra]):
    def __call__(self, msg: T_contra, head: bytes = b"", /) -> bytes: ...


class Codec(Generic[T]):
    """The compiled functions of one struct in one version, and their sources.

    `decode(buf, pos=0)` gives the message at `pos` and the position after it; what follows is not looked at. It
    raises DecodeError and nothing else, whatever the bytes. `bytes` are decoded in place, other buffers are copied
    from `pos` on. Refusing takes no memory beyond a constant and twice the buffer.

    `encode(msg, head=b"")` gives the bytes, `head` before them. It raises EncodeError for a message that this version
    cannot carry. A list is as good as a tuple for an array, any buffer for bytes, and any tuple with the right values
    for a struct.
    """

    __slots__ = ("cls", "decode", "decode_source", "encode", "encode_source", "flexible", "version")

    def __init__(self, cls: type[T], version: int, flexible: bool) -> None:
        here = table(cast("type[tuple[Any, ...]]", cls), version, flexible)
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.decode_source, decode = _decoder(here)
        self.encode_source, encode = _encoder(here)
        self.decode: Decode[T] = decode
        self.encode: Encode[T] = encode


_UNEXPLAINED: Final = "refused by the compiled codec alone, which is a mistake in it"

_codecs: dict[tuple[type[Any], int, bool], Codec[Any]] = {}


def codec(cls: type[T], version: int, flexible: bool) -> Codec[T]:
    """The codec of `cls` in `version`, compiled once. Raises `protocol.schema.SchemaError` for a faulty declaration."""
    key = (cls, version, flexible)
    found = _codecs.get(key)
    if found is None:
        found = _codecs[key] = Codec(cls, version, flexible)
    return found


def check(here: Table, buf: bytes, pos: int = 0) -> int:
    """The position after the struct at `pos`, which is not negative; makes nothing. Raises DecodeError."""
    try:
        return _skimmer(StructOf(here.cls), here.version, here.flexible)(buf, pos)
    except DECODE_FAILURES as error:
        failure = error.with_traceback(None)
    return _explain(here, buf, pos, failure)


def _decoder(here: Table) -> tuple[str, Any]:
    def elsewhere(buf: Buffer, pos: int) -> tuple[Any, int]:
        """Decode what is not bytes, or is at no position at all."""
        if pos < 0 or pos > len(buf):
            raise DecodeError(f"the buffer of {len(buf)} bytes has no such position", pos, here.cls.__name__)
        try:
            message, end = decode(bytes(memoryview(buf)[pos:]), 0)
        except DecodeError as error:
            raise DecodeError(error.reason, error.position + pos, error.path) from None
        return message, end + pos

    calls: dict[str, Callable[..., Any]] = {
        "elsewhere": elsewhere,
        "check": partial(check, here),
        "explain": partial(_explain, here),
    }
    source, decode = compile_decoder(here, SKIM_ABOVE, calls)
    return source, decode


def _encoder(here: Table) -> tuple[str, Any]:
    def explain(msg: Any, failure: Exception) -> NoReturn:
        reference.encode(here, msg)
        raise EncodeError(f"{_UNEXPLAINED}: {failure!r}", here.cls.__name__)

    return compile_encoder(here, explain)


def _explain(here: Table, buf: bytes, pos: int, failure: Exception) -> NoReturn:
    reference.check(here, buf, pos, _sound_elements)
    raise DecodeError(f"{_UNEXPLAINED}: {failure!r}", pos, here.cls.__name__)


_skimmers: dict[tuple[Kind, int, bool], Skim] = {}


def _skimmer(kind: Kind, version: int, flexible: bool) -> Skim:
    found = _skimmers.get((kind, version, flexible))
    if found is None:
        found = _skimmers[kind, version, flexible] = compile_skimmer(kind, version, flexible)
    return found


def _sound_elements(kind: Kind, here: Table, buf: bytes, pos: int, count: int) -> tuple[int, int]:
    """How many of the `count` elements from `pos` on are sound, and the position after those."""
    skim = _skimmer(kind, here.version, here.flexible)
    for number in range(count):
        try:
            pos = skim(buf, pos)
        except DECODE_FAILURES:
            return number, pos
    return count, pos
