"""Where things stand in a message, magic 0 and 1; drawn in :mod:`protocol.records.message_sets`."""

from __future__ import annotations

from struct import Struct
from typing import Final

PREFIX_SIZE: Final = 12
"""Bytes of a message before those that its size counts: offset and size."""

PREFIX: Final = Struct(">qi")
CRC: Final = Struct(">I")
CHECKED_FROM: Final = 16
"""Where that which the CRC covers begins."""

HEADERS: Final = (Struct(">qiIBBi"), Struct(">qiIBBqi"))
"""By magic: from the offset to the key's length."""

HEADS: Final = (Struct(">BBi"), Struct(">BBqi"))
"""By magic: what of that the CRC covers."""

LENGTH: Final = Struct(">i")
"""Of a key or a value."""

NULL: Final = LENGTH.pack(-1)

COMPRESSION: Final = 0x07
"""Of the attributes: the codec."""

LOG_APPEND_TIME: Final = 0x08
"""Of the attributes, magic 1."""
