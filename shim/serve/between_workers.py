"""Forwarding between the workers of one shim: each has a socket beside what it notes, and knows who has what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from protocol.own.between_shims import Hello
from shim.api import EntrustedRequests, Services
from shim.api.entrusted import FORWARDED_TO_ALL
from shim.config import Settings
from shim.forwarding import Peer, Peers, PeerServer, Room
from shim.forwarding.over_unix import UnixPort, dial_over_unix, of_this_user
from shim.log import Share
from shim.metrics import AnswerCounts
from shim.net import CannotListen
from shim.security.authorizer import AskedElsewhere
from shim.upstream import reason_of
from shim.workers_folder import REQUESTS_NAME


class BetweenWorkers:
    """For the event loop. ``peers``: those that requests are forwarded to; ``others``: all of them."""

    def __init__(self, data_dir: Path, share: Share, settings: Settings) -> None:
        self._data_dir = data_dir
        self._share = share
        self._settings = settings
        self._port: UnixPort | None = None
        self.others: Sequence[Peer] = [self._path(number) for number in range(share.of) if number != share.number]
        self.peers = Peers(self._owner_of, dial_over_unix, self._hello)

    def _path(self, number: int) -> Path:
        return self._share.at(number).folder(self._data_dir) / REQUESTS_NAME

    def _owner_of(self, partition: int) -> Peer | None:
        return None if self._share.has(partition) else self._path(self._share.holder(partition))

    def _hello(self) -> Hello:
        log = f"{self._data_dir}, {self._share.of} workers"
        return Hello(log, f"worker {self._share.number}", self._settings.socket_request_max_bytes)

    def serve(self, services: Services, counts: AnswerCounts) -> None:
        """What others forward is answered with these."""
        here = services._replace(authorizer=AskedElsewhere(), peers=None, others=())
        requests = EntrustedRequests(here, counts, lambda: None, FORWARDED_TO_ALL)
        room = Room(self._settings.queued_max_request_bytes)
        server = PeerServer(self._hello, requests.accept, room, of_this_user)
        self._port = UnixPort(server, self._path(self._share.number))

    def take_settings(self, settings: Settings) -> None:
        """Of connections to come."""
        self._settings = settings

    async def open(self) -> None:
        """Raises :class:`CannotListen`."""
        assert self._port is not None, "it is known what is served"
        try:
            await self._port.open()
        except OSError as error:
            path = self._path(self._share.number)
            raise CannotListen(f"cannot listen on {path}: {reason_of(error)}") from error

    def give_up(self) -> None:
        """What is forwarded and not answered by now is answered NOT_COORDINATOR."""
        self.peers.close()

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
        self.peers.close()
