"""Who may ask for what: whoever knows the token, where there is one, and shows a certificate, where one is wanted."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from shim.admin.live.guard.refusal import TurnedAway
from shim.admin.live.guard.token_file import TokenFile

_SCHEME: Final = "bearer"


class TokenFor(StrEnum):
    """What has to be asked for with the token: nothing, what changes something, or all but the console's files."""

    NOTHING = "nothing"
    CHANGES = "changes"
    ALL = "all"


class Access:
    """``file``: None where nobody is asked for a token. ``certificates``: whether whoever is let in has shown one: TLS
    has seen to that by then."""

    def __init__(self, file: TokenFile | None = None, *, for_all: bool = False, certificates: bool = False) -> None:
        self._file = file
        self.is_guarded = file is not None or certificates
        self.token_for = TokenFor.NOTHING if file is None else TokenFor.ALL if for_all else TokenFor.CHANGES

    async def refused(self, authorization: str, *, changes: bool) -> TurnedAway | None:
        """``authorization``: the header, "" for none; ``changes``: whether the request would change something.

        None: it may go on. Raises TimeoutError where the token cannot be looked at in time.
        """
        if self._file is None or not (changes or self.token_for is TokenFor.ALL):
            return None
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != _SCHEME:
            return TurnedAway(
                401, "the token of admin.token.file is needed: Authorization: Bearer …, --admin-token-file"
            )
        if not await self._file.fits(token.strip()):
            return TurnedAway(401, "this is not the token of admin.token.file")
        return None
