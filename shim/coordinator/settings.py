"""Settings of the group coordinator: those of a broker, by their Kafka names (`.` written as `_`) with its defaults."""

from dataclasses import dataclass
from typing import Final, Self

from shim.config import Settings

_DEFAULT: Final = Settings()


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """Limits and delays of the group coordinator (Kafka 4.3, `GroupCoordinatorConfig`); times in milliseconds."""

    group_min_session_timeout_ms: int = _DEFAULT.group_min_session_timeout_ms
    group_max_session_timeout_ms: int = _DEFAULT.group_max_session_timeout_ms
    group_initial_rebalance_delay_ms: int = _DEFAULT.group_initial_rebalance_delay_ms
    group_max_size: int = _DEFAULT.group_max_size
    # The shim's own: what groups and members may take in memory, in all partitions of a process.
    group_memory_max_bytes: int = _DEFAULT.group_memory_max_bytes
    offset_metadata_max_bytes: int = _DEFAULT.offset_metadata_max_bytes
    # How long a commit in a transaction that the cluster has taken may wait until it is read there.
    offsets_commit_timeout_ms: int = _DEFAULT.offsets_commit_timeout_ms
    offsets_retention_minutes: int = _DEFAULT.offsets_retention_minutes
    # The shim's own: 0 means that no history is kept. How long it is kept is up to the log.
    offsets_history_retention_minutes: int = _DEFAULT.offsets_history_retention_minutes
    # Not a broker setting but a constant there: how long a new member's JoinGroup may be parked before it is given up.
    new_member_join_timeout_ms: int = 300_000
    # What the records of one commit may take together; beyond it, INVALID_COMMIT_OFFSET_SIZE. A broker's limit is the
    # offsets topic's max.message.bytes (1 MiB); this one leaves room for a commit of ten thousand partitions. The
    # tombstones of one deletion that take more are divided into batches.
    commit_max_bytes: int = 64 << 20
    # What a group's record may take, beyond it UNKNOWN_SERVER_ERROR to its SyncGroups. A broker's limit is the same
    # 1 MiB, which large groups are known to run into.
    group_metadata_max_bytes: int = 64 << 20

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The coordinator's part of the shim's settings."""
        return cls(
            group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
            group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            group_max_size=settings.group_max_size,
            group_memory_max_bytes=settings.group_memory_max_bytes,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_commit_timeout_ms=settings.offsets_commit_timeout_ms,
            offsets_retention_minutes=settings.offsets_retention_minutes,
            offsets_history_retention_minutes=settings.offsets_history_retention_minutes,
        )
