"""What is asked of a ZooKeeper, what it answers, and why it does not. The names are ZooKeeper's own."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

ANY_VERSION: Final = -1
"""As an expected version: whichever the znode has."""


Watch = Callable[[str], None]
"""Called in the event loop with the path of a znode that has changed since it was read: once for each time that it was
read, or for several of them. It goes with the connection (SUSPENDED): what is to be seen after that is read again."""


class Znode(NamedTuple):
    """``version``: how often the data was set; 0 right after it was created, and again where it was deleted and
    created anew. ``mzxid``: the transaction that set the data last; unlike a version, none comes twice.
    ``ephemeral_owner``: the id of the session that it goes with, 0 where it stays."""

    data: bytes
    version: int
    mzxid: int
    ephemeral_owner: int


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False


class Set(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Changes nothing; fails where the znode is not there, or has another version."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check


class Acl(Enum):
    """What others may do with the znodes that are created: all, as with those of the old consumers; or nothing, without
    the credentials of who created them."""

    WORLD = "world"
    CREATOR = "creator"


class SessionEvent(Enum):
    """``CONNECTED``: requests are taken; after ``LOST``, in a new session. ``SUSPENDED``: the connection has gone, the
    session may live on. ``LOST``: the session has ended, and its ephemeral znodes with it; ZooKeeper tells so when it
    is reached again, and not before."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class EnsembleError(Exception):
    """ZooKeeper did not do what it was asked for. The message is one line for an operator."""


class EnsembleUnavailable(EnsembleError):
    """It is away, hangs, or was lost on the way: try again. Whether a write was done nobody knows."""


class EnsembleRefused(EnsembleError):
    """The ACL of a znode, or the server, does not let this session do that."""


class ChrootMissing(EnsembleError):
    """The chroot of the connect string does not exist."""


class NoZnode(EnsembleError):
    """It, or for one to be created its parent, is not there."""


class ZnodeExists(EnsembleError):
    """What was to be created is there."""


class WrongVersion(EnsembleError):
    """The znode has another version than the expected one."""


class ZnodeHasChildren(EnsembleError):
    """It cannot be deleted."""


class TooLarge(EnsembleError):
    """ZooKeeper would not read so long a request (``jute.maxbuffer``), but close the connection. It was not sent."""


class MultiFailed(EnsembleError):
    """Nothing was done. ``index``: of the first operation that could not be; ``reason``: why."""

    def __init__(self, index: int, operation: Operation, reason: EnsembleError) -> None:
        super().__init__(f"operation {index + 1}, {type(operation).__name__.lower()}: {reason}")
        self.index = index
        self.operation = operation
        self.reason = reason
