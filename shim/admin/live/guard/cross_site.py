"""Who is turned away: nobody need show who they are here, so no web page may have a browser ask in its place, but for
the shim's own, the console.

Pages of other sites are known by what browsers add (``Origin``, ``Sec-Fetch-Site``), and cannot send JSON without being
asked first (https://fetch.spec.whatwg.org/#cors-preflight-fetch). A site that gives its own name this address (DNS
rebinding) is of the same origin to the browser; it is known by that name.

Over TLS it does not even come so far: the browser wants a certificate for its name. So a name that the certificate is
for is the shim's own: whoever had the certificate made has it. That does not hold for one with a ``*``: under it there
may be names that others have.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from shim.admin.live.guard.refusal import TurnedAway
from shim.admin.live.shown.documents import JSON


class Own(NamedTuple):
    """What the port is: ``host``: the one of ``--admin``; ``names``: those of its certificate, in lower case."""

    host: str
    over_tls: bool = False
    names: frozenset[str] = frozenset()


def turned_away(
    method: str, headers: Mapping[str, str], content_type: str, own: Own, *, linked: bool = False
) -> TurnedAway | None:
    """``headers``: names in any case; ``content_type``: without parameters; ``linked``: whether other sites may lead
    somebody there.

    None: the request may go on.
    """
    host = headers.get("Host", "")
    if not _is_of_own_page(headers, host, own) and not (linked and _follows_a_link(method, headers)):
        return TurnedAway(403, "web pages of other sites may not ask here")
    if not _is_own(host, own):
        of_certificate = ", one that the certificate is for" if own.over_tls else ""
        return TurnedAway(
            421, f"Host has to be an address, localhost{of_certificate} or the host that --admin of serve names"
        )
    if method == "POST" and content_type != JSON:
        return TurnedAway(415, f"the content type has to be {JSON}")
    return None


def _is_of_own_page(headers: Mapping[str, str], host: str, own: Own) -> bool:
    """Or of no page at all. What the host is called is looked at besides. Without TLS there may be a proxy in front
    that speaks it."""
    origins = [f"https://{host}"] if own.over_tls else [f"http://{host}", f"https://{host}"]
    fetched, origin = headers.get("Sec-Fetch-Site", "none"), headers.get("Origin", origins[0])
    return fetched in ("none", "same-origin") and origin in origins


def _follows_a_link(method: str, headers: Mapping[str, str]) -> bool:
    """To be looked at in a tab of its own, by a person."""
    wanted = (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest"))
    return method == "GET" and "Origin" not in headers and wanted == ("navigate", "document")


def _is_own(host: str, own: Own) -> bool:
    name = _without_port(host)
    if name in ("localhost", own.host.lower(), *own.names):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    """Of ``name``, ``name:port``, ``[address]`` or ``[address]:port``."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
