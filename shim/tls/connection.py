"""TLS between a socket's transport and a protocol that knows nothing of it."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from shim.config import HostPort
from shim.tls.contexts import TlsContext
from shim.tls.pace import HandshakePace
from shim.tls.stream import TlsStream
from shim.tls.words import NotTls, tls_reason

HANDSHAKE_SECONDS = 10.0
"""How long a client may take for the handshake."""
_RESET = struct.pack("ii", 1, 0)
"""Of SO_LINGER: nothing stays of the connection when it is closed."""


class Receiver(Protocol):
    """What is given what is in a connection: a protocol of asyncio's that takes bytes, whatever else it takes."""

    def connection_made(self, transport: asyncio.BaseTransport, /) -> None: ...

    def data_received(self, data: bytes, /) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None, /) -> None: ...


ProtocolT = TypeVar("ProtocolT", bound=Receiver)
Refused = Callable[[HostPort, str], None]


class _TlsConnection(asyncio.Protocol, asyncio.Transport):
    """The socket's protocol, and the transport of ``app``."""

    def __init__(self, stream: TlsStream, app: Receiver) -> None:
        super().__init__()
        self._stream = stream
        self._app = app
        self._told = False  # whether `app` has this connection
        self._socket: asyncio.Transport | None = None
        self._closing = False
        self._error: Exception | None = None

    # What the socket tells.

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        self._made()

    def _made(self) -> None:
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        was_secured = self._stream.secured
        try:
            plaintext = self._stream.receive(data)
        except (NotTls, ssl.SSLError) as error:
            self._flush()
            self._fail(error)
            return
        self._flush()
        if not was_secured and self._stream.secured:
            self._secured()
        if plaintext and not self._closing:
            self._app.data_received(plaintext)
        if self._stream.ended:
            self.close()

    def _secured(self) -> None:
        raise NotImplementedError

    def pause_writing(self) -> None:
        if self._told:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        if self._told:
            self._app.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._told:
            self._told = False
            self._app.connection_lost(self._error or exc)
        # This is its transport, and a cycle would wait for a collector that seldom comes (shim.main).
        del self._app

    def _fail(self, error: Exception) -> None:
        """The stream cannot go on; what is left to send says so."""
        self._error = error
        self._closing = True
        if self._socket is not None:
            # Where that cannot leave at once the other side does not read.
            self._socket.abort() if self._socket.get_write_buffer_size() else self._socket.close()

    def _flush(self) -> None:
        pieces = self._stream.to_send()
        if pieces and self._socket is not None and not self._socket.is_closing():
            if len(pieces) == 1:
                self._socket.write(pieces[0])
            else:
                self._socket.writelines(pieces)

    # What the protocol asks of its transport.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        try:
            self._stream.send(cast(bytes, data))
        except ssl.SSLError as error:
            self._fail(error)
        else:
            self._flush()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._stream.end()
            self._flush()
        if self._socket is not None:
            self._socket.close()

    def abort(self) -> None:
        self._closing = True
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        return self._closing or (self._socket is not None and self._socket.is_closing())

    def pause_reading(self) -> None:
        if self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if self._socket is not None:
            self._socket.resume_reading()

    def is_reading(self) -> bool:
        return self._socket is not None and self._socket.is_reading()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0 if self._socket is None else self._socket.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        assert self._socket is not None
        return self._socket.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._socket is not None
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._stream.object
        return default if self._socket is None else self._socket.get_extra_info(name, default)


