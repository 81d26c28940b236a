"""Whatever was decided, what is written of it into the other log makes the same there, whatever was there before."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from protocol.own.state_log import GroupChangeKey, GroupHandsValue, StateKey, StateValue, decode_state
from shim.coordinator import Contents, GroupCoordinator
from shim.kafka_log.copies.replaying import TopicReplay
from shim.relocation.records import in_directory, on_topic, state_in_directory
from shim.runtime.flight import Record
from shim.runtime.replaying import Home
from tests.coordinator.driving import new_coordinator
from tests.examples import examples
from tests.kafka_log.deciding import known
from tests.kafka_log.test_model import AnyDecisions
from tests.kafka_log.topic_partition import LocalLog, TopicPartition


class AnyMoves(AnyDecisions):
    """From a log on a topic, which has what was decided, to a directory and to another topic, again and again: each has
    what came before by then."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = LocalLog()
        self.state: list[Record] = []
        self.other = TopicPartition()

    @rule()
    def move(self) -> None:
        contents, changes, _ = _read(self.d.topic)
        _, _, before = _read(self.other)
        for record_set in on_topic(contents, changes, before):
            self.other.append(record_set)
        on_disk = self._directory()
        for batch in in_directory(contents, on_disk.contents):
            self.directory.append(batch)
        for some in state_in_directory(contents, changes, on_disk.contents):
            self.state += some

        expected = known(self.d.topic.replayed())
        assert known(self.other.replayed()) == expected
        assert known(self._directory()) == expected
        there, there_changes, _ = _read(self.other)
        assert contents.difference(there) is contents.difference(self._directory().contents) is None
        if not self.lacks_tombstones:
            for group, *place in self.d.overruled_in_cluster():
                assert tuple(place) in self.other.replayed().overruled(group)
                assert tuple(place) in self._directory().overruled(group)
        kept = {key: value for key, value in map(_state, self.state) if isinstance(key, GroupChangeKey)}
        assert changes == there_changes == kept

    @rule(part=st.floats(0, 1))
    def compact_the_other(self, part: float) -> None:
        self.other.compact(round(part * self.other.ends[-1]), lambda _: True)

    @invariant()
    def what_differs_is_found(self) -> None:
        expected, found = known(self.d.topic.replayed()), known(self.other.replayed())
        differs = self.d.topic.replayed().contents.difference(self.other.replayed().contents)
        assert (differs is None) == (expected == found)

    def _directory(self) -> GroupCoordinator:
        coordinator = self.directory.replayed()
        for record in self.state:
            coordinator.replay_state(*_state(record))
        return coordinator


def _state(record: Record) -> tuple[StateKey, StateValue | None]:
    return decode_state(*record)


def _read(topic: TopicPartition) -> tuple[Contents, dict[GroupChangeKey, GroupHandsValue], Contents]:
    coordinator = new_coordinator()
    replay = TopicReplay(coordinator, Home(0, 1, "__offset_shim_offsets-0"), lambda *_: None)
    replay.apply(topic.records)
    return coordinator.contents, replay.changes, coordinator.contents


AnyMoves.TestCase.settings = settings(max_examples=examples(15), stateful_step_count=30, deadline=None)
TestAnyMoves = AnyMoves.TestCase
