"""Asks the cluster what a connection may do, by probes over the connection's own link to a broker: as that client."""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Awaitable, Callable, Collection
from itertools import islice
from typing import Any, Final

from protocol.api import Api
from protocol.errors import DecodeError
from protocol.headers import decode_response_header
from shim.security.probes import Answers, Probe, probes_for, read
from shim.security.rights import Need, Right, Rights

log = logging.getLogger(__name__)

Ask = Callable[[Api[Any, Any], int, Any], Awaitable[bytes]]
"""Sends a request of an API in a version, at once; gives the response's frame, size included."""

PROBES_AT_ONCE: Final = 64
"""Requests that are under way together: a client may name any number of groups."""

TRIES: Final = 3
"""So often a question is sent that a broker has answered with nothing, as the client is over a quota."""
LONGEST_THROTTLE_MS: Final = 5_000
"""Such a broker reads on when the throttle time is over, so that a question waits for as long: not for longer ones."""

_SIZE_FIELD: Final = 4


class NotSaid(Exception):
    """The broker has not said whether a right is there, as the client is over a quota; it is to ask again."""


async def granted(rights: Rights, needs: Collection[Need], ask: Ask, clock: Callable[[], float]) -> Collection[Need]:
    """Those of the needs that the cluster grants. What is not known yet is asked for, as much of it as can be at
    once.

    Raises :class:`NotSaid`, :class:`ConnectionError` when the broker goes away, and
    :class:`protocol.errors.DecodeError` for what cannot be read: nothing is granted then.
    """
    asked_at = clock()
    answers = rights.known(needs, asked_at)
    group_id = next((need.name for need in needs if need.right is Right.READ_GROUP), None)
    probes = probes_for((need for need in needs if need not in answers), group_id)
    while some := tuple(islice(probes, PROBES_AT_ONCE)):
        asked = [_begin(probe, ask) for probe in some]
        for probe, frame in zip(some, asked, strict=True):
            said = await _answered(probe, frame, ask)
            if said.unclear:
                need, error = next(iter(said.unclear.items()))
                more = f", and {len(said.unclear) - 1} more" if len(said.unclear) > 1 else ""
                name = reprlib.repr(need.name)
                log.warning("%s for %s is refused%s: the broker answered %s", need.right.name, name, more, error)
            answers.update(said.granted)
            clear = said.granted.keys() - said.unclear.keys() - set(said.moot)
            rights.learn({need: said.granted[need] for need in said.granted if need in clear}, asked_at)
            if said.moot and group_id is not None:  # whatever was known of the group: by now it is refused
                refused = {Need(Right.READ_GROUP, group_id): False}
                answers.update(refused)
                rights.learn(refused, asked_at)
    return {need for need, answer in answers.items() if answer}


def _begin(probe: Probe, ask: Ask) -> Awaitable[bytes]:
    return ask(probe.api, probe.version, probe.request)


async def _answered(probe: Probe, frame: Awaitable[bytes], ask: Ask) -> Answers:
    """What is said in the end. Raises :class:`NotSaid`."""
    throttled_ms = 0
    for tries_left in reversed(range(TRIES)):
        response = _whole(probe, await frame)
        said = read(probe, response)
        if not said.throttled:
            return said
        throttled_ms += response.throttle_time_ms
        if not tries_left or throttled_ms > LONGEST_THROTTLE_MS:
            break
        frame = _begin(probe, ask)
    raise NotSaid


def _whole(probe: Probe, frame: bytes) -> Any:
    """The response, which has to be all of the frame. Raises DecodeError."""
    _, start = decode_response_header(probe.api.response_header_version(probe.version), frame, _SIZE_FIELD)
    response, end = probe.api.decode_response(probe.version, frame, start)
    if end != len(frame):
        raise DecodeError(f"{len(frame) - end} bytes are left over", end, probe.api.response.__name__)
    return response
