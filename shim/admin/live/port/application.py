"""What holds for each request, whatever its path: who is let in, what the log says of changes, errors in JSON."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web

from shim.admin.live.asked.groups import NotCertain
from shim.admin.live.asked.migration import NotKnown, Refused
from shim.admin.live.asked.shim import NotReady
from shim.admin.live.guard.access import Access, TokenFor
from shim.admin.live.guard.cross_site import Own, turned_away
from shim.admin.live.over_http.answering import error_response
from shim.admin.live.over_http.receiving import body_of
from shim.admin.live.port.routes import Handler, Route
from shim.admin.live.requests.fields import BadRequest
from shim.admin.live.sampled.sampling import Sampler
from shim.admin.live.shown.documents import one_line
from shim.relocation.words import CannotMove
from shim.tls import name_told, own_names, shown_names

log = logging.getLogger(__name__)

_MOST_BODY: Final = 1 << 20
_LONGEST_TOLD: Final = 1_000

_HEADERS: Final = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


_STATUSES: Final[Mapping[type[Exception], int]] = {
    BadRequest: 400,
    NotKnown: 404,
    Refused: 409,
    CannotMove: 409,
    NotCertain: 503,
    NotReady: 503,
    TimeoutError: 504,
}
_NOT_DONE: Final = tuple(_STATUSES)
_WITHOUT_A_LINE: Final[Mapping[type[Exception], str]] = {
    NotKnown: "there is no such group",
    TimeoutError: "no answer in time",
}


async def _nowhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


_NOWHERE: Final = Route("GET", "", _nowhere)


def application_of(table: Sequence[Route], own: Own, access: Access, sampler: Sampler) -> web.Application:
    """``table``: all paths there are; ``own``: but for names, which are those of a connection's certificate;
    ``sampler``: told of each change."""
    # What a request may do is a matter of its method and path: whatever answers it may answer others, too.
    in_table: dict[web.AbstractRoute, Route] = {}

    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        # What there is no path for is asked for with the token as well: nobody learns which there are.
        route = in_table.get(request.match_info.route, _NOWHERE)
        changes = route.changes or (route is _NOWHERE and request.method != "GET")
        here = own if request.transport is None else own._replace(names=own_names(request.transport))
        away = turned_away(request.method, request.headers, request.content_type, here, linked=route.open)
        if away is None and not route.open:
            away = await access.refused(request.headers.get("Authorization", ""), changes=changes)
        if away is not None:
            if route.changes:
                log.warning("%s from %s refused: %s", request.path, _who(request), away.reason)
            refusal = error_response(*away)
            if away.status == web.HTTPUnauthorized.status_code:
                refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        if not route.changes:
            return await handler(request)
        # The message is the event: no other change is left out for it, whatever log.repeat.max.per.minute says.
        wanted = _told(await body_of(request))
        log.info("%s", f"{request.path} from {_who(request)}, {_word_of(access)}: {wanted}")
        try:
            return await handler(request)
        except _NOT_DONE as error:
            log.info("%s", f"{request.path} from {_who(request)}, not done: {_why(error)}")
            raise
        finally:
            sampler.changed()

    @web.middleware
    async def in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Errors are JSON, whoever finds them."""
        try:
            return await answered(request, handler)
        except web.HTTPException as error:
            return error_response(error.status, one_line(error.reason))
        except _NOT_DONE as error:
            return error_response(_status(error), _why(error))
        except ConnectionError:  # nobody is there to be told
            raise
        except Exception:
            log.exception("%s of the admin interface", request.path)
            return error_response(500, "failed, the shim's log says why")

    async def with_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.force_close()

    application = web.Application(middlewares=[in_json], client_max_size=_MOST_BODY)
    application.on_response_prepare.append(with_headers)
    for route in table:
        for method in (route.method, "HEAD") if route.open else (route.method,):
            in_table[application.router.add_route(method, route.path, route.handler)] = route
    return application


def _status(error: Exception) -> int:
    return next(status for kind, status in _STATUSES.items() if isinstance(error, kind))


def _why(error: Exception) -> str:
    return one_line(error) or _WITHOUT_A_LINE.get(type(error), type(error).__name__)


def _who(request: web.Request) -> str:
    """The address, and who has shown a certificate there."""
    transport = request.transport
    names = [] if transport is None else shown_names(transport)
    return f"{request.remote} ({name_told(names[0])})" if names else f"{request.remote}"


def _word_of(access: Access) -> str:
    return "without a token" if access.token_for is TokenFor.NOTHING else "with the token"


def _told(body: bytes) -> str:
    """A request for a change as the log has it: ASCII, in one line."""
    text = ascii(body.decode("utf-8", "replace"))[1:-1]
    return text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}… ({len(body)} bytes)"
