"""Who may ask for what: whoever knows the token, where there is one."""

from __future__ import annotations

import hashlib
import hmac
import logging
from enum import StrEnum
from pathlib import Path
from typing import Final

from shim.admin.live.guarding import TurnedAway

log = logging.getLogger(__name__)

_SHORTEST: Final = 16
_LONGEST: Final = 4096
_SCHEME: Final = "bearer"


class CannotUse(Exception):
    """No token can be read from the file; the message is one line, and has nothing of what is in the file."""


class TokenFor(StrEnum):
    """What has to be asked for with the token: nothing, what changes something, or all but the console's files."""

    NOTHING = "nothing"
    CHANGES = "changes"
    ALL = "all"


def token_in(file: Path) -> str:
    """Raises :class:`CannotUse`."""
    try:
        text = file.read_bytes()[: _LONGEST + 2].decode("ascii").strip()
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
    token before stays."""

    def __init__(self, file: Path) -> None:
        """Raises :class:`CannotUse`."""
        self._file = file
        self._seen = _state(file)
        self._digest = _digest(token_in(file))

    def fits(self, token: str) -> bool:
        """In a time that says nothing of where they differ."""
        self._look()
        return hmac.compare_digest(_digest(token), self._digest)

    def _look(self) -> None:
        seen = _state(self._file)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._digest = _digest(token_in(self._file))
        except CannotUse as error:
            log.error("admin.token.file: the changed file is of no use, the token before stays: %s", error)
        else:
            log.info("admin.token.file: read again")


class Access:
    """``file``: None where nobody is asked who they are."""

    def __init__(self, file: TokenFile | None = None, *, for_all: bool = False) -> None:
        self._file = file
        self.token_for = TokenFor.NOTHING if file is None else TokenFor.ALL if for_all else TokenFor.CHANGES

    def refused(self, authorization: str, *, changes: bool) -> TurnedAway | None:
        """``authorization``: the header, "" for none; ``changes``: whether the request would change something.

        None: it may go on.
        """
        if self._file is None or not (changes or self.token_for is TokenFor.ALL):
            return None
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != _SCHEME:
            return TurnedAway(
                401, "the token of admin.token.file is needed: Authorization: Bearer …, --admin-token-file"
            )
        if not self._file.fits(token.strip()):
            return TurnedAway(401, "this is not the token of admin.token.file")
        return None


def _digest(token: str) -> bytes:
    """Of one length, whatever the token's is."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _state(file: Path) -> tuple[int, ...]:
    try:
        stat = file.stat()
    except OSError as error:
        return (error.errno or 0,)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
