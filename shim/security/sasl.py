"""How far a client connection is with its authentication at the broker behind it. Pure: frames and a clock.

SASL is between client and broker; the shim hands frames on and reads along. What matters is that it never believes in
more than the broker does: nothing is served before the broker has accepted the credentials, nor once the session that
it has granted is over (KIP-368). Source: KIP-43, KIP-152 and KIP-368, and what Kafka 4.3.1 was seen to do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from protocol.errors import DecodeError, ErrorCode
from protocol.messages import sasl_authenticate, sasl_handshake
from shim.security.principals import UNKNOWN, principal_of

_SIZE: Final = struct.Struct(">i")

_NO_MECHANISM: Final = "(not through a proxy)"
"""What no broker can have enabled."""


class Phase(Enum):
    """``STRANGER``: only ApiVersions and SaslHandshake are for it. ``TOKENS``: whatever comes is for the broker, which
    wants SaslAuthenticate. ``BARE_TOKENS``: tokens come, without a header. ``AUTHENTICATED``. ``EXPIRED``: only
    SaslHandshake is for it. ``OVER``: nothing more is.
    """

    STRANGER = auto()
    TOKENS = auto()
    BARE_TOKENS = auto()
    AUTHENTICATED = auto()
    EXPIRED = auto()
    OVER = auto()


# Whether the broker's token says that the credentials are accepted; a broker that refuses them sends an error, or
# nothing. SCRAM: the server's first message begins with a nonce, its last one with its signature. OAUTHBEARER: a token
# that is not empty says what was wrong.
_ACCEPTS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "PLAIN": lambda token: not token,
    "SCRAM-SHA-256": lambda token: token.startswith(b"v="),
    "SCRAM-SHA-512": lambda token: token.startswith(b"v="),
    "OAUTHBEARER": lambda token: not token,
}

MECHANISMS: Final = tuple(_ACCEPTS)
"""Those that can be followed. Not GSSAPI: its tickets are for the broker's host name, not for the shim's."""


class Answer(NamedTuple):
    """``frame`` is for the client. ``reauthenticated``: what was known of this client's rights may have changed."""

    frame: bytes
    reauthenticated: bool = False


class Authentication:
    """Times are in seconds, of a clock that only runs forward."""

    def __init__(self) -> None:
        self.phase = Phase.STRANGER
        self.principal = UNKNOWN
        """Of whom the broker has accepted."""
        self.expires_at: float | None = None
        """When the session ends; None where it does not, or nobody has said."""
        self.is_told = False
        """Whether the broker could say when the session ends: it has no way to in old versions, and ends it still."""
        self._accepted_before = False
        self._mechanism = ""
        self._bare = False
        self._name = UNKNOWN
        self._first_token_seen = False
        self._asked_at = 0.0

    def expire(self) -> None:
        """The session is over."""
        if self.phase is Phase.AUTHENTICATED:
            self.phase = Phase.EXPIRED

    # SaslHandshake. Frames begin with their size.

    def handshake(self, version: int, frame: bytes) -> bytes:
        """What to send to the broker for it. Raises DecodeError."""
        header, request = sasl_handshake.API.parse_request(version, frame, _SIZE.size)
        self._mechanism, self._bare = request.mechanism, version == 0
        if request.mechanism in _ACCEPTS:
            return frame
        # The broker might know it: it is asked for one that it does not, and says which ones there are.
        asked = sasl_handshake.SaslHandshakeRequest(_NO_MECHANISM)
        return sasl_handshake.API.request_frame(version, header.correlation_id, header.client_id, asked)

    def handshaken(self, version: int, frame: bytes) -> Answer:
        """The broker has answered. Raises DecodeError."""
        correlation_id, answer = sasl_handshake.API.parse_response(version, frame, _SIZE.size)
        if answer.error_code == ErrorCode.NONE:
            if self._mechanism not in _ACCEPTS:
                raise DecodeError(f"the broker has a mechanism {_NO_MECHANISM!r}", 0, "SaslHandshakeResponse")
            self.phase = Phase.BARE_TOKENS if self._bare else Phase.TOKENS
            self._name, self._first_token_seen = UNKNOWN, False
        elif answer.error_code != ErrorCode.ILLEGAL_SASL_STATE or not self._accepted_before:
            self.phase = Phase.OVER
        # Otherwise it came too soon after the last one (a second): the session goes on as it was.
        mechanisms = tuple(name for name in answer.mechanisms if name in _ACCEPTS)
        if mechanisms != answer.mechanisms:
            frame = sasl_handshake.API.response_frame(version, correlation_id, answer._replace(mechanisms=mechanisms))
        return Answer(frame)

    # SaslAuthenticate.

    def authenticate(self, version: int, frame: bytes, now: float) -> None:
        """It goes to the broker as it is. Raises DecodeError."""
        _, request = sasl_authenticate.API.parse_request(version, frame, _SIZE.size)
        self._take_token(request.auth_bytes, now)

    def authenticated(self, version: int, frame: bytes) -> Answer:
        """The broker has answered. Raises DecodeError."""
        _, answer = sasl_authenticate.API.parse_response(version, frame, _SIZE.size)
        if answer.error_code != ErrorCode.NONE:
            self.phase = Phase.OVER
            return Answer(frame)
        lifetime = answer.session_lifetime_ms / 1000 if version >= 1 else None
        return Answer(frame, self._take_answer(answer.auth_bytes, lifetime))

    # Tokens without a header.

    def token(self, token: bytes, now: float) -> None:
        """It goes to the broker as it is, behind its size."""
        self._take_token(token, now)

    def token_answered(self, frame: bytes) -> Answer:
        """The broker has answered; a broker that refuses the token ends the connection instead."""
        return Answer(frame, self._take_answer(frame[_SIZE.size :], None))

    def refused(self, frame: bytes) -> Answer:
        """The broker has answered what is no part of an authentication: with an error, and ends the connection."""
        self.phase = Phase.OVER
        return Answer(frame)

    def _take_token(self, token: bytes, now: float) -> None:
        # A broker that has refused a token of OAUTHBEARER takes another one: then the name is that one's. Of SCRAM it
        # is the first message that has the name.
        if not self._first_token_seen or not self._mechanism.startswith("SCRAM"):
            self._first_token_seen = True
            self._name = principal_of(self._mechanism, token)
        # From here on: what the broker grants begins later, so that it never ends before it ends here.
        self._asked_at = now

    def _take_answer(self, token: bytes, lifetime: float | None) -> bool:
        """Whether it was a re-authentication that has succeeded."""
        if not _ACCEPTS[self._mechanism](token):
            return False
        again = self._accepted_before
        self._accepted_before = True
        self.phase = Phase.AUTHENTICATED
        self.principal = self._name
        self.is_told = lifetime is not None
        self.expires_at = self._asked_at + lifetime if lifetime else None
        return again
