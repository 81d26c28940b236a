"""Who is turned away: nobody has to show who they are here, so no web page may have a browser ask in its place.

Pages of other sites are known by what browsers add (``Origin``, ``Sec-Fetch-Site``), and cannot send JSON without being
asked first (https://fetch.spec.whatwg.org/#cors-preflight-fetch). A site that gives its own name this address (DNS
rebinding) is of the same origin to the browser; it is known by that name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final, NamedTuple

JSON: Final = "application/json"


class TurnedAway(NamedTuple):
    """``status``: of HTTP; ``reason``: one line."""

    status: int
    reason: str


def turned_away(method: str, headers: Mapping[str, str], content_type: str, own_host: str) -> TurnedAway | None:
    """``headers``: names in any case; ``content_type``: without parameters; ``own_host``: the one of ``--admin``.

    None: the request may go on.
    """
    if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") != "none":
        return TurnedAway(403, "web pages may not ask here")
    if not _is_own(headers.get("Host", ""), own_host):
        return TurnedAway(421, "Host has to be an address, localhost or the host that --admin of serve names")
    if method == "POST" and content_type != JSON:
        return TurnedAway(415, f"the content type has to be {JSON}")
    return None


def _is_own(host: str, own_host: str) -> bool:
    name = _without_port(host)
    if name in ("localhost", own_host.lower()):
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
