"""Listeners, client connections, and the order of responses."""

from shim.net.listeners import CannotListen, Limits, Listeners
from shim.net.outgoing import Departures
from shim.net.own_ports import leads_to

__all__ = ["CannotListen", "Departures", "Limits", "Listeners", "leads_to"]
