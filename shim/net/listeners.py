"""The shim's ports: bootstrap, and one for each broker, opened and closed as brokers come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from shim.api import Services
from shim.config import HostPort, Settings, parse_counts
from shim.faults import Faults, FaultySession, load_faults
from shim.listener_config import TOO_NEAR, Listener, overlap
from shim.metrics import Traffic
from shim.net.accepting import OWN_SOCKETS, Acceptor, addresses_of, listen
from shim.net.budget import RequestBudget
from shim.net.complaints import Complaints
from shim.net.listening import ListeningSockets
from shim.net.outgoing import Departures
from shim.net.quotas import ConnectionQuotas, ListenerQuotas, PerAddress, most_connections, open_files_allowed
from shim.net.session import ClientSession
from shim.net.sessions import Sessions
from shim.net.silence import pause_seconds
from shim.tls import TlsContext, tls_server
from shim.upstream import UnansweredLinks, reason_of

log = logging.getLogger(__name__)


class CannotListen(Exception):
    """A port could not be opened; the message is one line."""


class Limits(NamedTuple):
    """What all listeners of the process share."""

    connections: ConnectionQuotas
    budget: RequestBudget
    strangers: RequestBudget
    traffic: Traffic
    faults: Faults | None = None
    listening: ListeningSockets = OWN_SOCKETS

    @classmethod
    def of(cls, settings: Settings, log_files: int = 0, listening: ListeningSockets = OWN_SOCKETS) -> Limits:
        """``log_files``: how many files the log may have open, beside which there has to be room for connections.
        ``listening``: where the ports' sockets come from.

        Raises :class:`SettingError` for faults that cannot be read.
        """
        most = most_connections(open_files_allowed(), log_files)
        faults = None
        if settings.fault_injection_file:
            faults = load_faults(Path(settings.fault_injection_file))
            log.warning("faults are injected, as %s says: this is for tests alone", settings.fault_injection_file)
        budget = RequestBudget(settings.queued_max_request_bytes)
        return cls(ConnectionQuotas(settings, most=most), budget, budget.for_strangers(), Traffic(), faults, listening)


class OneListener:
    """All ports of one listener and all their connections. ``services`` have its port map; TLS where it has ``tls``."""

    def __init__(
        self,
        limits: Limits,
        departures: Departures,
        listener: Listener,
        services: Services,
        tls: TlsContext | None = None,
    ) -> None:
        self._limits = limits
        self._listen = listener.listen
        self._setting = listener.setting
        self._services = services
        self._settings = listener.settings
        self._tls = tls
        self._quotas: ListenerQuotas | None = None
        self._complaints = Complaints(log)
        self._looking: asyncio.TimerHandle | None = None
        self._bootstrap: Acceptor | None = None
        self._by_node: dict[int, Acceptor] = {}
        self._refused: dict[int, str] = {}
        self._sessions = Sessions(
            self._complaints,
            limits.budget,
            limits.strangers,
            departures,
            limits.traffic,
            UnansweredLinks(listener.settings),
        )
        self._closed = False

    def take_settings(self, settings: Settings) -> None:
        """Of connections to come; of those that there are, when they are closed for their silence."""
        self._settings = settings
        if self._quotas is not None:
            self._quotas.take_settings(settings)
        if self._looking is not None and not self._closed:
            self._looking.cancel()
            self._look()

    async def open(self) -> None:
        """Open the bootstrap port. Raises :class:`CannotListen`."""
        await self._find_quotas()
        self._bootstrap = await self._serve(self._listen.port, None, self._services.cluster.any_address)

    async def follow(self, brokers: Mapping[int, HostPort]) -> None:
        """Have exactly the ports of ``brokers`` open. A port that cannot be opened is logged, once, and tried again."""
        for node_id in self._by_node.keys() - brokers.keys():
            self._by_node.pop(node_id).close()
            port = self._services.ports.listening_of(node_id)
            log.info("broker %d has left the cluster, port %d closed", node_id, port)
        for node_id in sorted(brokers.keys() - self._by_node.keys()):
            if self._closed:
                return
            try:
                port = self._services.ports.listening_of(node_id)
                target = partial(self._services.cluster.address_of, node_id)
                self._by_node[node_id] = await self._serve(port, node_id, target)
            except (CannotListen, ValueError) as error:
                reason = f"no port for broker {node_id}: {error}"
                if self._refused.get(node_id) != reason:
                    log.error("%s", reason)
                self._refused[node_id] = reason
            else:
                self._refused.pop(node_id, None)
        for node_id in self._refused.keys() - brokers.keys():
            del self._refused[node_id]

    @property
    def refused(self) -> Sequence[str]:
        """Why brokers have no port, a line for each of them."""
        return tuple(self._refused.values())

    async def _serve(self, port: int, node_id: int | None, target: Callable[[], Sequence[HostPort]]) -> Acceptor:
        faults = self._limits.faults

        def connection(ended: Callable[[], None]) -> asyncio.BaseProtocol:
            made = ClientSession(self._services, self._settings, node_id, target, self._sessions, ended)
            app = made if faults is None else FaultySession(made, faults)
            return app if self._tls is None else tls_server(self._tls, app, self._complaints.closed)

        quotas = await self._find_quotas()
        address = HostPort(self._listen.host, port)
        try:
            acceptor = await listen(address, connection, quotas, self._complaints, self._limits.listening)
        except OSError as error:
            raise CannotListen(f"cannot listen on {address} ({self._setting}): {reason_of(error)}") from error
        if self._closed:
            acceptor.close()
        elif self._looking is None:
            self._look()
        return acceptor

    async def _find_quotas(self) -> ListenerQuotas:
        if self._quotas is None:
            overrides = parse_counts(self._settings.max_connections_per_ip_overrides)
            try:
                found = await addresses_of(overrides)
            except OSError as error:
                raise CannotListen(f"max.connections.per.ip.overrides: {reason_of(error)}") from error
            per_address = PerAddress(self._settings.max_connections_per_ip, found)
            self._quotas = self._limits.connections.listener(self._settings, per_address)
        return self._quotas

    def _look(self) -> None:
        """At who is silent, again and again."""
        idle = self._settings.connections_max_idle_ms / 1000
        unfinished = self._settings.request_timeout_ms / 1000
        self._sessions.close_silent(idle, unfinished)
        self._looking = asyncio.get_running_loop().call_later(pause_seconds(idle, unfinished), self._look)

    def lead_away(self, node_ids: Collection[int]) -> None:
        """Close connections at these brokers' ports, which stay open, when what they have asked is answered."""
        self._sessions.lead_away(node_ids)

    def know_others(self, stands_elsewhere: Callable[[int], bool]) -> None:
        """Whether clients are to find a broker at another shim; see :attr:`Sessions.stands_elsewhere`."""
        self._sessions.stands_elsewhere = stands_elsewhere

    async def drain(self, timeout_seconds: float) -> None:
        """Accept nobody, let requests in flight be answered, close every connection."""
        self._close_ports()
        await self._sessions.drain(timeout_seconds)

    def close(self) -> None:
        """Close every port and cut off every connection. May be called at any time, and again."""
        self._close_ports()
        self._sessions.abort()

    def _close_ports(self) -> None:
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
        for server in (self._bootstrap, *self._by_node.values()):
            if server is not None:
                server.close()


