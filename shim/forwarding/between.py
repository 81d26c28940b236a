"""A process and others like it: its port for what they forward, and its connections to them. What is different between
shims and between workers of one is in a :class:`Way`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from protocol.own.between_shims import Hello
from shim.config import Settings
from shim.forwarding.owner import Room
from shim.forwarding.peers import Dial, OwnerOf, Peer, Peers, shim_at
from shim.forwarding.serving import Accept, Admits, PeerServer
from shim.upstream import reason_of


class CannotBeReached(Exception):
    """By others, as there is no port for them; the message is one line."""


class Port(Protocol):
    """Where others connect to."""

    async def open(self) -> None:
        """Raises OSError."""

    def close(self) -> None: ...


class Way(NamedTuple):
    """``log``: which log this process has a part of: it has to be the same at both ends. ``name``: what it is called
    there. ``where``: its port's address, with the setting that says so, or path; ``port`` makes it, and ``admits`` says
    who may come. ``others``: all of them, where these are one shim for who asks a broker. ``called``: what one is to
    people."""

    owner_of: OwnerOf
    dial: Dial
    log: Callable[[], str]
    name: str
    where: str
    port: Callable[[PeerServer], Port]
    admits: Admits
    others: Sequence[Peer] = ()
    called: Callable[[Peer], str] = shim_at


class Between:
    """For the event loop. ``peers``: those that requests are forwarded to; ``others``: see :class:`Way`."""

    def __init__(self, way: Way, settings: Settings) -> None:
        self.others = way.others
        self.peers = Peers(way.owner_of, way.dial, self._hello, called=way.called)
        self._way = way
        self._settings = settings
        self._port: Port | None = None

    def _hello(self) -> Hello:
        return Hello(self._way.log(), self._way.name, self._settings.socket_request_max_bytes)

    def serve(self, accept: Accept) -> None:
        """What others forward, from :meth:`open` on."""
        room = Room(self._settings.queued_max_request_bytes)
        self._port = self._way.port(PeerServer(self._hello, accept, room, self._way.admits))

    def take_settings(self, settings: Settings) -> None:
        """Of connections to come."""
        self._settings = settings

    async def open(self) -> None:
        """Raises :class:`CannotBeReached`."""
        assert self._port is not None, "it is known what is served"
        try:
            await self._port.open()
        except OSError as error:
            raise CannotBeReached(f"cannot listen on {self._way.where}: {reason_of(error)}") from error

    def leave(self) -> None:
        """This process ends: where others end with it, nobody need know."""
        self.peers.leave()

    def give_up(self) -> None:
        """What is forwarded and not answered by now is answered NOT_COORDINATOR."""
        self.peers.close()

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
        self.peers.close()
