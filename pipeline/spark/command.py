"""``offset-pipeline jars``: the connector jars, for spark-submit and for a first start without a wait."""

from __future__ import annotations

import click

from pipeline.console import in_one_line, print_json
from shim.terminal.options import json_option


@click.command("jars", short_help="Fetch the connector jars, and print where they are.")
@json_option
@in_one_line
def jars_command(json_wanted: bool) -> None:
    """Fetch the connector jars, and print where they are, as `spark-submit --jars` takes them.

    They are fetched with Maven into $OFFSET_SHIM_CACHE, once. Needs Java and Maven.

    \b
    spark-submit --jars "$(offset-pipeline jars)" … pipeline/main.py load …
    """
    from pipeline.spark.jars import SPARK_JARS, jar_files

    jars = [str(jar) for jar in jar_files(SPARK_JARS)]
    if json_wanted:
        print_json({"jars": jars})
    else:
        click.echo(",".join(jars))
