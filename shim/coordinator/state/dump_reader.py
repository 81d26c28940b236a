"""Reads dumps, of a partition's state and of its offset table, whatever their bytes are."""

from struct import Struct
from typing import Any, Final, NoReturn

from protocol.errors import DecodeError

_LENGTH: Final = Struct("<I")


class DumpReader:
    """A place in a dump. Every method raises DecodeError where the bytes are not what they should be."""

    __slots__ = ("_at", "_dump")

    def __init__(self, dump: bytes | bytearray | memoryview) -> None:
        self._dump = memoryview(dump).cast("B")
        self._at = 0

    def take(self, size: int) -> memoryview:
        """The next `size` bytes, in place."""
        at = self._at
        taken = self._dump[at : at + size]
        if len(taken) != size:
            self.fail(f"{size} bytes wanted, {len(taken)} left")
        self._at = at + size
        return taken

    def unpack(self, struct: Struct) -> tuple[Any, ...]:
        return struct.unpack(self.take(struct.size))

    def name(self) -> str:
        """A text behind its length (uint32)."""
        return self.text(self.unpack(_LENGTH)[0])

    def text(self, size: int) -> str:
        """UTF-8 of `size` bytes, in which there may be lone surrogates."""
        raw = self.take(size)
        try:
            return str(raw, "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            self._at += error.start - size
            self.fail(f"no UTF-8: {error.reason}")

    def rest(self) -> memoryview:
        """All that is left, in place."""
        return self.take(len(self._dump) - self._at)

    @property
    def is_at_end(self) -> bool:
        """Whether nothing follows."""
        return self._at == len(self._dump)

    def end(self) -> None:
        """Nothing may follow."""
        if self._at != len(self._dump):
            self.fail(f"{len(self._dump) - self._at} bytes too many")

    def fail(self, reason: str) -> NoReturn:
        raise DecodeError(reason, self._at, "dump")
