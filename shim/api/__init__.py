"""One handler module for each API, and the table that says what is done with each version."""

from compat.translation import Context
from shim.api.call import Call, Served, Services
from shim.api.entrusted import EntrustedRequests
from shim.api.route import Authenticates, Forwarded, Refused, Rewritten, Route, treatment
from shim.api.table import OFFERED, ROUTES

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
