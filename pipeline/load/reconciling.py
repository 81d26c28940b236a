"""Where a group goes on: what the table says, beside what the group has committed. Pure.

Exactly once is the table's word: a batch's data and ends become visible in one moment. The group's offsets are a record
of it, committed a moment later, so there are two places where they may rightly be: the table's ends, and where the last
batch began (it broke off in between, and is caught up with now). Anywhere else somebody has moved them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.errors import NotDone
from pipeline.load.offsets import Offsets, TopicPartition
from pipeline.load.record import BatchRecord

_SHOWN = 3  # partitions in one line


class Moved(NamedTuple):
    """A partition where the group is not where the table says."""

    at: TopicPartition
    in_table: int
    committed: int


@dataclass(frozen=True)
class Reconciled:
    """``starts``: where partitions go on; those without stand nowhere yet. ``behind``: what the group is to be given,
    as the table has it already. ``moved``: what was accepted from the group."""

    starts: dict[TopicPartition, int]
    behind: dict[TopicPartition, int]
    moved: tuple[Moved, ...]


def check_same(last: BatchRecord | None, cluster_id: str, topic_ids: Mapping[str, str], *, accept: bool) -> set[str]:
    """The topics that are not those which the table was loaded from. Raises NotDone for them without ``accept``."""
    if last is None:
        return set()
    if last.cluster_id and cluster_id and last.cluster_id != cluster_id:
        if not accept:
            raise NotDone(
                f"the table was loaded from cluster {last.cluster_id}, and this is {cluster_id}: "
                "--accept-group-offsets goes on from where the group is here"
            )
        return set(topic_ids)
    anew = made_anew(last.topic_ids, topic_ids)
    if anew and not accept:
        raise NotDone(
            f"topic {', '.join(sorted(anew))} was deleted and made anew since batch {last.number}: "
            "--accept-group-offsets goes on from where the group is now"
        )
    return anew


def made_anew(then: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """The topics of which both have an id, and not the same one. Empty text is none: brokers before 2.8 have none."""
    known = known_ids(then)
    return {topic for topic, topic_id in known_ids(now).items() if known.get(topic, topic_id) != topic_id}


def known_ids(topic_ids: Mapping[str, str]) -> dict[str, str]:
    return {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id}


def reconcile(
    last: BatchRecord | None,
    committed: Offsets,
    partitions: Iterable[TopicPartition],
    *,
    accept: bool = False,
    anew: frozenset[str] | set[str] = frozenset(),
) -> Reconciled:
    """``last``: the newest whole batch of this group in the table. ``anew``: topics of which the table's word is void.

    Raises NotDone where somebody has moved the group, unless ``accept``: then its offsets count.
    """
    starts: dict[TopicPartition, int] = {}
    behind: dict[TopicPartition, int] = {}
    moved: list[Moved] = []
    for at in partitions:
        has = committed.get(at)
        end = None if last is None or at.topic in anew else last.ends.get(at)
        if end is None:
            if has is not None:
                starts[at] = has
            continue
        assert last is not None, "it has an end"
        starts[at] = end
        if has == end:
            continue
        if has is None or has == last.starts.get(at):
            behind[at] = end
            continue
        moved.append(Moved(at, end, has))
        starts[at] = has
    if moved and not accept:
        raise NotDone(_told(last, moved))
    return Reconciled(starts, behind, tuple(moved))


def _told(last: BatchRecord | None, moved: list[Moved]) -> str:
    assert last is not None, "nothing can be moved against it"
    each = [f"{one.at} is at {one.committed}, in the table up to {one.in_table}" for one in moved[:_SHOWN]]
    if len(moved) > _SHOWN:
        each.append(f"{len(moved) - _SHOWN} more")
    doubled = any(one.committed < one.in_table for one in moved)
    skipped = any(one.committed > one.in_table for one in moved)
    harm = " and ".join([*["loads records again"] * doubled, *["leaves records out"] * skipped])
    return (
        f"somebody has moved group {last.group}: {'; '.join(each)}. Put it back, or give --accept-group-offsets, "
        f"which {harm}"
    )
