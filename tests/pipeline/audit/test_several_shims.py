"""Each of several shims that share a log knows the steps of its own groups alone: none is taken for one that nobody
serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from pipeline.audit.admin_port import admin_ports
from pipeline.audit.steps import steps_of_groups
from pipeline.audit.verdicts import NOT_KNOWN
from pipeline.audit.words import CannotRead
from shim.admin.live.asked.migration import Refused
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of


class Shims(NamedTuple):
    """Two, and their admin ports: ``one`` has the partitions of "a" and "unheard-1", ``other`` those of "b" and
    "unheard-2"."""

    one: Moved
    other: Moved
    at_one: str
    at_other: str

    @property
    def at_both(self) -> str:
        return f"{self.at_one},{self.at_other}"


GROUPS = ("a", "b", "unheard-1", "unheard-2")


@pytest.fixture
def shims() -> Iterator[Shims]:
    one, other = Moved(), Moved()
    one.add("a", step="kafka+dual")
    other.add("b", step="zookeeper")
    one.uncertain = dict(map(elsewhere, ("b", "unheard-2")))
    other.uncertain = dict(map(elsewhere, ("a", "unheard-1")))
    with ExitStack() as running:
        yield Shims(one, other, *(running.enter_context(admin_of(each)) for each in (one, other)))


def elsewhere(group: str) -> tuple[str, Exception]:
    return group, Refused(f"the partition of group {group} is at another shim, 10.0.0.5:19092 (ask its --admin)")


def test_each_tells_of_its_own(shims: Shims) -> None:
    steps = {"a": "kafka+dual", "b": "zookeeper", "unheard-1": NOT_KNOWN, "unheard-2": NOT_KNOWN}
    assert steps_of_groups(admin_ports(shims.at_both, None), GROUPS) == steps


def test_groups_of_one_that_is_not_asked_have_no_step(shims: Shims) -> None:
    ports = admin_ports(shims.at_one, None)
    with pytest.raises(CannotRead) as told:
        steps_of_groups(ports, GROUPS)
    assert str(told.value) == (
        f"2 groups of which no step is known: the shim's admin port at {shims.at_one}: group unheard-2: "
        "the partition of group unheard-2 is at another shim, 10.0.0.5:19092 (ask its --admin). "
        "Of shims that share a log --admin takes all: H:P,H:P"
    )
    assert steps_of_groups(ports, ["a", "unheard-1"]) == {"a": "kafka+dual", "unheard-1": NOT_KNOWN}


def test_a_group_that_has_come_to_one_meanwhile_is_asked_for_again(shims: Shims) -> None:
    shims.one.add("late", step="kafka")
    shims.one.unheard.add("late")
    assert steps_of_groups(admin_ports(shims.at_both, None), ["late"]) == {"late": "kafka"}


def test_partitions_that_are_not_served_are_not_passed_over(shims: Shims) -> None:
    shims.other.lacks.append("1 of 50 partitions is not loaded")
    with pytest.raises(CannotRead) as told:
        steps_of_groups(admin_ports(shims.at_both, None), ["a"])
    line = "not all groups are known: 1 of 50 partitions is not loaded"
    assert str(told.value) == f"the shim's admin port at {shims.at_other}: {line}"


def test_one_that_cannot_tell_is_named(shims: Shims) -> None:
    shims.other.broken.add("b")
    with pytest.raises(CannotRead) as told:
        steps_of_groups(admin_ports(shims.at_both, None), ["b"])
    assert shims.at_other in str(told.value)
