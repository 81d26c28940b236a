"""Remote procedure calls among workers: what one asks another for whoever is at the admin port.

A question and its answer have a connection of their own. Both are pickles, with their size in front. That is no more
than a fork shares: they are of one program, and nobody but this user can open the socket, or is believed on it.

Who is asked says that it is at it, a size of 0, when it has read the question and once a second from then on: an answer
may take as long as a rebalance, and of one that hangs nothing comes. It begins with it when who asks has heard the
first, and said so: one that was held up does not do what nobody waits for any more.
"""

from __future__ import annotations

import asyncio
import io
import logging
import pickle
from collections.abc import Mapping
from inspect import isfunction, signature
from pathlib import Path
from struct import Struct
from typing import Any, Final, Protocol, cast

from shim.admin.live.asked.groups import Groups, NotCertain
from shim.admin.live.asked.migration import Migration, NotKnown, Refused
from shim.admin.live.asked.shim import NotReady, Shim
from shim.forwarding.over_unix import listen_over_unix, of_this_user

log = logging.getLogger("shim")

_SIZE: Final = Struct(">Q")
_AT_IT: Final = _SIZE.pack(0)
_GO: Final = b"!"
_AT_IT_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 5.0
"""After so long without a word the other one hangs."""

_PARTS: Final[Mapping[str, type]] = {"migration": Migration, "groups": Groups, "": Shim}
"""Of who is asked: what of it the admin port asks, part by part."""

ASKED: Final[Mapping[str, frozenset[str]]] = {
    part: frozenset(name for name, found in vars(says).items() if isfunction(found) and not name.startswith("_"))
    for part, says in _PARTS.items()
}
"""Of each part, what may be asked: all that the admin port asks."""

CHANGES: Final = frozenset(
    name
    for part, names in ASKED.items()
    for name in names
    if "cause" in signature(getattr(_PARTS[part], name)).parameters
)
"""What is different afterwards: that alone is asked for with a cause."""

_TOLD: Final = (Refused, NotKnown, NotCertain, NotReady, TimeoutError)
"""Errors that whoever asks is told as they are."""


class Questions:
    """For the event loop. What others ask of ``asked``, which has the parts in :data:`ASKED`."""

    def __init__(self, path: Path, asked: object) -> None:
        self._path = path
        self._asked = asked
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self) -> None:
        """Raises OSError."""
        self._server = await asyncio.start_unix_server(self._begin, sock=listen_over_unix(self._path))

    async def close(self) -> None:
        """Who waits for an answer gets none, and nothing that was asked for goes on when this returns."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        if answering := set(self._answering):
            for each in answering:
                each.cancel()
            await asyncio.wait(answering)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:  # it was accepted just before
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._answer(reader, writer))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if of_this_user(cast(asyncio.Transport, writer.transport)) is not None:
                return
            question = await _received(reader)
            writer.write(_AT_IT)
            await _piece(reader, len(_GO))
            answering = asyncio.ensure_future(self._answered(question))
            gone = asyncio.ensure_future(reader.read(1))  # nothing comes; who does not wait any more closes
            try:
                while not await _any_of(answering, gone):
                    writer.write(_AT_IT)
                if answering.done():
                    writer.write(await answering)
                    await writer.drain()
            finally:
                answering.cancel()
                gone.cancel()
                await asyncio.gather(answering, gone, return_exceptions=True)
        except (ConnectionError, EOFError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _answered(self, question: bytes) -> bytes:
        """Whether it went well, and what it gave or raised."""
        try:
            is_well, found = True, await self._found(question)
        except _TOLD as error:
            is_well, found = False, error
        try:
            return _packed((is_well, found))
        except NotReady as error:
            log.exception("an answer to another worker")
            return _packed((False, error))

    async def _found(self, question: bytes) -> Any:
        """Raises those of ``_TOLD``."""
        part, name, arguments, named = _unpacked(question)
        try:
            if name not in ASKED.get(part, ()):
                raise NotReady(f"nobody asks for {part}.{name}")
            of_whom = getattr(self._asked, part) if part else self._asked
            found = getattr(of_whom, name)(*arguments, **named)
            return await found if asyncio.iscoroutine(found) else found
        except _TOLD:
            raise
        except Exception as error:
            log.exception("%s, asked for by another worker", name)
            raise NotReady(f"failed, the shim's log says why: {type(error).__name__}") from error


class Asks(Protocol):
    async def __call__(self, part: str, name: str, *arguments: Any, **named: Any) -> Any:
        """Raises what the method of that part raises, and NotReady where nobody answers, within some seconds."""


class OtherWorker:
    """See :class:`Asks`."""

    def __init__(self, number: int, path: Path) -> None:
        self.number = number
        self._path = path

    async def __call__(self, part: str, name: str, *arguments: Any, **named: Any) -> Any:
        """See :class:`Asks`."""
        question = _packed((part, name, arguments, named))
        unknown = ""
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(str(self._path))
            try:
                writer.write(question)
                await _size(reader)
                unknown = "; it may have done what was asked for" if name in CHANGES else ""
                writer.write(_GO)
                answer = await _received(reader)
            finally:
                writer.close()
        except TimeoutError:
            raise NotReady(f"worker {self.number} does not answer{unknown}") from None
        except (OSError, EOFError):
            raise NotReady(f"worker {self.number} is not there for now{unknown}") from None
        is_well, found = _unpacked(answer)
        if is_well:
            return found
        raise found


def _packed(message: object) -> bytes:
    """Raises NotReady where it cannot be: objects may raise anything there."""
    try:
        data = pickle.dumps(message)
    except Exception as error:
        raise _not_passed(error) from error
    return _SIZE.pack(len(data)) + data


def _unpacked(data: bytes) -> Any:
    """Raises NotReady, as :func:`_packed`."""
    try:
        return pickle.loads(data)  # noqa: S301  # of this program and this user
    except Exception as error:
        raise _not_passed(error) from error


def _not_passed(error: Exception) -> NotReady:
    return NotReady(f"it cannot be passed between workers: {type(error).__name__}: {error}")


async def _any_of(*futures: asyncio.Future[Any]) -> bool:
    """Whether one of them is done, within a second."""
    done, _ = await asyncio.wait(futures, timeout=_AT_IT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def _received(reader: asyncio.StreamReader) -> bytes:
    """The next that is said but that somebody is at it. Raises as :func:`_piece`."""
    while not (size := await _size(reader)):
        pass
    data = io.BytesIO()
    while size:
        size -= data.write(await _piece(reader, min(size, 1 << 20)))
    return data.getvalue()


async def _size(reader: asyncio.StreamReader) -> int:
    data = b""
    while len(data) < _SIZE.size:
        data += await _piece(reader, _SIZE.size - len(data))
    (size,) = _SIZE.unpack(data)
    return int(size)


async def _piece(reader: asyncio.StreamReader, most: int) -> bytes:
    """Raises TimeoutError where nothing comes, EOFError, ConnectionError."""
    async with asyncio.timeout(SILENT_SECONDS):
        piece = await reader.read(most)
    if not piece:
        raise EOFError
    return piece