class Listeners:
    """All listeners, with what each of them serves and, where it speaks TLS, its context."""

    def __init__(
        self,
        listeners: Sequence[tuple[Listener, Services, TlsContext | None]],
        limits: Limits,
        departures: Departures | None = None,
    ) -> None:
        """``departures``: for who knows when answers are complete."""
        self._listeners = [listener for listener, _, _ in listeners]
        departures = departures or Departures()
        self._ports = [OneListener(limits, departures, *each) for each in listeners]
        self._overlap: str | None = None
        self._connections = limits.connections

    def take_listeners(self, settings: Settings, listeners: Sequence[Listener]) -> None:
        """The same listeners, in the same order, with settings that may have changed; ``settings``: everybody's."""
        self._connections.take_settings(settings)
        for ports, listener in zip(self._ports, listeners, strict=True):
            ports.take_settings(listener.settings)

    async def open(self) -> None:
        """Open the bootstrap ports. Raises :class:`CannotListen`."""
        for listener, ports in zip(self._listeners, self._ports, strict=True):
            await ports.open()
            log.info("listener %s", listener)

    async def follow(self, brokers: Mapping[int, HostPort]) -> None:
        """Have exactly the ports of ``brokers`` open. A port that cannot be opened is logged, once, and tried again."""
        found = overlap(self._listeners, brokers)
        if found is not None and found != self._overlap:
            log.error("%s: %s", TOO_NEAR, found)
        self._overlap = found
        for ports in self._ports:
            await ports.follow(brokers)

    @property
    def refused(self) -> Sequence[str]:
        """Why brokers have no port, a line for each of them."""
        lines = () if self._overlap is None else (f"{TOO_NEAR}: {self._overlap}",)
        return (*lines, *(line for ports in self._ports for line in ports.refused))

    def lead_away(self, node_ids: Collection[int]) -> None:
        """Close connections at these brokers' ports, which stay open, when what they have asked is answered."""
        for ports in self._ports:
            ports.lead_away(node_ids)

    def know_others(self, stands_elsewhere: Callable[[int], bool]) -> None:
        """Whether clients are to find a broker at another shim."""
        for ports in self._ports:
            ports.know_others(stands_elsewhere)

    async def drain(self, timeout_seconds: float) -> None:
        """Accept nobody, let requests in flight be answered, close every connection."""
        await asyncio.gather(*(ports.drain(timeout_seconds) for ports in self._ports))

    def close(self) -> None:
        """Close every port and cut off every connection. May be called at any time, and again."""
        for ports in self._ports:
            ports.close()
