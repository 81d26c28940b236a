"""``offset-shim config``: which settings are in force, where each is from, and which there are."""

from __future__ import annotations

import os
from pathlib import Path

import click

from shim.admin.commands.console import configuration_options, in_one_line, print_json, print_table
from shim.config import DEFAULT, as_markdown, as_text, described, load_configuration, value_shown
from shim.given import check_given
from shim.terminal.options import json_option


@click.command("config", short_help="Print the settings in force, and where each is from.")
@configuration_options
@json_option
@click.option("--changed", is_flag=True, help="Only what is not left at its default.")
@click.option("--describe", is_flag=True, help="Instead: every setting with its type, default, range and meaning.")
@click.option("--markdown", is_flag=True, help="Instead: the same as the table of the documentation.")
@in_one_line
def config_command(
    config: Path | None,
    assignments: tuple[str, ...],
    json_wanted: bool,
    changed: bool,
    describe: bool,
    markdown: bool,
) -> None:
    """Print the settings that `serve` would have, and where each is from.

    The file of --config, then environment variables (OFFSET_SHIM_ and the name in upper case, dots as underscores),
    then --set: the later wins. Passwords are shown as ***. What `serve` would refuse ends it as it ends `serve`, with
    a line that says what and where, and status 2; what `serve` needs and was not given is no error here.

    \b
    offset-shim config --config /etc/offset-shim/offset-shim.toml --changed
    OFFSET_SHIM_GROUP_MAX_SIZE=100 offset-shim config --json
    offset-shim config --describe
    """
    if sum((describe, markdown, changed)) > 1:
        raise click.UsageError("--changed, --describe and --markdown do not go together")
    if markdown:
        click.echo(as_markdown(), nl=False)
    elif describe and json_wanted:
        print_json([each._asdict() for each in described()])
    elif describe:
        click.echo(as_text(), nl=False)
    else:
        _print_effective(config, assignments, json_wanted=json_wanted, changed=changed)


def _print_effective(config: Path | None, assignments: tuple[str, ...], *, json_wanted: bool, changed: bool) -> None:
    configuration = load_configuration(config, assignments, os.environ)
    check_given(configuration)
    rows = [row for row in configuration.effective() if not changed or row.source != DEFAULT]
    if json_wanted:
        print_json([row._asdict() for row in rows])
    else:
        print_table(("NAME", "VALUE", "SOURCE"), [(row.name, value_shown(row.value), row.source) for row in rows])
