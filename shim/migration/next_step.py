"""To which step a move takes a group, or why it takes it nowhere. Of one that is passed through the step is None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from protocol.own.state_log import Step
from shim.migration.words import STEP_NAMES, Refused, StepMove

_STEPS: Final = tuple(STEP_NAMES)


def after(group: str, step: Step | None) -> Step | None:
    """One step on. Raises Refused."""
    if step is None:
        raise Refused(f"group {group} is in the cluster's hands already: there is no step after that")
    return _STEPS[_STEPS.index(step) + 1]


def before(group: str, step: Step | None, *, from_zookeeper: bool) -> Step | None:
    """One step back. Raises Refused."""
    if step is None and not from_zookeeper:
        raise Refused(f"group {group} is in the cluster's hands already")
    if step is Step.KAFKA and not from_zookeeper:
        return None
    if step is Step.ZOOKEEPER:
        raise Refused(f"group {group} is at {STEP_NAMES[step]}: there is no step before that")
    return _STEPS[_STEPS.index(step) - 1]


NEXT: Final[Mapping[StepMove, Callable[[str, Step | None, bool], Step | None]]] = {
    "advance": lambda group, step, _: after(group, step),
    "rollback": lambda group, step, from_zookeeper: before(group, step, from_zookeeper=from_zookeeper),
}
"""By the move: of a group, at that step, and whether its offsets were in ZooKeeper."""
