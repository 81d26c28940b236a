"""The end of the offsets for a topic that does not exist any more (Kafka 4.3, `onPartitionsDeleted`)."""

from collections.abc import Iterator
from typing import Final

from protocol.offsets_log import OffsetCommitKey
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Outcome, Ticket, TopicDeletionStep
from shim.coordinator.state.partition_state import PartitionState

# A step ends when it has looked at so many groups: a millisecond or two. To delete an offset takes as long as to look
# at so many.
_STEP: Final = 2_000
_DELETED: Final = 8
_AT_ONCE: Final = 250


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
        self._costs = self._delete(list(dict.fromkeys((*state.offsets.groups(), *state.transactions.groups()))))
        self._over = False

    def step(self, now: int, ticket: Ticket) -> Outcome:
        """The ticket is answered with a :class:`TopicDeletionStep`."""
        self._decision = Decision(self._state, now)
        self._offsets = 0
        left = _STEP
        for cost in self._costs:
            left -= cost
            if left <= 0:
                break
        else:
            self._over = True
        self._decision.answer(ticket, TopicDeletionStep(self._offsets, more=not self._over))
        return self._decision.outcome

    def _delete(self, group_ids: list[str]) -> Iterator[int]:
        """Gives after each bit of work what it cost; the next one may belong to another step."""
        for group_id in group_ids:
            yield 1
            partitions = self._partitions(group_id)
            for first in range(0, len(partitions), _AT_ONCE):
                # Looked for anew: there may have been requests since.
                there = set(self._partitions(group_id)) if first else set(partitions)
                doomed = [partition for partition in partitions[first : first + _AT_ONCE] if partition in there]
                for partition in doomed:
                    self._decision.write(OffsetCommitKey(group_id, self._topic, partition), None)
                self._offsets += len(doomed)
                yield len(doomed) * _DELETED

    def _partitions(self, group_id: str) -> list[int]:
        state, topic = self._state, self._topic
        pending = [partition for each, partition in state.pending_offsets(group_id) if each == topic]
        return list(dict.fromkeys((*state.offsets.partitions(group_id, topic), *pending)))
