"""Certificates and keys of listeners and towards brokers, and what they cannot do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from shim.apart import apart
from shim.config import Settings
from shim.given import Given
from shim.listener_config import ADMIN, SHIMS, Listener
from shim.serve.errors import CannotStart
from shim.tls import CannotUse, TlsContext, context_for_brokers, context_for_clients, context_for_shims

log = logging.getLogger("shim")

_LOOK_SECONDS: Final = 5.0
"""How often files are looked at, for whether they have changed."""


TO_SHIMS: Final = "to other shims"
"""What the context for connections to these is by. It has a blank in it, which no listener's name has."""


def tls_contexts(given: Given) -> Mapping[str, TlsContext]:
    """By the listener's name; the one for brokers by no name. Raises :class:`CannotStart`."""
    listening, settings, shims_listener, admin = given.listening, given.settings, given.shims_listener, given.admin
    try:
        contexts = {
            each.name: context_for_clients(f"listener {each.name}", each.settings)
            for each in listening
            if each.speaks_tls
        }
        if shims_listener is not None and shims_listener.speaks_tls:
            contexts[SHIMS] = context_for_clients(f"listener {SHIMS}", shims_listener.settings)
            contexts[TO_SHIMS] = context_for_shims(shims_listener.settings)
        if admin is not None and admin.speaks_tls:
            contexts[ADMIN] = context_for_clients(f"listener {ADMIN}", admin.settings)
        for_brokers = context_for_brokers(settings)
    except CannotUse as error:
        raise CannotStart(str(error)) from error
    if for_brokers is not None:
        contexts[""] = for_brokers
    for line in _what_does_not_pass(listening, settings):
        log.warning("%s", line)
    return contexts


def _what_does_not_pass(listening: Sequence[Listener], settings: Settings) -> Iterator[str]:
    """Lines about what brokers cannot know of a client that comes through the shim."""
    asking = [each.name for each in listening if each.speaks_tls and each.settings.ssl_client_auth != "none"]
    if asking:
        yield f"clients' certificates at {', '.join(asking)} do not reach the brokers: they let clients in, and no more"
    if settings.upstream_ssl_keystore_location:
        yield "brokers are shown the shim's certificate for all clients: a principal from a certificate is the shim's"
    if settings.upstream_security_protocol != "PLAINTEXT":
        yield "brokers see the shim's address for all clients: ACLs for a host mean the shim. Kerberos does not pass"


class CertificateFiles:
    """Looked at again and again, beside the event loop: a file may be a pipe, or far away."""

    def __init__(self, contexts: Collection[TlsContext]) -> None:
        self._contexts = contexts
        self._wanted = asyncio.Event()

    def read_again(self) -> None:
        """Soon, whether they have changed or not."""
        self._wanted.set()

    async def follow(self) -> None:
        """Until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._wanted.wait()
            anyway = self._wanted.is_set()
            self._wanted.clear()
            await apart(self._look, anyway)

    def _look(self, anyway: bool) -> None:
        for context in self._contexts:
            context.look(anyway=anyway)
