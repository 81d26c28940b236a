"""What goes wrong on the network, in words."""

from __future__ import annotations

import os
import socket
import ssl
from typing import Final

from protocol.errors import ErrorCode
from shim.tls import tls_reason


class UpstreamError(Exception):
    """A broker could not be reached, hung, or answered with something that is not the protocol."""


class Unanswered(UpstreamError):
    """No answer has come in time, on a connection that was not lost: what was asked may be done yet."""


class AuthenticationFailed(UpstreamError):
    """The brokers do not take the shim's own credentials, or these cannot be had."""


ARRIVES_WITHIN_SECONDS: Final = 30.0
"""What was sent on a connection that is broken off, or by a process that has ended, may be done by then, or never."""

PASSED_ON_WITHIN_SECONDS: Final = 5.0
"""What the owner of a group has said to be passed on to the cluster by the shim that has the client is passed on within
that time, or never."""


def reason_of(error: OSError | ValueError | OverflowError) -> str:
    """A few words fit for one line: the system's own, where the event loop puts long ones of its own in their place.

    The other two kinds are what connecting raises for a host that is no host name, and for a port that is no port.
    """
    if isinstance(error, TimeoutError):
        return "timed out"
    if not isinstance(error, OSError):
        return "not an address that can be connected to"
    if isinstance(error, ssl.SSLError):  # nor OpenSSL's own, which Python puts there
        return tls_reason(error)
    if isinstance(error, socket.gaierror):  # its errno counts in EAI codes, which strerror() does not know
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__


def raise_for(error_code: int, what: str) -> None:
    """Raises :class:`UpstreamError` for any code but 0."""
    if error_code != ErrorCode.NONE:
        raise UpstreamError(f"{what}: {ErrorCode.for_code(error_code).name}")
