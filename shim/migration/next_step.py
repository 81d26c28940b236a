"""To which step a move takes a group, or why it takes it nowhere. Of one that is passed through the step is None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from protocol.own.state_log import Step
from shim.migration.words import STORAGES, Refused

_STEPS: Final = tuple(STORAGES)


def after(group: str, place: Step | None) -> Step | None:
    """One step on. Raises Refused."""
    if place is None:
        raise Refused(f"group {group} is in the cluster's hands already: there is no step after that")
    return None if place is Step.UPSTREAM_DUAL else _STEPS[_STEPS.index(place) + 1]


def before(group: str, place: Step | None, *, from_zookeeper: bool) -> Step | None:
    """One step back. Raises Refused."""
    if place is None and from_zookeeper:
        return Step.UPSTREAM_DUAL
    if place is None:
        raise Refused(f"group {group} is in the cluster's hands already")
    if place is Step.KAFKA and not from_zookeeper:
        return None
    if place is Step.ZOOKEEPER:
        raise Refused(f"the offsets of group {group} are in ZooKeeper alone: there is no step before that")
    return _STEPS[_STEPS.index(place) - 1]


NEXT: Final[Mapping[str, Callable[[str, Step | None, bool], Step | None]]] = {
    "advance": lambda group, place, _: after(group, place),
    "rollback": lambda group, place, from_zookeeper: before(group, place, from_zookeeper=from_zookeeper),
}
"""By the move: of a group, at that step, and whether its offsets were in ZooKeeper."""
