"""The log of the process, on standard error: one line an event, as text or JSON, without secrets, and bounded."""

from shim.logs.output import LogOutput

__all__ = ["LogOutput"]