class _Server(_TlsConnection):
    """A client's connection. ``app`` has it from the first moment, so that it counts while its handshake lasts."""

    def __init__(self, stream: TlsStream, app: Receiver, refused: Refused, pace: HandshakePace | None) -> None:
        super().__init__(stream, app)
        self._refused = refused
        self._pace = pace
        self._turn: Callable[[], None] | None = None  # waits at the pace
        self._patience: asyncio.TimerHandle | None = None

    def _made(self) -> None:
        self._patience = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._too_late)
        self._told = True
        self._app.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._pace is None or self._stream.secured or self._closing:
            super().data_received(data)
            return
        self.pause_reading()  # one step at a time
        self._turn = partial(self._step, data)
        self._pace.take(self._turn)

    def _step(self, data: bytes) -> None:
        self._turn = None
        if not self._closing:
            self.resume_reading()
            super().data_received(data)

    def _secured(self) -> None:
        self._calm()

    def _too_late(self) -> None:
        if self._error is None and not self._closing:
            self._name(f"no TLS handshake within {HANDSHAKE_SECONDS:g} s")
        self.abort()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ssl.SSLError):
            self._name(tls_reason(error) if self._stream.secured else f"TLS handshake: {tls_reason(error)}")
        else:
            self._name(str(error))
        super()._fail(error)

    def _name(self, reason: str) -> None:
        assert self._socket is not None
        peer = self._socket.get_extra_info("peername") or ("?", 0)
        self._refused(HostPort(peer[0], peer[1]), reason)

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        if self._pace is not None and self._turn is not None:
            self._pace.leave(self._turn)
            self._turn = None
        if self._stream.begun and not self._stream.secured and not self._closing:
            # Some refuse a certificate and do not say so.
            self._name("gone in the TLS handshake")
        super().connection_lost(exc)

    def _calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class _Client(_TlsConnection):
    """A connection to a broker. ``app`` has it from the end of the handshake on."""

    def __init__(self, stream: TlsStream, app: Receiver) -> None:
        super().__init__(stream, app)
        self.secured: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _made(self) -> None:
        self.data_received(b"")

    def _secured(self) -> None:
        if not self.secured.done():
            self.secured.set_result(None)
            self._told = True
            self._app.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.secured.done():
            lost = self._error or exc or ConnectionResetError("closed in the TLS handshake: does it speak TLS there?")
            self.secured.set_exception(lost)
            self.secured.exception()  # nobody may be waiting for it any more
        super().connection_lost(exc)


class _Plain(asyncio.Protocol):
    """A connection without TLS until it is made: one that has its own address for its peer's is to itself, and closed
    before ``app`` hears of it."""

    def __init__(self, app: Receiver) -> None:
        self._app = app
        self.is_to_itself = False

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport, own = cast(asyncio.Transport, made), made.get_extra_info("sockname")
        if own is not None and own == made.get_extra_info("peername"):
            self.is_to_itself = True
            made.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()  # at once, so that whoever is to listen there can
            return
        transport.set_protocol(cast(asyncio.BaseProtocol, self._app))
        self._app.connection_made(transport)


def tls_server(
    context: TlsContext, app: Receiver, refused: Refused, pace: HandshakePace | None = None
) -> asyncio.Protocol:
    """For a connection that has come: the protocol that gives ``app`` what is in it.

    ``app`` is told of the connection at once, and of its end in any case. ``refused`` is told, beside, why one could
    not be understood. Who comes and goes without a word (a look whether the port is open) has no line. ``pace``: of
    the handshakes of more than one connection, where they are not to have all the time that they want.
    """
    return _Server(TlsStream(context.current, server_side=True), app, refused, pace)


async def dial(factory: Callable[[], ProtocolT], address: HostPort, context: TlsContext | None) -> ProtocolT:
    """Connect to a broker, in TLS where there is a ``context``; gives the protocol, which has its transport then.

    Where nobody listens, at a port of this machine of those that systems give to who connects, the connection may be
    given that very port, and is to itself. That is a refused one: in TLS its own hello is an error.

    Raises what connecting raises, :class:`ssl.SSLError`, and :class:`ValueError` for what is no host name. The time
    that it takes is for the caller to bound.
    """
    loop = asyncio.get_running_loop()
    app = factory()
    if context is None:
        _, plain = await loop.create_connection(lambda: _Plain(app), address.host, address.port)
        if plain.is_to_itself:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")
        return app
    try:
        stream = TlsStream(context.current, server_side=False, server_hostname=address.host)
    except TypeError as error:  # of a NUL in the name
        raise ValueError(str(error)) from error
    _, connection = await loop.create_connection(lambda: _Client(stream, app), address.host, address.port)
    try:
        await connection.secured
    except BaseException:  # given up, too
        connection.abort()
        raise
    return app
