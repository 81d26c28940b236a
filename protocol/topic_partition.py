"""A partition of a topic, by the topic's name and its number: what there are offsets of."""

from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
