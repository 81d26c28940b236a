"""What an operator does with the shim: the commands ``config``, ``log``, ``groups`` and ``migrate``."""

from shim.admin.commands.config import config_command
from shim.admin.commands.console import Refused, configuration_options
from shim.admin.commands.groups import groups_commands
from shim.admin.commands.log import log_commands
from shim.admin.commands.migrate import migrate_commands

__all__ = ["Refused", "config_command", "configuration_options", "groups_commands", "log_commands", "migrate_commands"]
