"""A partition of a topic, by the topic's name and its number: what there are offsets of."""

from typing import NamedTuple, TypeAlias

Partition: TypeAlias = tuple[str, int]
"""Where it is a key of many, as a plain pair."""


class TopicPartition(NamedTuple):
    """The same with names: equal to the pair, and found by it. In words it is what its folder is called, and the
    transactional id of who writes it to a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
