"""The running shim: its parts, wired together, from the first file that is opened to the last that is closed."""

from shim.serve.at_parent import Worker
from shim.serve.errors import CannotStart, DiskHangs
from shim.serve.parent import Parent, of_worker
from shim.serve.running import serve

__all__ = ["CannotStart", "DiskHangs", "Parent", "Worker", "of_worker", "serve"]
