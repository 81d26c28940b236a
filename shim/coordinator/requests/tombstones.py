"""The deletion of many offsets of a group: as one batch of records, or as several where they are too large for one."""

from protocol.offsets_log import OffsetCommitKey
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Caller

# What a tombstone takes beside group and topic (a little less).
_TOMBSTONE_SIZE = 40


def write_tombstone(decision: Decision, key: OffsetCommitKey, cause: str = "", by: Caller | None = None) -> None:
    """Delete the offset, or what a transaction has pending for it; there has to be one. ``cause`` and ``by``: for the
    history, which is told nothing without them."""
    decision.make_room(_TOMBSTONE_SIZE + len((key.group + key.topic).encode("utf-8", "surrogatepass")))
    if by is None:
        decision.write(key, None)
    else:
        decision.delete(key, cause, by)
