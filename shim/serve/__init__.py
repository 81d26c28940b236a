"""The running shim: its parts, wired together, from the first file that is opened to the last that is closed."""

from shim.serve.errors import CannotStart, DiskHangs
from shim.serve.given import OPTIONS, Given, given_to_serve
from shim.serve.running import serve

__all__ = ["OPTIONS", "CannotStart", "DiskHangs", "Given", "given_to_serve", "serve"]
