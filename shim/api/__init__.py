"""One handler module for each API, and the table that says what is done with each version."""

from compat.translation import Context
from shim.api.call import Call, Services
from shim.api.entrusted import EntrustedRequests
from shim.api.table import OFFERED, ROUTES, Authenticates, Forwarded, Refused, Rewritten, Route, Served, treatment

__all__ = [
    "OFFERED",
    "ROUTES",
    "Authenticates",
    "Call",
    "Context",
    "EntrustedRequests",
    "Forwarded",
    "Refused",
    "Rewritten",
    "Route",
    "Served",
    "Services",
    "treatment",
]
