"""The command line ``offset-pipeline``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

_COMMANDS: Final = {
    "audit": "pipeline.audit.command:audit_command",
    "history": "pipeline.history.command:history_command",
    "jars": "pipeline.spark.command:jars_command",
    "load": "pipeline.load.command:load_command",
}
"""Where each command is. These modules import no Spark before the command runs, so that ``--help`` is quick."""


class _Imported(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Imported, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kafka-offset-shim", message="%(version)s")
def cli() -> None:
    """Spark jobs around the offset shim.

    They need the extra `pipeline` (PySpark) and Java 17 or newer. Exit status of each command: 0 done, 1 not done or
    something is wrong, with one line that says what; 2 bad usage (of audit also: it could not be found out).

    \b
    offset-pipeline audit --shim shim:19092 --upstream kafka:9092 --zookeeper zk:2181
    offset-pipeline load --bootstrap-servers shim:19092 --group lake --topics orders --to /lake/orders --dry-run
    offset-pipeline history who --data-dir /var/lib/offset-shim --group billing
    """


if __name__ == "__main__":  # spark-submit … pipeline/main.py load …
    cli()
