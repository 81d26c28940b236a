"""Who joins, leaves, is killed and comes back, and when: seeded, the same for every coordinator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

JAVA = "java"


class Member(NamedTuple):
    """`instance`: it has a `group.instance.id`. `host`: a JVM that it shares with others, so it is not killed."""

    name: str
    library: str
    instance: bool = False
    host: str = ""


class Group(NamedTuple):
    """All its members offer the one `strategy`, and read one topic with so many partitions."""

    name: str
    strategy: str
    partitions: int
    members: tuple[Member, ...]


class Action(NamedTuple):
    """`at`: seconds from the start. `what`: start, leave, kill, freeze (it stands still) or thaw. `why`: of KINDS."""

    at: float
    member: Member
    what: str
    why: str


Step = tuple[float, Member, str]
Change = Callable[[random.Random, float, Sequence[Member]], list[Step]]


class Kind(NamedTuple):
    """`may`: which members. `rest`: sessions that the group needs at least before the next change."""

    change: Change
    may: Callable[[Member], bool]
    rest: float = 0.0


def _away(what: str, back: str, least: float, most: float) -> Change:
    """One member goes in this way, and comes back after between `least` and `most` sessions."""

    def change(rng: random.Random, session: float, members: Sequence[Member]) -> list[Step]:
        member = rng.choice(members)
        return [(0.0, member, what), (rng.uniform(least, most) * session, member, back)]

    return change


def _several(rng: random.Random, session: float, members: Sequence[Member]) -> list[Step]:
    """Half of the members leave at once, and come back at once."""
    chosen = rng.sample(members, max(1, len(members) // 2))
    return [(at, member, what) for at, what in ((0.0, "leave"), (session / 2, "start")) for member in chosen]


def _dynamic(member: Member) -> bool:
    return not member.instance


def _mortal(member: Member) -> bool:
    return not member.instance and not member.host


def _static(member: Member) -> bool:
    return member.instance


def _mortal_static(member: Member) -> bool:
    return member.instance and not member.host


KINDS = {
    "leaves": Kind(_away("leave", "start", 0.5, 0.8), _dynamic),
    "killed, away longer than its session": Kind(_away("kill", "start", 1.5, 1.7), _mortal),
    "killed, back at once": Kind(_away("kill", "start", 0.05, 0.1), _mortal, 1.2),
    "static, killed, back within its session": Kind(_away("kill", "start", 0.05, 0.2), _mortal_static),
    "static, killed, away longer than its session": Kind(_away("kill", "start", 1.5, 1.7), _mortal_static),
    "static, closes, back within its session": Kind(_away("leave", "start", 0.05, 0.2), _static),
    "frozen for longer than its session": Kind(_away("freeze", "thaw", 1.5, 1.7), _mortal),
    "several leave": Kind(_several, _dynamic),
}


def timetable(
    group: Group,
    rng: random.Random,
    session: float,
    seconds: float,
    pause: tuple[float, float],
    kinds: Sequence[str] = tuple(KINDS),
) -> list[Action]:
    """All `kinds` in a random order, again and again, with pauses of so many seconds (least, most), for `seconds`.

    Everybody is there when it begins, and whenever one change has ended.
    """
    actions: list[Action] = []
    now = 0.0
    while True:
        for why in rng.sample(kinds, len(kinds)):
            kind = KINDS[why]
            if members := [member for member in group.members if kind.may(member)]:
                now += rng.uniform(*pause)
                steps = kind.change(rng, session, members)
                ends = now + steps[-1][0]
                if ends > seconds:
                    return actions
                actions += [Action(now + at, member, what, why) for at, member, what in steps]
                now = ends + kind.rest * session
