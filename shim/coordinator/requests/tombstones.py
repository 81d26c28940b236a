"""The deletion of many offsets of a group: as one batch of records, or as several where they are too large for one."""

from protocol.offsets_log import OffsetCommitKey
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Caller

# What a tombstone takes beside group and topic (a little less).
_TOMBSTONE_SIZE = 40


class Tombstones:
    """Writes them. Batches end where the next tombstone would make one larger than `commit_max_bytes`."""

    __slots__ = ("_by", "_cause", "_decision", "_group_id", "_group_size", "_room", "_topic", "_topic_size")

    def __init__(self, decision: Decision, group_id: str, cause: str = "", by: Caller | None = None) -> None:
        """``cause`` and ``by``: for the history, which is told nothing without them."""
        self._decision = decision
        self._cause = cause
        self._by = by
        self._group_id = group_id
        self._group_size = _TOMBSTONE_SIZE + len(group_id.encode("utf-8", "surrogatepass"))
        self._room = decision.state.settings.commit_max_bytes
        self._topic = ""
        self._topic_size = 0

    def write(self, topic: str, partition: int) -> None:
        """Delete the offset, or what a transaction has pending for it; there has to be one."""
        if topic is not self._topic:
            self._topic, self._topic_size = topic, len(topic.encode("utf-8", "surrogatepass"))
        size = self._group_size + self._topic_size
        if self._room < size:
            self._decision.begin_batch()
            self._room = self._decision.state.settings.commit_max_bytes
        self._room -= size
        key = OffsetCommitKey(self._group_id, topic, partition)
        if self._by is None:
            self._decision.write(key, None)
        else:
            self._decision.delete(key, self._cause, self._by)
