"""Settings of the group coordinator: those of a broker, by their Kafka names (`.` written as `_`) with its defaults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """Limits and delays of the group coordinator (Kafka 4.3, `GroupCoordinatorConfig`); times in milliseconds."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    # Not a broker setting but a constant there: how long a new member's JoinGroup may be parked before it is given up.
    new_member_join_timeout_ms: int = 300_000
    # What the records of one commit may take together; beyond it, INVALID_COMMIT_OFFSET_SIZE. A broker's limit is the
    # offsets topic's max.message.bytes (1 MiB); this one leaves room for a commit of ten thousand partitions.
    commit_max_bytes: int = 64 << 20
