"""What happens to groups, as lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from shim.coordinator import GroupEvent

log = logging.getLogger(__name__)


def tell(events: Iterable[GroupEvent]) -> None:
    """With the group beside each, so that one of which much is to be told takes no room from the others."""
    for group, template, values in events:
        log.info(template, *values, extra={"group": group})
