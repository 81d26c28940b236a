"""Which clients there are, by what they say of themselves, and which versions of APIs they have used.

Looked at when a connection begins, when its client says what software it is, and when it ends; of requests there is
nothing but the count that there would be without this.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MOST_KINDS: Final = 200
"""Kinds of clients that are told apart: they choose their names freely."""

OTHER: Final = "other"

_LONGEST: Final = 200
"""Characters of a client id or a principal that are kept."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]{0,62}[a-zA-Z0-9])?\Z")
"""What a broker takes for one (KIP-511), if it is not longer than anybody's."""


def software_of(name: str, version: str) -> tuple[str, str]:
    """As it may be shown: what no client calls itself is :data:`OTHER`."""
    return name if _SOFTWARE.match(name) else OTHER, version if _SOFTWARE.match(version) else OTHER


class Said(NamedTuple):
    """What tells one kind of client from another: ``software`` and ``version`` where it says them, otherwise both are
    "", and it is ``client_id``."""

    software: str
    version: str
    client_id: str


class ClientKind:
    """All connections of one kind of client. ``requests``: by ``api_key << 16 | api_version``. ``client_id``, ``host``
    and ``principal``: of one of its connections, the newest that has told. ``last_ms``: when one began or ended last,
    in ms since the epoch."""

    __slots__ = ("client_id", "connections", "host", "last_ms", "open", "principal", "requests", "said")

    def __init__(self, said: Said) -> None:
        self.said = said
        self.requests: defaultdict[int, int] = defaultdict(int)
        self.connections = self.open = self.last_ms = 0
        self.client_id = self.host = self.principal = ""

    def authenticated(self, principal: str) -> None:
        self.principal = principal[:_LONGEST]


class ClientsSeen:
    """At most :data:`MOST_KINDS`, and two more for those beyond. Where there are too many, the kind goes that nobody
    has been connected of for longest; its requests stay counted."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """``clock``: seconds since the epoch."""
        self._clock = clock
        self._kinds: dict[Said, ClientKind] = {}
        self._idle: dict[Said, None] = {}  # of these nobody is connected, the longest ago first
        self._forgotten = {True: Counter[int](), False: Counter[int]()}
        self.arriving: defaultdict[int, int] = defaultdict(int)
        """Requests on connections of which nobody knows yet whose they are."""

    def came(self, said: Said, client_id: str, host: str, principal: str) -> ClientKind:
        """A connection, which has to be told of with :meth:`left` or :meth:`was_another`."""
        kind = self._kind(said._replace(client_id=said.client_id[:_LONGEST]))
        kind.connections += 1
        kind.open += 1
        kind.last_ms = self._now_ms()
        kind.client_id, kind.host = client_id[:_LONGEST], host
        if principal:
            kind.authenticated(principal)
        return kind

    def left(self, kind: ClientKind) -> None:
        kind.open -= 1
        kind.last_ms = self._now_ms()
        if not kind.open:
            self._idle[kind.said] = None

    def was_another(self, kind: ClientKind) -> None:
        """The connection has come of another kind."""
        kind.connections -= 1
        kind.open -= 1
        if not kind.connections:
            self._forget(kind.said)
        elif not kind.open:
            self._idle[kind.said] = None

    def kinds(self) -> Iterable[ClientKind]:
        return self._kinds.values()

    def requests(self, *, named: bool) -> Counter[int]:
        """Of all clients that say what software they are, or of all others, those that are forgotten among them."""
        total = Counter(self._forgotten[named])
        if not named:
            total.update(self.arriving)
        for kind in self._kinds.values():
            if bool(kind.said.software) is named:
                total.update(kind.requests)
        return total

    def _kind(self, said: Said) -> ClientKind:
        self._idle.pop(said, None)
        found = self._kinds.get(said)
        if found is None:
            if len(self._kinds) >= MOST_KINDS:
                if self._idle:
                    self._forget(next(iter(self._idle)))
                else:
                    said = Said(OTHER, OTHER, "") if said.software else Said("", "", OTHER)
                    self._idle.pop(said, None)
            found = self._kinds.setdefault(said, ClientKind(said))
        return found

    def _forget(self, said: Said) -> None:
        self._idle.pop(said, None)
        self._forgotten[bool(said.software)].update(self._kinds.pop(said).requests)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
