"""Connections to the brokers of a live cluster, for as long as a command takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from protocol.api import Api
from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.offsets.cluster.kept_brokers import ConnectedBrokers
from shim.upstream.errors import UpstreamError


class LiveBrokers(ConnectedBrokers):
    """Those that one of the ``bootstrap`` servers names; nothing is sent twice. Everything raises UpstreamError."""

    def __init__(self, bootstrap: Sequence[HostPort], settings: Settings) -> None:
        super().__init__(settings)
        self.cluster_id: str | None = None
        self._addresses: dict[int, HostPort] = {}
        self._bootstrap = bootstrap

    @property
    def addresses(self) -> Mapping[int, HostPort]:
        return self._addresses

    def is_sent_once(self, _: Api[Any, Any]) -> bool:
        return True

    async def __aenter__(self) -> Self:
        failures = []
        for address in self._bootstrap:
            try:
                answer = await self._connections.to(address).ask(metadata.API, metadata.MetadataRequest(topics=()))
            except UpstreamError as error:
                failures.append(str(error))
                continue
            self._addresses = {broker.node_id: HostPort(broker.host, broker.port) for broker in answer.brokers}
            self.cluster_id = answer.cluster_id
            return self
        self.close()
        raise UpstreamError("; ".join(failures))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
