"""The file with the token, which may change at any time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from pathlib import Path
from typing import Final, NamedTuple

from shim.apart import apart

log = logging.getLogger(__name__)

_SHORTEST: Final = 16
_LONGEST: Final = 4096
LOOK_SECONDS: Final = 3.0
"""How long a request waits for the file of the token."""


class CannotUse(Exception):
    """No token can be read from the file; the message is one line, and has nothing of what is in the file."""


def token_in(file: Path) -> str:
    """Raises :class:`CannotUse`."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST + 2).decode("ascii").strip()
    except OSError as error:
        raise CannotUse(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError:
        text = ""
    if not _SHORTEST <= len(text) <= _LONGEST or not all("!" <= each <= "~" for each in text):
        raise CannotUse(
            f"{file}: expected a token, {_SHORTEST} to {_LONGEST} ASCII characters in a line, none of them a space"
        )
    return text


class TokenFile:
    """The token that is in a file now. A file that has changed is read at the next request; where it is of no use, the
    token before stays. For the event loop, which never waits for the file: a disk may be far away, and a file a pipe.
    """

    def __init__(self, file: Path) -> None:
        """Reads it, and waits for that. Raises :class:`CannotUse`."""
        self._file = file
        self._seen = _state(file)
        self._digest = _digest(token_in(file))
        self._looking: asyncio.Future[_Found | None] | None = None

    async def fits(self, token: str) -> bool:
        """In a time that says nothing of where they differ. Raises TimeoutError where the file cannot be looked at in
        time."""
        await self._look()
        return hmac.compare_digest(_digest(token), self._digest)

    async def _look(self) -> None:
        """One look at a time, however many wait for it: one that hangs takes one thread."""
        if self._looking is None:
            self._looking = asyncio.ensure_future(apart(_found_in, self._file, self._seen))
            self._looking.add_done_callback(self._take)
        async with asyncio.timeout(LOOK_SECONDS):
            await asyncio.shield(self._looking)

    def _take(self, looked: asyncio.Future[_Found | None]) -> None:
        self._looking = None
        found = None if looked.cancelled() else looked.result()
        if found is None:
            return
        self._seen = found.state
        if isinstance(found.token, CannotUse):
            log.error("admin.token.file: the changed file is of no use, the token before stays: %s", found.token)
        else:
            self._digest = _digest(found.token)
            log.info("admin.token.file: read again")


class _Found(NamedTuple):
    """A changed file: as what it was seen, and the token in it, or why there is none."""

    state: tuple[int, ...]
    token: str | CannotUse


def _found_in(file: Path, seen: tuple[int, ...]) -> _Found | None:
    """None where it is as it was ``seen``."""
    state = _state(file)
    if state == seen:
        return None
    try:
        return _Found(state, token_in(file))
    except CannotUse as error:
        return _Found(state, error)


def _digest(token: str) -> bytes:
    """Of one length, whatever the token's is."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _state(file: Path) -> tuple[int, ...]:
    try:
        stat = file.stat()
    except OSError as error:
        return (error.errno or 0,)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
