"""The offset table beside a plain dict: whatever is set, deleted, dumped and restored, both hold the same."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.offsets_log import CommittedOffset
from shim.coordinator.state.offset_table import OffsetTable
from tests.examples import examples

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
GROUPS = st.sampled_from(("", "g", "groupé"))
TOPICS = st.sampled_from(("t", "u"))
# Dense, dense one day, and anything: the same ones come again, so that they are replaced and deleted.
PARTITIONS = st.one_of(
    st.integers(0, 12), st.integers(0, 60), st.sampled_from((-1, 1_000, 70_000, 2**31 - 1, -(2**31))), INT32
)
METADATA = st.one_of(st.just(""), st.sampled_from(("m", "n")), st.text(st.characters(), max_size=8))
OFFSETS = st.builds(CommittedOffset, INT64, INT32, METADATA, INT64, st.one_of(st.just(-1), INT64))


class TableAndDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = OffsetTable()
        self.model: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    @rule(group=GROUPS, topic=TOPICS, partition=PARTITIONS, committed=OFFSETS)
    def set(self, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        self.table.set(group, topic, partition, committed)
        self.model.setdefault(group, {}).setdefault(topic, {})[partition] = committed

    @rule(group=GROUPS, topic=TOPICS, first=st.integers(0, 90), number=st.integers(1, 60), step=st.integers(1, 9))
    def set_many(self, group: str, topic: str, first: int, number: int, step: int) -> None:
        for n in range(number):
            self.set(group, topic, first + n * step, CommittedOffset(n, n, "", n))

    @rule(group=GROUPS, topic=TOPICS, partition=PARTITIONS)
    def delete(self, group: str, topic: str, partition: int) -> None:
        self.table.delete(group, topic, partition)
        topics = self.model.get(group, {})
        topics.get(topic, {}).pop(partition, None)
        if topics.get(topic) == {}:
            del topics[topic]
        if self.model.get(group) == {}:
            del self.model[group]

    @rule(group=GROUPS, keep=st.integers(0, 3))
    def delete_all_but(self, group: str, keep: int) -> None:
        held = [(topic, partition) for topic, partition, _ in self.table.of_group(group)]
        for topic, partition in held[: len(held) - keep]:
            self.delete(group, topic, partition)

    @rule()
    def dump_and_restore(self) -> None:
        pieces = self.table.dump()
        self.table = OffsetTable.restore(b"".join(pieces))
        assert self.table.dump() == pieces

    @rule(group=GROUPS, topic=TOPICS, partition=PARTITIONS)
    def get(self, group: str, topic: str, partition: int) -> None:
        assert self.table.get(group, topic, partition) == self.model.get(group, {}).get(topic, {}).get(partition)

    @invariant()
    def the_same(self) -> None:
        for group in ("", "g", "groupé"):
            topics = self.model.get(group, {})
            assert self.table.has_offsets(group) == (group in self.model)
            assert list(self.table.of_group(group)) == [
                (topic, partition, partitions[partition])
                for topic, partitions in topics.items()
                for partition in sorted(partitions)
            ]
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    assert self.table.get(group, topic, partition) == committed
        assert len(self.table) == sum(
            len(partitions) for topics in self.model.values() for partitions in topics.values()
        )


TestTableAndDict = TableAndDict.TestCase
TestTableAndDict.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
