"""The groups at one coordinator, from the first join to the last leave, and all that has to be true of it."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from protocol.messages import describe_groups
from tests.cluster.asking import committed_offsets
from tests.conftest import TopicFactory
from tests.migration.adopted_groups import commit_all
from tests.rebalancing.history import Event, overlaps, violations
from tests.rebalancing.rebalance_times import Times, exchanging, gathered, settling
from tests.rebalancing.running import Running
from tests.rebalancing.timetable import Group, timetable
from tests.wire import WireClient

_POLL_S = 0.2
_GOES = ("leave", "kill", "freeze")
_SETTLES_WITHIN_S = 90.0
_COMMITTED_WITHIN_S = 60.0
_FAILS_WITHIN_S = 120.0


class Plan(NamedTuple):
    """`session`: the members' session time-out, in seconds. `rate`: records a second. `kinds`: by group's name."""

    groups: tuple[Group, ...]
    kinds: Mapping[str, Sequence[str]]
    seed: int
    seconds: float
    session: float
    pause: tuple[float, float]
    rate: int


class Side(NamedTuple):
    """What was measured at one coordinator. `histories`: by the group's name in the plan; `names`: its group id."""

    names: Mapping[str, str]
    histories: Mapping[str, Sequence[Event]]
    times: Times
    changes: Mapping[str, int]
    records: int
    generations: int


def at(port: int, plan: Plan, folder: Path, make_topic: TopicFactory) -> Side:
    """Follow the plan at the coordinator behind this port of 127.0.0.1. Raises AssertionError for what is not true."""
    folder.mkdir()
    names = {group.name: make_topic(group.partitions, name=f"{group.name}-{_id()}") for group in plan.groups}
    actions = {
        group.name: timetable(
            group, random.Random(f"{plan.seed} {group.name}"), plan.session, plan.seconds, plan.pause, kinds
        )
        for group in plan.groups
        for kinds in [plan.kinds[group.name]]
    }
    bootstrap = f"127.0.0.1:{port}"
    for group in plan.groups:
        _begin(bootstrap, names[group.name], group.partitions)
    with Running(folder, bootstrap, plan.groups, names, plan.session) as running:
        running.start_producing(plan.rate)
        running.start_all(_SETTLES_WITHIN_S)
        running.follow(actions, plan.seconds)
        running.wait("all groups have settled at the end", running.settled, _SETTLES_WITHIN_S)
        running.end_producing()
        for group in plan.groups:
            counts = Counter(partition for partition, _, _ in running.produced[names[group.name]])
            ends = {partition: counts[partition] for partition in range(group.partitions)}
            _wait_committed(running, port, names[group.name], ends)
        running.end_all()
        for name in names.values():
            _wait_empty(running, port, name, plan.session)
        produced = running.produced
        histories = {group.name: running.history(group) for group in plan.groups}
    wrong = {
        group.name: found
        for group in plan.groups
        if (found := violations(histories[group.name], produced[names[group.name]]))
    }
    assert not wrong, wrong
    return Side(
        names,
        histories,
        gathered(sample for group in plan.groups for sample in _samples(group, histories[group.name])),
        Counter(action.why for of_group in actions.values() for action in of_group if action.what in _GOES),
        sum(map(len, produced.values())),
        len({(name, e.generation) for name, events in histories.items() for e in events if e.what == "assigned"}),
    )


def until_one_fails(port: int, plan: Plan, folder: Path, make_topic: TopicFactory) -> NoReturn:
    """Members that are left to themselves, until one of them ends. Raises MembersFailed, which says how."""
    folder.mkdir()
    names = {group.name: make_topic(group.partitions, name=f"{group.name}-{_id()}") for group in plan.groups}
    bootstrap = f"127.0.0.1:{port}"
    for group in plan.groups:
        _begin(bootstrap, names[group.name], group.partitions)
    with Running(folder, bootstrap, plan.groups, names, plan.session) as running:
        running.start_producing(plan.rate)
        for group in plan.groups:
            for member in group.members:
                running.start(member)
        running.wait("the end of a member", lambda: False, _FAILS_WITHIN_S)
    raise AssertionError("it has waited for what never holds")


def _samples(group: Group, history: Sequence[Event]) -> Iterator[tuple[str, float]]:
    protocol = "cooperative" if group.strategy == "cooperative-sticky" else "eager"
    static = [member.name for member in group.members if member.instance]
    for what, seconds in settling(history, group.partitions, static):
        yield f"{protocol}: {what}", seconds
    if protocol == "eager":
        for seconds in exchanging(history):
            yield "eager: first revoke to last assignment", seconds


def told(side: Side, plan: Plan) -> str:
    """What went on, what members of which library were refused, and which held a partition that was another's."""
    libraries = {member.name: member.library for group in plan.groups for member in group.members}
    events = [event for history in side.histories.values() for event in history]
    kinds = Counter(event.what for event in events)
    refused = Counter(f"{libraries[event.member]} {event.why}" for event in events if event.what == "commit_failed")
    held_on = Counter(
        libraries[overlap.earlier] + (" (had been frozen)" if overlap.frozen else "")
        for history in side.histories.values()
        for overlap in overlaps(history)
    )
    return (
        f"{side.records} records, {kinds['committed']} commits, {side.generations} generations; changes: "
        f"{dict(side.changes)}; commits refused: {dict(refused)}; partitions held in an older generation, "
        f"when they were another's: {dict(held_on)}; load average {os.getloadavg()[0]:.0f}"
    )


def _id() -> str:
    return uuid.uuid4().hex[:8]


def _begin(bootstrap: str, name: str, partitions: int) -> None:
    """The group has an offset for each partition, 0, so that no member is ever to be without one.

    Where there is none, librdkafka 2.16.0 asks the leader where to begin, and may go on to fetch from the answer when
    the partition was revoked meanwhile, in place of the offset that it is told the next time. A coordinator that told a
    wrong one would look the same.
    """
    commit_all(bootstrap, {name: dict.fromkeys(range(partitions), 0)}, name)


def _wait_committed(running: Running, port: int, name: str, ends: Mapping[int, int]) -> None:
    """Until everything that was produced is committed, and nothing more: of a partition without records, 0."""
    deadline = time.monotonic() + _COMMITTED_WITHIN_S
    while (committed := dict(committed_offsets(port, name))) != dict(ends):
        running.check_running()
        if time.monotonic() > deadline:
            behind = {p: (committed.get(p), end) for p, end in ends.items() if committed.get(p) != end}
            running.fail(f"{name}: not committed to the end: {behind}")
        time.sleep(_POLL_S)  # nobody is told of another's commits


def state(port: int, name: str) -> tuple[str, int]:
    """The group's state, and how many members it has."""
    with WireClient(port) as client:
        (group,) = client.ask(describe_groups.API, 5, describe_groups.DescribeGroupsRequest((name,))).groups
    return group.group_state, len(group.members)


def _wait_empty(running: Running, port: int, name: str, session: float) -> None:
    """Static members do not leave; their sessions run out."""
    deadline = time.monotonic() + session + _SETTLES_WITHIN_S
    while (found := state(port, name)) != ("Empty", 0):
        if time.monotonic() > deadline:
            running.fail(f"{name} is {found}")
        time.sleep(_POLL_S)  # nor of another's end
