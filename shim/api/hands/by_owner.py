"""In front of everything else about groups: does this process own their offsets partitions, or another one?

What the client may do is asked here in either case, as that client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from shim.api.authorization import AnyCall, Handle, Policy, authorized
from shim.api.call import Services
from shim.api.hands.divided import By, Divided
from shim.api.hands.when import FollowUp, when
from shim.api.owners import at_owner, forwarded
from shim.forwarding import Failed, Peer


def one_by_owner(kept: Callable[[Any], Any] | None, policy: Policy, here: Handle) -> Handle:
    """The handler, for requests about one group. ``kept``: see :func:`shim.api.owners.forwarded`. ``here``: for a group
    whose partition no other process owns."""

    def forward(services: Services, call: AnyCall) -> FollowUp | None:
        peer = services.owner_elsewhere(call.request.group_id)
        if peer is None:  # since a moment ago
            return here(services, call)
        call.connection.pause_requests()
        return forwarded(services, call, peer, kept)

    allowed = authorized(policy, forward)

    def route(services: Services, call: AnyCall) -> FollowUp | None:
        if services.peers is None or services.owner_elsewhere(call.request.group_id) is None:
            return here(services, call)
        return allowed(services, call)

    return route


def many_by_owner(many: Divided, policy: Policy, here: Handle) -> Handle:
    """As :func:`one_by_owner`, about several: divided by who owns their partitions."""

    def owners(services: Services, call: AnyCall) -> Mapping[str, Peer | None]:
        names = many.names(call.version, call.request)
        return {name: services.owner_elsewhere(name) for name in dict.fromkeys(names)}

    def forward(services: Services, call: AnyCall) -> FollowUp | None:
        owned_by = owners(services, call)
        peers = {peer for peer in owned_by.values() if peer is not None}
        if not peers:
            return here(services, call)
        if len(peers) == 1 and None not in owned_by.values():
            call.connection.pause_requests()
            return forwarded(services, call, peers.pop())
        asked = asyncio.gather(*(part(services, call, peer, owned_by) for peer in peers))
        return when(call, asked, lambda answers: the_rest(services, call, owned_by, dict(answers)))

    async def part(
        services: Services, call: AnyCall, peer: Peer, owned_by: Mapping[str, Peer | None]
    ) -> tuple[Peer, Any]:
        names = {name for name, owner in owned_by.items() if owner == peer}
        frame = call.broker_frame(call.version, many.only(call.request, names))
        try:
            answer = call.parse_response(call.version, await at_owner(services, call.connection, peer, frame))
        except Failed as failed:
            return peer, many.refused(dict.fromkeys(names, failed.error))
        call.counted_elsewhere(answer)
        return peer, answer

    def the_rest(
        services: Services, call: AnyCall, owned_by: Mapping[str, Peer | None], answers: Mapping[Peer, Any]
    ) -> FollowUp | None:
        names = many.names(call.version, call.request)
        by: dict[str, Hashable] = {name: By.SHIM if peer is None else peer for name, peer in owned_by.items()}
        told: dict[Hashable, Any] = {By.NOBODY: many.refused({}), **answers}
        ours = {name for name, peer in owned_by.items() if peer is None}
        if not ours:
            call.answer(many.merged(names, by, told))
            return None
        call.request = many.only(call.request, ours)
        call.amend(lambda response: many.merged(names, by, {**told, By.SHIM: response}))
        return here(services, call)

    allowed = authorized(policy, forward)

    def route(services: Services, call: AnyCall) -> FollowUp | None:
        if services.peers is None or not any(owners(services, call).values()):
            return here(services, call)
        return allowed(services, call)

    return route
