"""One handler module for each API, and the table that says what is done with each version."""

from compat.translation import Context
from shim.api.call import Call, Served, Services
from shim.api.entrusted import EntrustedRequests
from shim.api.route import AsIs, Authenticates, Refused, Rewritten, Route, treatment
from shim.api.table import OFFERED, ROUTES

__all__ = [
    "OFFERED",
    "ROUTES",
    "AsIs",
    "Authenticates",
    "Call",
    "Context",
    "EntrustedRequests",
    "Refused",
    "Rewritten",
    "Route",
    "Served",
    "Services",
    "treatment",
]
