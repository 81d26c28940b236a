"""What an operator does with the shim's data: the command line of ``offset-shim log``."""

from shim.admin.commands.console import configuration_options
from shim.admin.commands.log import log_commands

__all__ = ["configuration_options", "log_commands"]
