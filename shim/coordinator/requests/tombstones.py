"""The deletion of many offsets of a group: as one batch of records, or as several where they are too large for one."""

from protocol.offsets_log import OffsetCommitKey
from shim.coordinator.decision import Decision

# What a tombstone takes beside group and topic (a little less).
_TOMBSTONE_SIZE = 40


class Tombstones:
    """Writes them. Batches end where the next tombstone would make one larger than `commit_max_bytes`."""

    __slots__ = ("_decision", "_group_id", "_group_size", "_room", "_topic", "_topic_size")

    def __init__(self, decision: Decision, group_id: str) -> None:
        self._decision = decision
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
        self._decision.write(OffsetCommitKey(self._group_id, topic, partition), None)
