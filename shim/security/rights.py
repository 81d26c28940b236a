"""What one client connection may do, as far as the cluster has said so lately. Pure; time is an argument.

Kafka's own words (KIP-11, Kafka 4.3): an operation on a resource. Only those are here that the requests need which the
shim serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

MOST_KEPT: Final = 1000
"""Answers that are kept for a connection; the oldest goes for a new one."""
LONGEST_KEPT: Final = 512
"""Characters of a name: longer ones are asked for each time."""


class Right(IntEnum):
    """An operation, and the kind of resource that it is on."""

    READ_GROUP = 0
    DESCRIBE_GROUP = 1
    DELETE_GROUP = 2
    READ_TOPIC = 3
    DESCRIBE_TOPIC = 4
    WRITE_TRANSACTIONAL_ID = 5
    DESCRIBE_CLUSTER = 6


RIGHTS_ON_GROUPS: Final = frozenset({Right.READ_GROUP, Right.DESCRIBE_GROUP, Right.DELETE_GROUP})


class Need(NamedTuple):
    """A right to the resource of that name."""

    right: Right
    name: str


CLUSTER: Final = Need(Right.DESCRIBE_CLUSTER, "kafka-cluster")


class _Answer(NamedTuple):
    granted: bool
    until: float


class Rights:
    """What the cluster has answered to a connection, each answer good for ``keep_seconds``. Times are in seconds, of
    any one clock."""

    __slots__ = ("_answers", "_keep_seconds")

    def __init__(self, keep_seconds: float) -> None:
        self._keep_seconds = keep_seconds
        self._answers: dict[Need, _Answer] = {}

    def has_all(self, needs: Iterable[Need], now: float) -> bool:
        """Whether each of them is known to be granted."""
        answers = self._answers
        for need in needs:
            answer = answers.get(need)
            if answer is None or not answer.granted or answer.until <= now:
                return False
        return True

    def known(self, needs: Iterable[Need], now: float) -> dict[Need, bool]:
        """What is known of them."""
        found = {}
        for need in needs:
            answer = self._answers.get(need)
            if answer is not None and answer.until > now:
                found[need] = answer.granted
        return found

    def learn(self, answers: Mapping[Need, bool], asked_at: float) -> None:
        """Take in what the cluster has answered to what it was asked at that time."""
        for need, granted in answers.items():
            if len(need.name) > LONGEST_KEPT or self._keep_seconds <= 0:
                continue
            self._answers.pop(need, None)  # so that it goes to the end
            if len(self._answers) >= MOST_KEPT:
                del self._answers[next(iter(self._answers))]
            self._answers[need] = _Answer(granted, asked_at + self._keep_seconds)

    def forget(self) -> None:
        """Somebody else may speak on the connection from now on."""
        self._answers.clear()

    def __len__(self) -> int:
        return len(self._answers)
