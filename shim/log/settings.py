"""What of the log can be set, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from shim.config import Settings

_DEFAULT: Final = Settings()


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Times in milliseconds, sizes in bytes."""

    segment_bytes: int = _DEFAULT.offsets_topic_segment_bytes
    roll_ms: int = _DEFAULT.log_roll_ms
    flush_interval_messages: int = _DEFAULT.log_flush_interval_messages
    flush_interval_ms: int = _DEFAULT.log_flush_interval_ms
    flush_offset_checkpoint_interval_ms: int = _DEFAULT.log_flush_offset_checkpoint_interval_ms

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
