"""Listeners, client connections, and the order of responses."""

from shim.net.listeners import Listeners

__all__ = ["Listeners"]
