"""For applications: what the shim can do beyond a broker, over sockets of their own."""

from shim.client.conditional_commits import (
    CommitRefused,
    ConditionalCommits,
    ConditionFailed,
    NotAnnounced,
    OffsetSwap,
    OutcomeUnknown,
)

__all__ = [
    "CommitRefused",
    "ConditionFailed",
    "ConditionalCommits",
    "NotAnnounced",
    "OffsetSwap",
    "OutcomeUnknown",
]
