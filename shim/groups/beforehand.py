"""What has to be known of a group before its offsets are looked at or changed: who serves it, that the shim's log has
what decides about them, and who is in it in ZooKeeper. No offset is changed here."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from protocol.group_kinds import CLASSIC
from shim.groups.in_use import in_use_in_zookeeper
from shim.groups.words import Refused
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import SERVED, Placements, Whose
from shim.migration.stores import Stores
from shim.offsets.store import StoreError

log = logging.getLogger(__name__)


class Beforehand:
    """For the event loop."""

    def __init__(self, first_contact: FirstContact, placements: Placements, stores: Stores) -> None:
        self._first_contact = first_contact
        self._placements = placements
        self._stores = stores

    async def is_served(self, group: str, *, opening: bool, within_seconds: float | None = None) -> bool:
        """Whether the shim serves it; if not, the cluster does. ``opening``: one that nobody knows is made.
        ``within_seconds``: as for :meth:`FirstContact.whose`. Raises Refused, UpstreamError, and NotKnown without
        ``opening``."""
        whose = await self._first_contact.whose(group, CLASSIC if opening else None, within_seconds)
        if whose is Whose.CHANGING:
            raise Refused(f"group {group} changes hands now")
        return whose in SERVED

    async def ready_to_look(self, group: str) -> None:
        """Wait until the log of a group that is served has what another place has. Raises Refused."""
        if self._placements.of(group) is not Whose.SERVED_WITH_STORES:
            return
        try:
            await self._stores.ready(group)
        except StoreError as error:
            raise Refused(f"what group {group} has in ZooKeeper is not known: {error}") from error

    async def ready(self, group: str) -> None:
        """Wait until the log of a group that is served has what decides about its offsets. Raises Refused, also where
        consumers of it are in ZooKeeper."""
        if in_use := await self.in_use_in_zookeeper(group):
            raise Refused(f"group {group}: {in_use}")
        await self.ready_to_look(group)

    async def consumers_in_zookeeper(self, group: str) -> Sequence[str] | None:
        """The ids of those that are there, of a group whose offsets are there, too; for who only looks. None where it
        is not known now."""
        if self._placements.of(group) is not Whose.SERVED_WITH_STORES:
            return ()
        try:
            self._stores.in_sight()
            return await self._stores.consumers(group)
        except StoreError as error:  # what else is known is told
            log.debug("group %s: who is there in ZooKeeper is not told: %s", group, error)
            return None

    async def in_use_in_zookeeper(self, group: str) -> str:
        """Who is in a group that is served there, in a line that says what to do, and "" for nobody. Raises Refused
        where it is not known."""
        if self._placements.of(group) is not Whose.SERVED_WITH_STORES:
            return ""
        try:
            consumers = await self._stores.consumers(group)
        except StoreError as error:
            raise Refused(f"who is in group {group} in ZooKeeper is not known: {error}") from error
        return in_use_in_zookeeper(consumers) if consumers else ""
