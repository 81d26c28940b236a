"""What can be done with a version of an API.

``AsIs`` passes request and response on as they are. ``Rewritten`` passes the request on, and changes the response.
``Served`` answers by itself, or by asking the broker as that client. ``Translated`` does so for versions that brokers
dropped (``compat``). ``Refused`` answers with an error. ``Authenticates`` is between client and broker, and the
connection reads along.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from protocol.apis import ApiKey
from shim.api.call import OrderedConnection, Served, Services


class AsIs(NamedTuple):
    pass


class Rewritten(NamedTuple):
    rewrite: Callable[[Services, int, bytes], bytes | Coroutine[Any, Any, bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class Translated(Served):
    """In a version that the broker has."""


class Refused(NamedTuple):
    """``answer`` makes the frame for a correlation id."""

    answer: Callable[[int], bytes]


class Authenticates(NamedTuple):
    """Whole requests of a client that tells the broker who it is; no other one is decided meanwhile."""


Answered: TypeAlias = Callable[[bytes | memoryview, int, int, int], tuple[bool | None, int]]
Several: TypeAlias = Callable[[Services, OrderedConnection, bytes, int, int], int]
Disposition: TypeAlias = AsIs | Rewritten | Served | Refused | Authenticates

_PASSED_ON: Final = (AsIs, Rewritten)


class Decides(Enum):
    """Who does of several processes that share the offsets partitions, wherever a request has come."""

    OWNER = auto()
    """Of the partitions of the groups that are named."""
    EACH = auto()
    """About its own groups, where they are one shim to whoever asks a broker. Where they are several, who wants to know
    of all groups asks every broker."""


def _never(_oldest: int, _newest: int) -> bool:
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """``answered``, for an API that is passed on, where it depends on the request: whether a response will come.

    It is called with (data, start, end, version) for a request that begins at ``start``, size included, and is there up
    to ``end``. When that is too little to say it gives None, and up to where the request has to be there. It raises
    DecodeError where the broker might find another answer than it does. It says the same of the same version and the
    same bytes between the correlation id and where it has read to: what it has said of them is said again.

    ``several``, for a served API: takes requests at once that have come together. It is called with (services,
    connection, data, position, most) where one begins and gives where those end that it took, at most so many, or
    ``position``.

    ``parks``: an answer may take minutes, as others have to join first, or the leader to assign; what is kept of the
    request counts for `group.memory.max.bytes`.

    ``decides``: None where it is whoever has the connection, or the cluster.

    ``answers_older``: as :class:`shim.api.call.Offered` has it.
    """

    key: ApiKey
    first: int
    last: int
    disposition: Disposition
    answered: Answered | None = None
    several: Several | None = None
    parks: bool = False
    decides: Decides | None = None
    answers_older: Callable[[int, int], bool] = _never
    is_passed_on: bool = field(init=False)
    """Whether the request is passed on as its bytes come, whatever becomes of the response: what the disposition says,
    as each request is looked at."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_passed_on", isinstance(self.disposition, _PASSED_ON))


_TREATMENTS: Final[dict[type, str]] = {
    AsIs: "forwarded",  # to the broker; dashboards go by the word
    Rewritten: "rewritten",
    Served: "served",
    Translated: "translated",
    Refused: "refused",
    Authenticates: "authenticates",
}


def treatment(route: Route) -> str:
    """What is done with such requests, in a word, as metrics have it."""
    return _TREATMENTS[type(route.disposition)]
