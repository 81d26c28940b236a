"""What reading record batches and message sets raises, and nothing else than these: all are :class:`BatchError`."""

from __future__ import annotations


class BatchError(ValueError):
    """A record batch that cannot be read. ``position`` is a byte position in the buffer that was given."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.reason = reason
        self.position = position


class CorruptBatch(BatchError):
    """The bytes are no batch or message of the magic that they should have: a wrong length, magic, CRC, count, a
    malformed record, or compressed bytes that are none."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends inside the batch. ``size`` is how many bytes from ``position`` on are needed to go on
    (a batch's whole size, or that of a header when not even that is there)."""

    def __init__(self, reason: str, position: int, size: int) -> None:
        super().__init__(reason, position)
        self.size = size


class UnsupportedBatch(BatchError):
    """A sound batch whose records are not read: of a codec that its format does not have, or compressed where the
    caller wants no decompression."""


class DecompressedTooLarge(BatchError):
    """The records would take more memory than the caller allows; decompression stopped there, or did not begin."""
