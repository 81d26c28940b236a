"""Whoever follows a partition for long and takes it over has what a reading from its beginning would make, whatever was
decided, compacted and lost meanwhile."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.kafka_log.deciding import Deciding, Key, known
from tests.kafka_log.topic_partition import Standby

STEPS: Final = 150
GROUPS: Final = ("g", "h")
TOPICS: Final = ("a", "b")


class Followed:
    """An owner that decides, the topic, and a standby that reads some of it now and then."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.d = Deciding(most_bytes=200)
        self.standby = Standby()
        self.compacted = 0
        self.compared = 0

    @property
    def end(self) -> int:
        return self.d.topic.ends[-1]

    def place(self) -> tuple[str, int]:
        return self.rng.choice(TOPICS), self.rng.randint(0, 1)

    # -- what is decided

    def commit(self) -> None:
        self.d.commit(offsets=[(*self.place(), self.rng.randint(0, 99))], group=self.rng.choice(GROUPS))

    def delete_offset(self) -> None:
        topic, number = self.place()
        self.d.delete_offsets((topic, [number]), group=self.rng.choice(GROUPS))

    def delete_group(self) -> None:
        self.d.delete_group(self.rng.choice(GROUPS))

    def begin(self) -> None:
        keys: list[Key] = [(self.rng.choice(GROUPS), *self.place()) for _ in range(self.rng.randint(1, 3))]
        self.d.begin(self.rng.randint(1, 3), *keys, offset=self.rng.randint(100, 199))

    def end_one(self) -> None:
        pending = sorted(self.d.coordinator._state.offsets.transactions.pending)
        if pending:
            followed, producer = self.rng.choice(pending)
            self.d.end(producer, committed=self.rng.random() < 0.7, followed=followed)

    # -- what becomes of the topic

    def compact(self) -> None:
        """A tombstone goes some time after what it deletes. Whoever was at the end lately has read it by then."""
        read, below = self.standby.position.next_offset, round(self.rng.choice([0.5, 1.0, 1.0]) * self.end)
        self.d.topic.compact(below, lambda it: it.offset < read and self.rng.random() < 0.7)
        self.compacted = max(self.compacted, below)

    def compact_behind_one_that_reads_no_more(self) -> None:
        self.d.topic.compact(self.end, lambda _: self.rng.random() < 0.7)
        self.compacted = self.end
        self.standby = Standby()

    def another_leader(self) -> None:
        self.d.topic.led_anew(self.end)

    def lose_the_end(self) -> None:
        """Whoever owns it begins anew; it grows again before anybody else looks. The next leader has compacted nothing
        by what it does not have."""
        left = [end for end in self.d.topic.ends if end >= self.compacted]
        self.d.topic.led_anew(left[max(0, len(left) - self.rng.randint(2, 5))])
        self.d.load(self.d.topic.replayed())
        for _ in range(self.rng.randint(0, 12)):
            self.commit()
        self.look()

    # -- who follows

    def look(self) -> None:
        """As whoever reads on does, or takes over."""
        position = self.standby.position
        if position.next_offset and self.d.topic.agreed(position) != position:
            self.standby = Standby()

    def read(self) -> None:
        self.standby.read(self.d.topic, round(self.rng.random() * self.end))

    def take_over(self) -> None:
        """And follow on, as far as this test goes."""
        self.standby.read(self.d.topic, self.end)
        expected = known(self.d.topic.replayed())
        assert known(self.standby.copy.coordinator) == expected
        assert expected == known(self.d.coordinator)
        self.compared += 1


STEP_WEIGHTS: Final = {
    Followed.commit: 20,
    Followed.delete_offset: 10,
    Followed.delete_group: 3,
    Followed.begin: 12,
    Followed.end_one: 10,
    Followed.compact: 10,
    Followed.compact_behind_one_that_reads_no_more: 1,
    Followed.another_leader: 3,
    Followed.lose_the_end: 3,
    Followed.read: 15,
    Followed.take_over: 8,
}


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 5_000), marks=pytest.mark.soak)])
def test_whoever_follows_has_what_a_reading_makes(seeds: range) -> None:
    for seed in seeds:
        its = Followed(Random(seed))
        for step in its.rng.choices(list(STEP_WEIGHTS), list(STEP_WEIGHTS.values()), k=STEPS):
            step(its)
        its.take_over()
        assert its.compared > 1
