"""The running shim: its parts, wired together, from the first file that is opened to the last that is closed."""

from shim.serve.errors import CannotStart, DiskHangs
from shim.serve.ports import check_ports
from shim.serve.running import serve

__all__ = ["CannotStart", "DiskHangs", "check_ports", "serve"]
