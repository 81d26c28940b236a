"""What passes, cut into frames and answers that are asked for: what a rule is held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from protocol.apis import APIS
from protocol.errors import DecodeError, ErrorCode
from shim.security.sasl import Authentication, Phase

_SIZE_FIELD: Final = 4

LARGEST: Final = 1 << 30
"""Bytes of a frame; what announces more is no frame, and passes as it is, with all that is behind it."""


class Asked(NamedTuple):
    """A request that will be answered. ``answer``: what is answered in place of carrying it out. A SASL token has no
    API: no rule is about it, nor about what answers it."""

    api: int
    version: int
    groups: Sequence[str]
    answer: bytes | None = None


TOKEN: Final = Asked(-1, -1, ())
NOBODYS: Final = Asked(-1, -1, (), b"")


class Tokens:
    """Which of a client's frames are SASL tokens without a header (KIP-43): after SaslHandshake version 0, until the
    broker has accepted it. While that is not known, what comes next is neither.
    """

    def __init__(self) -> None:
        self._authentication: Authentication | None = None
        self._unanswered = False

    @property
    def undecided(self) -> bool:
        return self._unanswered

    @property
    def expected(self) -> bool:
        return self._authentication is not None and self._authentication.phase is Phase.BARE_TOKENS

    def handshake(self, frame: bytes) -> None:
        """One of version 0 is passed on, its size in front; what is none the session will say."""
        self._authentication = Authentication()
        try:
            self._authentication.handshake(0, frame)
        except DecodeError:
            self._authentication = None
        else:
            self._unanswered = True

    def token(self, frame: bytes) -> None:
        assert self._authentication is not None
        self._authentication.token(frame[_SIZE_FIELD:], 0.0)
        self._unanswered = True

    def answered(self, frame: bytes) -> None:
        """To the handshake or the token that was passed on last."""
        if self._authentication is None or not self._unanswered:
            return
        self._unanswered = False
        if self._authentication.phase is Phase.BARE_TOKENS:
            self._authentication.token_answered(frame)
        else:
            self._authentication.handshaken(0, frame)


class Frames:
    """Cuts a stream into frames, size field included; bytes that are none come in whatever pieces they came."""

    def __init__(self) -> None:
        self._tail = b""
        self._is_none = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        data, self._tail = self._tail + data, b""
        while len(data) >= _SIZE_FIELD and not self._is_none:
            size = int.from_bytes(data[:_SIZE_FIELD], "big", signed=True)
            if not 0 <= size <= LARGEST:
                self._is_none = True
                break
            if len(data) < _SIZE_FIELD + size:
                break
            yield data[: _SIZE_FIELD + size]
            data = data[_SIZE_FIELD + size :]
        if self._is_none and data:
            yield data
        else:
            self._tail = data


def groups_of(api: int, version: int, frame: bytes) -> Sequence[str]:
    """The groups that a request, size field included, is about; none where it cannot be read."""
    try:
        _, request = APIS[api].parse_request(version, frame, _SIZE_FIELD)
    except (KeyError, DecodeError):
        return ()
    found: list[str] = []
    for name in ("group_id", "groups", "groups_names", "coordinator_keys", "key"):
        value = getattr(request, name, ())
        several = (value,) if isinstance(value, str) else value
        found.extend(each if isinstance(each, str) else each.group_id for each in several)
    return found


def with_error(value: Any, error: ErrorCode) -> Any:
    """The same response with each of its error codes put to ``error``."""
    if not isinstance(value, tuple):
        return value
    changed = [with_error(each, error) for each in value]
    fields = getattr(value, "_fields", None)
    if fields is None:
        return tuple(changed)
    for at, name in enumerate(fields):
        if name == "error_code":
            changed[at] = int(error)
    return type(value)(*changed)
