"""The ports that are known before anything is asked, tried before anything is opened, made or said."""

from __future__ import annotations

from collections.abc import Iterator

from shim.config import HostPort
from shim.given import Given
from shim.net.listening import check_free
from shim.serve.errors import CannotStart
from shim.upstream import reason_of


def check_ports(given: Given) -> None:
    """A start that would end for one of them ends with that line alone, and has left no new data directory behind.
    Whoever takes one from here on is told of when it is opened, and so is what is at a name. Raises
    :class:`CannotStart`."""
    for address, setting in _ports(given):
        try:
            check_free(address)
        except OSError as error:
            raise CannotStart(f"cannot listen on {address} ({setting}): {reason_of(error)}") from error


def _ports(given: Given) -> Iterator[tuple[HostPort, str]]:
    """Those of brokers are found once the cluster is."""
    if given.admin is not None:
        yield given.admin.address, "--admin"
    for listener in given.listening:
        yield listener.listen, listener.setting
    if given.shims_listener is not None:
        yield given.shims_listener.address, "shims.listener"
