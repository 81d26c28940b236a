"""The shim's own credentials, as the messages of a SASL mechanism."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from shim.apart import apart
from shim.config import Settings
from shim.upstream.errors import AuthenticationFailed
from shim.upstream.scram import ScramClient, ScramError

Exchange = Callable[[bytes], Awaitable[bytes]]
"""Sends a token; gives the broker's. Raises :class:`shim.upstream.errors.UpstreamError` where it refuses."""


async def present(settings: Settings, exchange: Exchange) -> None:
    """Authenticate with ``upstream.sasl.mechanism``.

    Raises :class:`AuthenticationFailed`, and what ``exchange`` does.
    """
    await _MECHANISMS[settings.upstream_sasl_mechanism](settings, exchange)


async def _plain(settings: Settings, exchange: Exchange) -> None:
    """RFC 4616."""
    await exchange(f"\0{settings.upstream_sasl_username}\0{settings.upstream_sasl_password}".encode())


async def _scram(settings: Settings, exchange: Exchange) -> None:
    client = ScramClient(
        settings.upstream_sasl_mechanism, settings.upstream_sasl_username, settings.upstream_sasl_password
    )
    try:
        client.verify(await exchange(client.final(await exchange(client.first()))))
    except ScramError as error:
        raise AuthenticationFailed(str(error)) from error


async def _oauthbearer(settings: Settings, exchange: Exchange) -> None:
    """RFC 7628."""
    path = Path(unquote(urlsplit(settings.upstream_sasl_oauthbearer_token_endpoint_url).path))
    try:
        token = (await apart(path.read_text, "ascii")).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise AuthenticationFailed(f"{path}: {reason}") from error
    refused = await exchange(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if refused:
        await exchange(b"\x01")  # the broker has said why, and fails when that is acknowledged
        raise AuthenticationFailed("the token was refused")


_MECHANISMS: Final[Mapping[str, Callable[[Settings, Exchange], Awaitable[None]]]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauthbearer,
}
