"""Requests about several groups: divided by whose these are, and what is answered put together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from protocol.errors import ErrorCode
from shim.api.authorization import AnyCall, Handle, Policy, authorized, authorized_for_groups
from shim.api.call import Services
from shim.api.hands.divided import By, Divided
from shim.api.hands.other_stores import Answer, Look, told_after_stores
from shim.api.hands.passing import Newer, Passing, passed_all
from shim.api.hands.when import FollowUp, at_their_steps, when
from shim.migration.hands.placements import SERVED, Whose

_Refused = Mapping[str, ErrorCode]


class ManyGroups(NamedTuple):
    """What becomes of requests about several groups, in whosever hands these are.

    ``divided``: by whose these are. ``look``: at what there is of those whose offsets are in another place, too, before
    that; None: they can do without. ``answer``: how they are answered, once it is known whether what they have changed
    is there; None: they change no offsets. ``newer``: by version that brokers have dropped.
    """

    divided: Divided
    look: Look | None = None
    answer: Answer | None = None
    newer: Mapping[int, Newer] = {}


def about_many(its: ManyGroups, policy: Policy, handle: Handle) -> Handle:
    """The handler; ``handle``: for those that the shim serves."""
    many, answer = its.divided, its.answer
    passing = Passing(its.newer, is_waited_for=answer is not None)
    served = authorized(policy, handle)

    def route(services: Services, call: AnyCall) -> FollowUp | None:
        whose = _whose(services, many.names(call.version, call.request))
        if all(each is Whose.SERVED for each in whose.values()):
            return served(services, call)
        if looking is None or not _has_to_look(services, whose):
            return divided(services, call, {})
        return looking(services, call)

    def at_these_steps(follows: Handle) -> Handle:
        """Where nothing is looked at nobody cares."""
        return follows if its.look is None else at_their_steps(names_of, follows)

    def names_of(call: AnyCall) -> Sequence[str]:
        return many.names(call.version, call.request)

    def look_first(look: Look, services: Services, call: AnyCall) -> FollowUp | None:
        whose = _whose(services, many.names(call.version, call.request))
        return when(call, _looked(look, services, whose), lambda refused: looked(refused)(services, call))

    def looked(refused: _Refused) -> Handle:
        """Of some it was found out only now whose they are."""
        return at_these_steps(lambda services, call: divided(services, call, refused))

    looking = None if its.look is None else authorized_for_groups(policy, partial(look_first, its.look))

    def divided(services: Services, call: AnyCall, refused: _Refused, *, is_confirmed: bool = False) -> FollowUp | None:
        names = many.names(call.version, call.request)
        whose = _whose(services, names)
        changing = [name for name, each in whose.items() if each is Whose.CHANGING]
        refused = {**refused, **dict.fromkeys(changing, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}
        if len(refused) == 1 == len(whose):
            call.fail(*refused.values())
            return None
        by = {name: _answers_for(name, whose[name], refused) for name in names}
        ours = {name for name in whose if by[name] is By.SHIM}
        theirs = {name for name in whose if by[name] is By.BROKER}
        if theirs and not (is_confirmed or services.placements.surely_here(theirs)):

            def confirmed(error: ErrorCode) -> FollowUp | None:
                also = dict.fromkeys(theirs, error) if error else {}
                return divided(services, call, {**refused, **also}, is_confirmed=True)

            return when(call, services.placements.confirmed_here(theirs), confirmed)
        in_stores = [name for name in ours if whose[name] is Whose.SERVED_WITH_STORES]
        if len(theirs) == len(whose):
            return passed_all(services, call, passing, theirs)
        if len(ours) == len(whose):
            return here(services, call, in_stores)
        answers = {By.NOBODY: many.refused(refused)}
        asked = None
        if theirs:
            asked = asyncio.ensure_future(call.ask_broker(request=many.only(call.request, theirs)))
            if passing.is_waited_for:
                services.placements.passing(theirs, asked)

        def the_rest(frame: bytes | None) -> FollowUp | None:
            if frame is not None:
                answers[By.BROKER] = call.parse_response(call.version, frame)
            if not ours:
                call.answer(many.merged(names, by, answers))
                return None
            call.request = many.only(call.request, ours)
            call.amend(lambda response: many.merged(names, by, {**answers, By.SHIM: response}))
            return here(services, call, in_stores)

        return the_rest(None) if asked is None else when(call, asked, the_rest)

    def here(services: Services, call: AnyCall, in_stores: Sequence[str]) -> FollowUp | None:
        if in_stores and answer is not None:
            return told_after_stores(services, call, in_stores, served, answer)
        return served(services, call)

    return at_these_steps(route)


def _whose(services: Services, names: Iterable[str]) -> dict[str, Whose]:
    return {name: services.placements.of(name) for name in names}


def _answers_for(name: str, whose: Whose, refused: _Refused) -> By:
    if name in refused:
        return By.NOBODY
    return By.SHIM if whose in SERVED else By.BROKER


# --- what is found out before ----------------------------------------------------------------------------------------


def _has_to_look(services: Services, whose: Mapping[str, Whose]) -> bool:
    return bool(_in_other_places(whose)) or (services.stores.has_zookeeper and Whose.UNKNOWN in whose.values())


async def _looked(look: Look, services: Services, whose: Mapping[str, Whose]) -> _Refused:
    """One that nobody has asked for may have its offsets in ZooKeeper."""
    in_stores, refused = _in_other_places(whose), dict[str, ErrorCode]()
    unknown = [name for name, each in whose.items() if each is Whose.UNKNOWN] if services.stores.has_zookeeper else []
    failed = ErrorCode.NONE
    for name in unknown:  # one after the other: new groups of others have their turns between them
        failed = failed or await services.first_contact.find_out(name, None)
        if failed:  # so would the others, after as long a wait
            refused[name] = failed
        elif services.placements.of(name) is Whose.SERVED_WITH_STORES:
            in_stores.append(name)
    return {**refused, **await look(services.stores, in_stores)}


def _in_other_places(whose: Mapping[str, Whose]) -> list[str]:
    return [name for name, each in whose.items() if each is Whose.SERVED_WITH_STORES]
