"""Offsets that were loaded and are not written over what the cluster has: as it seems somebody has committed there
while no shim had the group, and which are right is for people to say.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from protocol.offsets_log import CommittedOffset
from protocol.topic_partition import TopicPartition
from shim.coordinator.state.offsets import Before
from shim.counted import some_of
from shim.migration.compared import MOST_SHOWN, beside, further_on, to_bring
from shim.migration.mirror.alarms import Alarms
from shim.offsets.cluster.groups import Committed

log = logging.getLogger(__name__)

_OTHERS: Final = "the cluster has other offsets than were loaded here, and keeps them: {}"
_ONLY_BEHIND: Final = "only behind there ({}): {}"
_WHY: Final = (
    "somebody has committed there while no shim had the group, or they were set back or deleted here and the shim has "
    "ended before the cluster had that: "
)
_TAKE: Final = (
    "`groups reset {0} --from-upstream {1}` takes those of the cluster that are further on there, or there alone{2}, "
)
_LEAVE: Final = "`groups reset {0} --to-current --all-topics` leaves those of the shim, "
_TAKE_BACK: Final = (
    "`groups reset {0} --from-upstream` takes ALL partitions to what the cluster has, also back from commits that the "
    "shim has acknowledged and not brought there before it ended, "
)
_SEE: Final = "`--dry-run` shows it; see docs/migration.md, Coming back"
_BEHIND: Final = "offsets in the cluster are behind what was loaded here, and are brought up"
_WRITTEN_OVER: Final = "other offsets in the cluster are written over with what is committed here"


class Held:
    """For the event loop. The first look at a group that was loaded decides, and holds for as long as the process has
    it. What had not yet been brought to the cluster is behind there: where any offset is further on, or there alone,
    all are held that differ, those as well that are behind: whoever was there may have set them back, which nobody
    could tell any more, and waiting loses nothing. They are told apart, as a rewind to them may be one of commits that
    were acknowledged here. One that is committed here since it was loaded is held no more, be it to the same offset,
    and be it before that look; that it has expired here, or was deleted, changes nothing.
    """

    def __init__(self) -> None:
        self.due: Final = Before()
        """Groups that were loaded, and not looked at yet; with what was loaded where something was committed since."""
        self._loaded: set[int] = set()
        self._held: dict[str, Mapping[TopicPartition, CommittedOffset | None]] = {}
        self._alarms = Alarms()

    def loaded(self, number: int, groups: Iterable[str]) -> None:
        """The partition of groups, with these. One that is only read back is as it was: what was done meanwhile the
        process has done itself."""
        if number not in self._loaded:
            self._loaded.add(number)
            for group in groups:
                self.due.add(group)

    def given_up(self, number: int) -> None:
        """The partition is another process's by now."""
        self._loaded.discard(number)

    def is_due(self, group: str) -> bool:
        """Whether it was loaded, and not looked at yet."""
        return group in self.due.groups

    def is_open(self, group: str) -> bool:
        """Whether what the cluster has of the group is to be looked at."""
        return group in self.due.groups or group in self._held

    def as_loaded(self, group: str, own: Committed) -> Committed:
        """``own``: as the log has it by now. What was committed here since is left out, of a group that is due."""
        before = self.due.groups.get(group)
        if not before:
            return own
        loaded = {at: its for at, its in own.items() if at not in before}
        # Without when they expire, as `own` has them.
        return loaded | {
            TopicPartition(*at): CommittedOffset(*its[:4]) for at, its in before.items() if its is not None
        }

    def look(self, group: str, own: Committed, there: Committed, *, holds: bool = True) -> None:
        """The first time decides, on what was loaded; what was committed here since is brought there whatever there is.
        Not ``holds``: what differs is written over, and told."""
        if group not in self.due.groups:
            return
        loaded = self.as_loaded(group, own)
        since = self.due.take(group)
        # What was not durable may be gone again, where the partition has been read back.
        here = {at for at, its in own.items() if at in since and loaded.get(at) != its}
        changed, alone = to_bring(loaded, there)
        behind = changed.keys() & there.keys()
        differ = {*behind, *alone}
        is_any_further = bool(further_on(loaded, there, differ))
        over = differ if is_any_further and not holds else here & differ
        if told := [at for at in over if _offset(there, at) != _offset(own, at)]:
            tell_written_over(group, own, there, told)
        left = {at: loaded.get(at) for at in differ - over}
        if left and is_any_further:
            self._held[group] = left
            self._saw(group, loaded, there, left)
        elif left:  # as after any sudden end; or they were set back there, or held before, and nobody has answered
            _tell(group, _BEHIND, loaded, there, left)

    def to_bring(self, group: str, own: Committed, there: Committed) -> tuple[Committed, list[TopicPartition]]:
        """As :func:`shim.migration.compared.to_bring`, but for what is held."""
        changed, gone = to_bring(own, there)
        held = self._held.get(group)
        if held is None:
            return changed, gone
        differ = {*changed, *gone}
        left = {at: its for at, its in held.items() if at in differ and own.get(at, its) == its}
        over = [at for at in held if at not in left and at in differ and _offset(there, at) != _offset(own, at)]
        if over:
            tell_written_over(group, own, there, over)
        if left:
            self._held[group] = left
            self._saw(group, own, there, left)
        else:
            self.forget(group)
        return {at: its for at, its in changed.items() if at not in left}, [at for at in gone if at not in left]

    def __iter__(self) -> Iterator[str]:
        """Groups of which something is kept in mind."""
        return iter({*self.due.groups, *self._held})

    def _saw(self, group: str, own: Committed, there: Committed, kept: Iterable[TopicPartition]) -> None:
        further = further_on(own, there, kept)
        behind = set(kept).difference(further)
        told = [some_of(beside(own, there, further))] if further else []
        told += [_ONLY_BEHIND.format(len(behind), some_of(beside(own, there, behind)))] if behind else []
        self._alarms.saw(group, _OTHERS.format("; ".join(told)), _advice(group, further, is_any_behind=bool(behind)))

    def alarm(self, group: str) -> str:
        """What somebody should look at; "" where nothing is held."""
        return self._alarms.line(group)

    @property
    def alarmed(self) -> int:
        """Groups of which something is held."""
        return len(self._held)

    def forget(self, group: str) -> None:
        """Nothing of it is held any more, or will be: it was not loaded so."""
        self.due.take(group)
        if self._held.pop(group, None) is not None:
            self._alarms.over(group)


