"""The end of the offsets for a topic that does not exist any more (Kafka 4.3, `onPartitionsDeleted`)."""

from collections.abc import Iterator

from protocol.offsets_log import OffsetCommitKey
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import NOBODY, Asker, Outcome, TopicDeletionStep
from shim.coordinator.state.partition_state import PartitionState
from shim.coordinator.upkeep.steps import AT_ONCE, DELETED, step

TOPIC_DELETED = "its topic was deleted"
"""The cause that the history has of it."""


class TopicDeletion:
    """Tombstones for all offsets for one topic, those of transactions that have not ended among them; in steps between
    which requests may be decided.

    Whatever is committed for the topic after the first step may be deleted, or not: the caller sees to it that nothing
    is. Groups stay, with or without offsets.
    """

    def __init__(self, state: PartitionState, topic: str) -> None:
        self._state = state
        self._topic = topic
        self._decision = Decision(state, 0)
        self._offsets = 0
        self._costs = self._delete(state.offsets.groups())

    def step(self, now: int, asker: Asker) -> Outcome:
        """The answer is a :class:`TopicDeletionStep`."""
        self._decision = Decision(self._state, now)
        self._offsets = 0
        more = step(self._costs)
        self._decision.answer(asker, TopicDeletionStep(self._offsets, more=more))
        return self._decision.outcome

    def _delete(self, group_ids: list[str]) -> Iterator[int]:
        """Gives what each bit of work cost; the next one may belong to another step."""
        offsets, topic = self._state.offsets, self._topic
        for group_id in group_ids:
            yield 1
            partitions = offsets.partitions(group_id, topic)
            for first in range(0, len(partitions), AT_ONCE):
                # Looked for anew: there may have been requests since.
                there = set(offsets.partitions(group_id, topic)) if first else set(partitions)
                doomed = [partition for partition in partitions[first : first + AT_ONCE] if partition in there]
                for partition in doomed:
                    self._decision.delete(OffsetCommitKey(group_id, topic, partition), TOPIC_DELETED, NOBODY)
                self._offsets += len(doomed)
                yield len(doomed) * DELETED
