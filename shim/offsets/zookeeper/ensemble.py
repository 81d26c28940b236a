"""One ZooKeeper session for the event loop. kazoo does the I/O, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kazoo.exceptions import RolledBackError, RuntimeInconsistency

from shim.config import parse_connect_string
from shim.offsets.zookeeper.kazoo_client import (
    Client,
    in_our_words,
    transaction,
    znode,
)
from shim.offsets.zookeeper.many import ask_many
from shim.offsets.zookeeper.session import Call, Session, Watcher
from shim.offsets.zookeeper.znodes import (
    ANY_VERSION,
    Acl,
    ChrootMissing,
    Create,
    EnsembleError,
    EnsembleUnavailable,
    MultiFailed,
    NoZnode,
    Operation,
    SessionEvent,
    Set,
    TooLarge,
    Watch,
    Znode,
    ZnodeExists,
)

log = logging.getLogger(__name__)

JUTE_MAXBUFFER: Final = 0xFFFFF
"""Bytes of the longest request that a server reads unless told otherwise (ZooKeeper 3.4 to 3.9)."""

_OPERATION_BYTES: Final = 80
"""What an operation takes at most besides its path and its data: numbers, lengths and an ACL."""


class Ensemble:
    """``connect``: ``host:port[,host:port]…[/chroot]``; all paths are below the chroot. ``auth``: user and password of
    the scheme ``digest``. ``acl``: of the znodes that are created. A request waits ``request_timeout_ms`` at most until
    it can be sent, and as long for its answer. ``jute_maxbuffer``: the servers' setting, in bytes.

    Raises :class:`shim.config.SettingError` for a connect string that is none.

    Every method that asks ZooKeeper raises :class:`EnsembleUnavailable` where it does not answer,
    :class:`shim.offsets.zookeeper.znodes.EnsembleRefused` where it does not allow it, and
    :class:`shim.offsets.zookeeper.znodes.EnsembleError` for whatever else it says; ValueError for what can be no path.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        auth: tuple[str, str] | None = None,
        acl: Acl = Acl.WORLD,
        request_timeout_ms: int = 10_000,
        jute_maxbuffer: int = JUTE_MAXBUFFER,
    ) -> None:
        if acl is Acl.CREATOR and auth is None:
            raise ValueError("znodes cannot be their creator's alone where it does not say who it is")
        servers, self._chroot = parse_connect_string(connect)
        self.connect = connect
        self.jute_maxbuffer = jute_maxbuffer
        new_client = partial(Client, servers, session_timeout_ms, auth, acl)
        self._session = Session(f"ZooKeeper at {connect}", new_client, request_timeout_ms / 1000)

    async def start(self, within: float, *, make_chroot: bool = False) -> None:
        """Begin the session, ``within`` so many seconds. After a failure it can be called again.

        Raises :class:`EnsembleUnavailable`, and :class:`ChrootMissing` unless ``make_chroot``.
        """
        try:
            async with asyncio.timeout(within):
                await self._session.start()
                if make_chroot:
                    await self._make(self._chroot)
                elif self._chroot and not await self._is_there(self._chroot):
                    raise ChrootMissing(f"ZooKeeper at {self.connect} has no znode {self._chroot}")
        except TimeoutError:
            self._session.let_go()
            raise EnsembleUnavailable(f"no ZooKeeper answers at {self.connect}") from None
        except BaseException:
            self._session.let_go()
            raise

    async def close(self, within: float = 5.0) -> None:
        """End the session, and with it its ephemeral znodes. A server that does not answer ``within`` so many
        seconds is left, and the session expires. It can be called twice, and before the start."""
        gone = self._session.let_go()
        if gone is not None and not (await asyncio.wait([gone], timeout=within))[0]:
            log.warning("ZooKeeper at %s does not answer: the session is left to expire", self.connect)

    @property
    def session_id(self) -> int | None:
        """As in :attr:`Znode.ephemeral_owner` of the session's znodes; None while there is no connection."""
        client = self._session.client
        known = None if client is None else client.client_id
        return None if known is None else int(known[0])

    def watch_session(self, listener: Callable[[SessionEvent], None]) -> None:
        """``listener`` is called, in the event loop, for each change from now on; before the start, for that too."""
        self._session.listeners.append(listener)

    async def get(self, path: str, watch: Watch | None = None) -> Znode | None:
        """None where there is no such znode; nothing is watched then."""
        try:
            return znode(await self._session.ask(self._get(path, watch), path))
        except NoZnode:
            return None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of what is below it, in no order; none where there is no such znode, and nothing is watched then.
        ``watch`` hears of names that come and go, and of the znode's own deletion."""
        try:
            names: list[str] = await self._session.ask(self._children(path, watch), path)
        except NoZnode:
            return []
        return names

    async def get_many(
        self, paths: Sequence[str], *, watch: Watch | None = None, wrong: dict[str, EnsembleError] | None = None
    ) -> list[Znode | None]:
        """As :meth:`get`, in the order of ``paths``, many at once. With ``wrong`` one that is refused
        does not end it all: None is in its place, and ``wrong`` has why; also of those that are not there."""
        asked = ((path, self._get(path, watch)) for path in paths)
        answers = await ask_many(self._session, asked, wrong)
        return [None if each is None else znode(each) for each in answers]

    async def children_many(
        self, paths: Sequence[str], *, watch: Watch | None = None, wrong: dict[str, EnsembleError] | None = None
    ) -> list[list[str]]:
        """As :meth:`children`, in the order of ``paths``; otherwise as :meth:`get_many`."""
        asked = ((path, self._children(path, watch)) for path in paths)
        answers = await ask_many(self._session, asked, wrong)
        return [each or [] for each in answers]

    async def exist_many(
        self, paths: Sequence[str], *, watch: Watch | None = None, wrong: dict[str, EnsembleError] | None = None
    ) -> list[bool]:
        """Whether there are such znodes. ``watch`` hears of one that is created, too; also where its parents are not
        there yet. Otherwise as :meth:`get_many`."""
        asked = ((path, self._exists(self._full(path), watch)) for path in paths)
        answers = await ask_many(self._session, asked, wrong)
        return [each is not None for each in answers]

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        """Raises :class:`ZnodeExists`; :class:`NoZnode` where its parent is not there; :class:`TooLarge`."""
        full = self._measured([Create(path, data)])[0]
        await self._session.ask(lambda client: client.create_async(full, data, ephemeral=ephemeral), path)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Its new version. Raises :class:`NoZnode`, :class:`.znodes.WrongVersion`, :class:`TooLarge`."""
        full = self._measured([Set(path, data)])[0]
        return int((await self._session.ask(lambda client: client.set_async(full, data, version), path)).version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Raises :class:`NoZnode`, :class:`shim.offsets.zookeeper.znodes.WrongVersion`,
        :class:`shim.offsets.zookeeper.znodes.ZnodeHasChildren`."""
        full = self._full(path)
        await self._session.ask(lambda client: client.delete_async(full, version), path)

    async def make_path(self, path: str) -> None:
        """Create it and its parents, without data, as far as they are not there."""
        await self._make(self._full(path))

    async def sync(self) -> None:
        """What is read from here on is at least as new as what anybody had written before: the servers behind the
        leader lag."""
        path = self._full("/")
        await self._session.ask(lambda client: client.sync_async(path), path)

    async def multi(self, operations: Sequence[Operation]) -> list[int | None]:
        """Do all of them or none; the versions that the znodes have then, None of one deleted or only checked.

        Raises :class:`MultiFailed`, :class:`TooLarge`.
        """
        if not operations:
            return []
        paths = self._measured(operations)
        results = await self._session.ask(partial(transaction, operations, paths), f"multi of {len(operations)}")
        for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
            # The others were undone, or not tried.
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise MultiFailed(index, operation, in_our_words(result, operation.path))
        return [
            0 if isinstance(operation, Create) else result.version if isinstance(operation, Set) else None
            for operation, result in zip(operations, results, strict=True)
        ]

    def size_of(self, operation: Operation) -> int:
        """Bytes that it takes of a request, at most."""
        data = len(operation.data) if isinstance(operation, Create | Set) else 0
        return len(self._chroot.encode()) + len(operation.path.encode()) + data + _OPERATION_BYTES

    def _full(self, path: str) -> str:
        """Raises ValueError also for what UTF-8 has no bytes for: in kazoo's thread that would end it."""
        if not path.startswith("/") or "//" in path or path.endswith("/") != (path == "/") or not path.encode():
            raise ValueError(f"{path!r} is no path of a znode")
        return (self._chroot + path if path != "/" else self._chroot) or "/"

    def _measured(self, operations: Sequence[Operation]) -> list[str]:
        """The whole path of each. Raises :class:`TooLarge`."""
        paths = [self._full(operation.path) for operation in operations]
        size = sum(map(self.size_of, operations))
        if size > self.jute_maxbuffer:
            raise TooLarge(f"{len(operations)} operations of {size} bytes; ZooKeeper takes {self.jute_maxbuffer}")
        return paths

    def _get(self, path: str, watch: Watch | None) -> Call:
        full = self._full(path)
        return lambda client: client.get_async(full, self._watcher(client, watch))

    def _children(self, path: str, watch: Watch | None) -> Call:
        full = self._full(path)
        return lambda client: client.get_children_async(full, self._watcher(client, watch))

    def _exists(self, full: str, watch: Watch | None = None) -> Call:
        return lambda client: client.exists_async(full, self._watcher(client, watch))

    def _watcher(self, client: Client, watch: Watch | None) -> Watcher | None:
        return None if watch is None else Watcher(self._session, client, len(self._chroot), watch)

    async def _is_there(self, full: str) -> bool:
        return await self._session.ask(self._exists(full), full) is not None

    async def _make(self, full: str) -> None:
        missing: list[str] = []
        while full and not await self._is_there(full):
            missing.append(full)
            full = full.rpartition("/")[0]
        for path in reversed(missing):
            try:
                await self._session.ask(partial(Client.create_async, path=path), path)
            except ZnodeExists:
                log.debug("%s was made by somebody else at the same moment", path)
