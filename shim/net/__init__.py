"""Listeners, client connections, and the order of responses."""

from shim.net.listeners import CannotListen, Limits, Listeners

__all__ = ["CannotListen", "Limits", "Listeners"]