def tell_written_over(group: str, own: Committed, there: Committed, partitions: Iterable[TopicPartition]) -> None:
    _tell(group, _WRITTEN_OVER, own, there, partitions)


def _tell(group: str, what: str, own: Committed, there: Committed, partitions: Iterable[TopicPartition]) -> None:
    """The message is the event: none is left out for others, as nothing else says what has been there."""
    log.warning("%s", f"group {group}: {what}: {some_of(beside(own, there, partitions), most=MOST_SHOWN)}")


def _advice(group: str, further: Sequence[TopicPartition], *, is_any_behind: bool) -> str:
    only = f", the first {MOST_SHOWN} of them" if further[MOST_SHOWN:] else ""
    ways = [_TAKE] if further else []
    ways += [_LEAVE, _TAKE_BACK] if is_any_behind else [_LEAVE]
    said = "".join([_WHY, *ways, _SEE])
    return said.format(shlex.quote(group), _scope(further[:MOST_SHOWN]), only)


def _scope(partitions: Sequence[TopicPartition]) -> str:
    """The options that say so. ``partitions``: in their order."""
    topics = groupby(partitions, key=lambda at: at.topic)
    return " ".join(f"--topic {topic}:{','.join(str(at.partition) for at in those)}" for topic, those in topics)


def _offset(offsets: Committed, at: TopicPartition) -> int | None:
    return offsets[at].offset if at in offsets else None
