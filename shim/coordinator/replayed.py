"""One offsets partition as the records of its log make it: replayed, or restored from a dump, and dumped."""

from collections.abc import Callable

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position, Producer
from protocol.own.state_log import GroupHandsKey, GroupHandsValue, StateKey, StateValue, WrittenKey
from shim.coordinator.outcome import Key, Value
from shim.coordinator.state.contents import Contents
from shim.coordinator.state.dump import StateDump, restore_state
from shim.coordinator.state.own_dump import OwnDump, restore_own
from shim.coordinator.state.partition_state import PartitionState


class ReplayedPartition:
    """Nothing is decided in here: whoever replays a log needs no more of a :class:`GroupCoordinator`."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def replay(self, key: Key, value: Value | None) -> None:
        """Apply a record of the log; None is a tombstone. Raises TypeError for a value of another key's kind."""
        self._state.replay(key, value)

    def replay_pending(
        self,
        producer: Producer,
        position: Position | None,
        key: OffsetCommitKey,
        value: OffsetCommitValue,
    ) -> None:
        """As `replay`, a record of a transaction, which says how far the cluster's log was taken over by it."""
        self._state.replay_pending(producer, position, key, value)

    def replay_pending_begun(
        self, producer: Producer, begun: Position | None, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        """As `replay`, an offset that is pending: on a topic, where each says where its transaction has begun. What was
        known of that may be of one before, of which not every offset was seen to be settled.
        """
        self._state.offsets.transactions.began(producer, begun)
        self._state.replay_pending(producer, None, key, value)

    def replay_end(self, producer: Producer, position: Position | None, *, committed: bool) -> None:
        """As `replay`, a marker."""
        self._state.replay_end(producer, position, committed=committed)

    def replay_settled(self, producer: Producer, key: OffsetCommitKey) -> None:
        """As `replay`, the tombstone of an offset that is pending: on a topic, in place of a marker."""
        self._state.offsets.settle(producer, key)

    def replay_position(self, position: Position) -> None:
        """As `replay`, how far the cluster's log was taken over: on a topic, where it is a record by itself."""
        self._state.offsets.transactions.taken_over(position)

    def replay_state(self, key: StateKey, value: StateValue | None) -> None:
        """As `replay`, a record of the shim's own state."""
        if isinstance(key, GroupHandsKey) and isinstance(value, GroupHandsValue):
            self._state.replay_hands(key.group, value)
        elif isinstance(key, WrittenKey) and not isinstance(value, GroupHandsValue):
            self._state.replay_written(key, value)

    def begin_dump(self) -> StateDump:
        """What the records replayed so far, and those of all outcomes, have made, to be had as bytes."""
        return StateDump(self._state)

    def dump(self) -> bytes:
        """All of :meth:`begin_dump` at once."""
        dump = self.begin_dump()
        while dump.step():
            pass
        return b"".join(dump.pieces())

    def restore(self, dump: bytes | bytearray | memoryview, check: Callable[[], None] = lambda: None) -> None:
        """In place of replaying those records, on a new object; later records are replayed after it.

        Raises DecodeError for anything that is no dump, and what `check` raises, which is called for each group: this
        object is of no more use then.
        """
        restore_state(self._state, dump, check)

    def begin_own_dump(self) -> OwnDump:
        """Likewise, of the shim's own state, which is not in the other one."""
        return OwnDump(self._state)

    def restore_own(self, dump: bytes | bytearray | memoryview, check: Callable[[], None] = lambda: None) -> None:
        """In place of :meth:`replay_state` of those records. Raises as :meth:`restore`."""
        restore_own(dump, self.replay_state, check)

    @property
    def contents(self) -> Contents:
        """What the records have made, as what would make it in another log. Nothing may be decided meanwhile."""
        return Contents(self._state)
