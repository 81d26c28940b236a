"""Whether the cluster has an authorizer: where it has none, no client is asked about.

Each broker is asked, as the shim itself, every `topology.refresh.interval.ms`: DescribeAcls (KIP-140, Kafka 0.11) says
SECURITY_DISABLED where there is no authorizer. Any other answer means that there is one, CLUSTER_AUTHORIZATION_FAILED
too. There is none in the cluster when all of its brokers have said so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import describe_acls, offset_delete
from shim.config import HostPort, Settings
from shim.upstream import NO_ACLS, Cluster, UpstreamError
from shim.upstream.connection import BrokerConnection

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5
"""While no broker has said anything."""
PATIENCE_SECONDS: Final = 3.0
"""One that hangs must not keep back what the others say."""


class Said(Enum):
    """What a broker has said."""

    NONE = auto()
    ONE = auto()
    TOO_OLD = auto()
    """It may have one, and cannot be asked about rights."""


class AskedElsewhere:
    """In the place of an :class:`Authorizer`, where the rights of clients have been asked for already."""

    absent: Final = True
    is_known: Final = True
    can_be_asked: Final = True


class Authorizer:
    """For the event loop. Until a broker has said something, and of each broker that has not, the cluster counts as
    having one."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._asked: dict[HostPort, _Asked] = {}
        self._wake = asyncio.Event()
        self.known = asyncio.Event()
        """Set when the first broker has answered."""
        self._told: tuple[int, str] | None = None
        self.absent = False
        """Whether there is none for sure."""
        self.can_be_asked = True
        """False where a broker is too old for the questions about rights: then nobody has any."""
        cluster.watch(self._follow)

    def take_settings(self, settings: Settings) -> None:
        """Brokers are asked at once, and from then on at the new interval."""
        self._settings = settings
        self._wake.set()

    @property
    def is_known(self) -> bool:
        """Whether a broker has answered: until then nobody is served."""
        return self.known.is_set()

    async def _follow(self, brokers: Mapping[int, HostPort]) -> None:
        if set(brokers.values()) != self._asked.keys():
            self._conclude()  # a new one has said nothing yet
            self._wake.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                self._wake.clear()
                await self._ask_all(self._cluster.brokers.values())
                interval = self._settings.topology_refresh_interval_ms / 1000 if self.known.is_set() else RETRY_SECONDS
                try:
                    async with asyncio.timeout(interval):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            for asked in self._asked.values():
                asked.close()

    async def _ask_all(self, addresses: Collection[HostPort]) -> None:
        for address in self._asked.keys() - set(addresses):
            self._asked.pop(address).close()
        for address in addresses:
            if address not in self._asked:
                self._asked[address] = _Asked(address, self._settings)
        await asyncio.gather(*(asked.ask() for asked in self._asked.values()))
        self._conclude()

    def _conclude(self) -> None:
        addresses = set(self._cluster.brokers.values())
        said = [self._asked[address].said if address in self._asked else None for address in addresses]
        self.absent = bool(said) and all(each is Said.NONE for each in said)
        self.can_be_asked = Said.TOO_OLD not in said
        if any(each is not None for each in said):
            self._tell(_line(said))
            self.known.set()

    def _tell(self, line: tuple[int, str]) -> None:
        if line != self._told:
            self._told = line
            log.log(*line)


def _line(said: Collection[Said | None]) -> tuple[int, str]:
    if Said.TOO_OLD in said:
        reason = "a broker is older than 2.4 and may have an authorizer, which cannot be asked"
        return logging.ERROR, f"no group is served: {reason}"
    if Said.ONE in said:
        return logging.INFO, "the cluster has an authorizer: it is asked what each client may do"
    if None in said:
        return logging.INFO, (
            "not every broker has said yet whether the cluster has an authorizer: as if it had one, it is asked what "
            "each client may do"
        )
    return logging.INFO, "the cluster has no authorizer"


class _Asked:
    """One broker, and what it said last; that holds while it cannot be reached."""

    def __init__(self, address: HostPort, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._connection: BrokerConnection | None = None
        self.said: Said | None = None

    async def ask(self) -> None:
        try:
            if self._connection is None:
                connection = BrokerConnection(self._address, self._settings, PATIENCE_SECONDS)
                await connection.open()
                self._connection = connection
            said = await _said(self._connection)
        except UpstreamError as error:
            self.close()
            log.debug("%s was not asked for an authorizer: %s", self._address, error)
        except BaseException:  # given up: what is read next would be the answer to this one
            self.close()
            raise
        else:
            self.said = said

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def _said(connection: BrokerConnection) -> Said:
    oldest, newest = describe_acls.API.versions
    if not any(connection.offers(describe_acls.API, version) for version in range(oldest, newest + 1)):
        return Said.TOO_OLD
    answer = await connection.ask(describe_acls.API, NO_ACLS)
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return Said.NONE
    return Said.ONE if connection.offers(offset_delete.API, 0) else Said.TOO_OLD
