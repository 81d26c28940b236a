"""TLS on both sides of the shim: the files that it is made from, and the connections that speak it."""

from shim.tls.connection import Receiver, dial, tls_server
from shim.tls.contexts import (
    CannotUse,
    TlsContext,
    context_for_admin,
    context_for_brokers,
    context_for_clients,
    context_for_shims,
)
from shim.tls.names import name_told, own_names, shown_names
from shim.tls.pace import HandshakePace
from shim.tls.words import NotTls, refuses_certificate, tls_reason

__all__ = [
    "CannotUse",
    "HandshakePace",
    "NotTls",
    "Receiver",
    "TlsContext",
    "context_for_admin",
    "context_for_brokers",
    "context_for_clients",
    "context_for_shims",
    "dial",
    "name_told",
    "own_names",
    "refuses_certificate",
    "shown_names",
    "tls_reason",
    "tls_server",
]
