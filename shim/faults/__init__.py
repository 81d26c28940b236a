"""Faults for tests. Where ``fault.injection.file`` is not set nothing of this room is on the way of any byte."""

from shim.faults.rules import Faults, load_faults
from shim.faults.session import FaultySession

__all__ = ["Faults", "FaultySession", "load_faults"]
