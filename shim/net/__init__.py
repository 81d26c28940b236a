"""Listeners, client connections, and the order of responses."""

from shim.net.listeners import CannotListen, Limits, Listeners
from shim.net.outgoing import Departures

__all__ = ["CannotListen", "Departures", "Limits", "Listeners"]
