"""What was committed for one group, what of it was acknowledged, and whether what is served goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class Committed(NamedTuple):
    """One partition's offset as it was committed, or as it is served. `leader_epoch` is -1 for none."""

    offset: int
    leader_epoch: int
    metadata: str


Offsets: TypeAlias = Mapping[int, Committed]
"""By partition of the one topic."""


class WrongOffsets(AssertionError):
    """What is served is nothing that may be served."""


class GroupHistory:
    """The commits of one group, each sent after the one before, on one connection at a time.

    So they are in the log in that order, and what is served after a crash must be the group's offsets after one of
    them: not before the last acknowledged one (a commit lost, or an offset gone backwards), not after one that was
    never sent, and not between two (half a commit).
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.number = 0  # of the last commit sent; its offset in all its partitions
        self.acknowledged = 0  # how many of `_sent`
        self._base: dict[int, Committed] = {}
        self._sent: list[Offsets] = []
        self.all_acknowledged: list[Offsets] = []

    def sending(self, offsets: Offsets) -> None:
        """A commit of all of these at once is about to be sent."""
        self._sent.append(offsets)

    def acknowledge(self) -> None:
        """The oldest commit that was not acknowledged before is acknowledged."""
        if self.acknowledged == len(self._sent):
            raise WrongOffsets(f"{self.group}: more answers than commits")
        self.all_acknowledged.append(self._sent[self.acknowledged])
        self.acknowledged += 1

    def check(self, served: Offsets) -> None:
        """Whether `served` may be served now; it is what the next check starts from. Raises WrongOffsets.

        To be called when nothing is under way any more.
        """
        state = dict(self._base)
        states = [dict(state)]
        for offsets in self._sent:
            state.update(offsets)
            states.append(dict(state))
        for state in states[self.acknowledged :]:
            if state == served:
                self._base, self._sent, self.acknowledged = state, [], 0
                return
        raise WrongOffsets(self._explained(dict(served), states))

    def _explained(self, served: dict[int, Committed], states: list[dict[int, Committed]]) -> str:
        least = states[self.acknowledged]
        if served in states:
            after = states.index(served)
            return (
                f"{self.group}: served is commit {after}, {self.acknowledged} were acknowledged: {served} not {least}"
            )
        wrong = {
            partition: (served.get(partition), least.get(partition))
            for partition in served.keys() | least.keys()
            if served.get(partition) != least.get(partition)
        }
        return f"{self.group}: these offsets never stood together; by partition, served and acknowledged: {wrong}"
