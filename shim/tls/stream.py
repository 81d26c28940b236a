"""One end of a TLS connection without I/O: bytes from the network in, plaintext out, and the other way round.

The event loops have TLS of their own. This one is here because of what theirs do not have: the reason of a failed
handshake, a context that is chosen when the connection comes, a connection that counts from its first byte, and memory
that is bounded by what one read brings (theirs keep a quarter of a megabyte for each connection).
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

from shim.tls.words import NotTls

_HANDSHAKE: Final = 22
"""The type of the record that every TLS connection begins with (RFC 8446, section 5.1)."""

_RECORD_BYTES: Final = 16_384
"""The most plaintext that one record holds."""

# OpenSSL's buffers grow to what is put in at once and never shrink: so little of it at a time.
_SLICE_BYTES: Final = 4 * _RECORD_BYTES

_HTTP: Final = (b"GET ", b"POST", b"HEAD", b"PUT ")


class TlsStream:
    """Whatever a method is called for, :meth:`to_send` may have bytes for the network afterwards, after an error, too:
    the alert that tells the other side.
    """

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None) -> None:
        """``server_hostname``: of a client's end, whom it means to speak to."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._to_send: list[bytes] = []
        self._unsent: list[bytes] = []
        self._server_side = server_side
        self.begun = False
        """Whether anything has come."""
        self.secured = False
        """Whether the handshake is done."""
        self.ended = False
        """Whether the other side has said that nothing more will come."""

    def receive(self, data: bytes) -> bytes:
        """Take what came from the network (a client begins with nothing); gives the plaintext in it.

        Raises :class:`NotTls` and :class:`ssl.SSLError`; the stream cannot go on then.
        """
        if data and not self.begun:
            self.begun = True
            if self._server_side and data[0] != _HANDSHAKE:
                raise NotTls(
                    "an HTTP request on a TLS port" if data[:4] in _HTTP else "a plaintext request on a TLS port"
                )
        plaintext: list[bytes] = []
        try:
            if len(data) <= _SLICE_BYTES:
                self._take(data, plaintext)
            else:
                view = memoryview(data)
                for start in range(0, len(data), _SLICE_BYTES):
                    self._take(view[start : start + _SLICE_BYTES], plaintext)
        finally:
            self._collect()
        return plaintext[0] if len(plaintext) == 1 else b"".join(plaintext)

    def send(self, data: bytes) -> None:
        """Encrypt; what is sent before the handshake is done waits for it. Raises :class:`ssl.SSLError`."""
        if not self.secured:
            self._unsent.append(data)
            return
        try:
            if len(data) <= _SLICE_BYTES:
                self.object.write(data)
                return
            view = memoryview(data)
            for start in range(0, len(data), _SLICE_BYTES):
                self.object.write(view[start : start + _SLICE_BYTES])
                self._collect()
        finally:
            self._collect()

    def end(self) -> None:
        """Nothing more will be sent: says so to the other side, and does not wait for its answer."""
        if self.secured:
            with suppress(ssl.SSLError):  # it has not answered yet, or is past being told
                self.object.unwrap()
            self._collect()

    def to_send(self) -> list[bytes]:
        """What is for the network, in pieces."""
        pieces, self._to_send = self._to_send, []
        return pieces

    def _take(self, data: bytes | memoryview, plaintext: list[bytes]) -> None:
        self._incoming.write(data)
        if not self.secured and not self._handshake():
            return
        read = self.object.read
        try:
            # A read gives one record at most.
            while not self.ended:
                piece = read(_RECORD_BYTES)
                if piece:
                    plaintext.append(piece)
                else:
                    self.ended = True
        except ssl.SSLWantReadError:
            pass

    def _handshake(self) -> bool:
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.secured = True
        unsent, self._unsent = self._unsent, []
        for data in unsent:
            self.send(data)
        return True

    def _collect(self) -> None:
        if self._outgoing.pending:
            self._to_send.append(self._outgoing.read())
