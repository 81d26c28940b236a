"""Listeners, client connections, and the order of responses."""

from shim.net.listeners import CannotListen, Listeners

__all__ = ["CannotListen", "Listeners"]
