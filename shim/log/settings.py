"""What of the log can be set, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from shim.config import Settings

NEVER_MS: Final = 2**63 - 1
"""Kafka's default of ``flush.ms``: no time makes a flush due."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Times in milliseconds, sizes in bytes."""

    segment_bytes: int = 100 << 20
    roll_ms: int = 7 * 24 * 3600 * 1000
    flush_interval_messages: int = 1
    flush_interval_ms: int = NEVER_MS
    flush_offset_checkpoint_interval_ms: int = 60_000

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            segment_bytes=settings.offsets_topic_segment_bytes,
            roll_ms=settings.log_roll_ms,
            flush_interval_messages=settings.log_flush_interval_messages,
            flush_interval_ms=settings.log_flush_interval_ms,
            flush_offset_checkpoint_interval_ms=settings.log_flush_offset_checkpoint_interval_ms,
        )

    @property
    def flushes_first(self) -> bool:
        """Nothing is acknowledged before it is flushed; otherwise an acknowledged record may be lost with the power."""
        return self.flush_interval_messages <= 1
