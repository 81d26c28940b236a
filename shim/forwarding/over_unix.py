"""Between processes of one shim: sockets of the system, which only this user can open."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from struct import Struct
from typing import Any, Final, cast

from shim.forwarding.peers import Link, Peer
from shim.forwarding.serving import PeerServer

_CREDENTIALS: Final = Struct("3i")  # process, user, group: SO_PEERCRED of Linux


async def dial_over_unix(peer: Peer, factory: Any) -> Any:
    """Peers are each a ``Path``. See :data:`shim.forwarding.peers.Dial`."""
    _, link = await asyncio.get_running_loop().create_unix_connection(factory, str(cast(Path, peer)))
    return cast(Link, link)


def listen_over_unix(path: Path) -> socket.socket:
    """A socket there that listens, in the place of one of a process that is gone. Raises OSError."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.bind(str(path))
        path.chmod(0o600)  # before anybody can connect
        listening.listen(socket.SOMAXCONN)
    except BaseException:
        listening.close()
        raise
    return listening


def of_this_user(transport: asyncio.Transport) -> str | None:
    """See :data:`shim.forwarding.serving.Admits`: whatever rights the folder has that the socket is in."""
    connection = transport.get_extra_info("socket")
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(said)
    return None if user == os.geteuid() else f"it is of user {user}"


class UnixPort:
    """Where other workers forward requests to."""

    def __init__(self, server: PeerServer, path: Path) -> None:
        self._server = server
        self._path = path
        self._listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Raises OSError."""
        listening = listen_over_unix(self._path)
        self._listening = await asyncio.get_running_loop().create_unix_server(self._server.connection, sock=listening)

    def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self._server.close()
