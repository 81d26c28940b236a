"""``offset-pipeline audit``."""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from pipeline.console import print_json, print_table, spark_options
from shim.counted import counted
from shim.terminal.options import (
    ADMIN_CA_FILE,
    ADMIN_CERTIFICATE_FILE,
    ADMIN_TOKEN_FILE,
    admin_file_option,
    json_option,
)
from shim.terminal.showing import shown

_DIFFER: Final = 1
_TABLE_GROUPS: Final = 40


class CouldNot(click.ClickException):
    """Why there is no answer, in one line."""

    exit_code = 2


@click.command("audit", short_help="Compare offsets in ZooKeeper, the shim and the cluster.")
@click.option("--shim", required=True, metavar="H:P[,H:P]", help="Where clients bootstrap at the shim.")
@click.option("--upstream", required=True, metavar="H:P[,H:P]", help="The brokers behind it.")
@click.option("--zookeeper", metavar="H:P[,H:P][/chroot]", help="Where old consumers have their offsets.")
@click.option(
    "--admin", metavar="H:P[,H:P]",
    help="The shim's admin port, or all of shims that share a log: what a group's step does not keep is not judged.",
)  # fmt: skip
@admin_file_option(ADMIN_TOKEN_FILE, "token_file")
@admin_file_option(ADMIN_CA_FILE, "ca_file")
@admin_file_option(ADMIN_CERTIFICATE_FILE, "certificate_file")
@click.option("--groups", default="*", metavar="PATTERN", help="Only these: *, ? and [...], as in a shell.")
@click.option("--no-mirror", is_flag=True, help="The shim runs with offsets.mirror.upstream=false.")
@click.option(
    "--second-look-after", "second_look", type=click.FloatRange(0, 3600), default=3.0, show_default=True,
    metavar="SECONDS", help="What differs is looked at again after so long.",
)  # fmt: skip
@click.option(
    "--to", metavar="DIR", help="A new or empty folder for the tables and the report; any of Spark's file systems."
)
@click.option(
    "--format", "format_", type=click.Choice(["parquet", "csv", "html", "all"]), default="all", show_default=True,
    help="What is written there.",
)  # fmt: skip
@json_option
@spark_options
def audit_command(json_wanted: bool, master: str | None, conf: tuple[str, ...], spark_log: str, **options: Any) -> None:
    """Compare the offsets of all groups in ZooKeeper, in the shim and in the cluster.

    Spark reads the places (each task some groups, with connections of its own), joins them by group, topic and
    partition, and says of each pair of places whether the one is equal, behind, ahead, missing or only here. What
    differs is looked at again before it is called a difference. What there is nothing to compare with is in no total,
    and is named with the reason. No offset is changed; a shim with a ZooKeeper notes whose a group is that it has not
    heard of.

    Exit status: 0 all agree, 1 something differs, or could not be read, 2 bad
    usage, or it could not be found out.

    \b
    offset-pipeline audit --shim shim:19092 --upstream kafka:9092 --zookeeper zk:2181
    offset-pipeline audit --shim shim:19092 --upstream kafka:9092 --zookeeper zk:2181 --admin shim:9644 --to audit-1
    offset-pipeline audit --shim shim:19092 --upstream kafka:9092 --groups 'etl-*' --json
    """
    from pipeline.audit.groups import find_groups
    from pipeline.audit.words import CannotRead
    from pipeline.errors import CannotRun, NotDone, SomethingWrong
    from pipeline.spark import SparkSettings, check_here, spark_failures, spark_session

    asked = _asked(**options)
    try:
        settings = SparkSettings.of(master, conf, spark_log)
        check_here()
        wheres = find_groups(asked)
        with spark_session("offset-pipeline audit", settings) as spark, spark_failures("the audit broke off"):
            from pipeline.audit.auditing import audit

            found = audit(spark, asked, wheres)
    except (CannotRun, CannotRead, NotDone, SomethingWrong) as error:
        raise CouldNot(shown(str(error))) from error
    tell(found, asked.to, as_json=json_wanted)
    sys.exit(_DIFFER if found.totals.differences else 0)


def tell(found: Any, to: str | None, *, as_json: bool) -> None:
    """Raises CouldNot where nobody can be told: a status of 1 would say that something differs."""
    try:
        (print_found_as_json if as_json else print_found)(found, to)
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever reads has had enough: `… | head`
            raise
        raise CouldNot(f"standard output: {error.strerror or error}") from error


def _asked(
    shim: str,
    upstream: str,
    zookeeper: str | None,
    admin: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    certificate_file: Path | None,
    groups: str,
    no_mirror: bool,
    second_look: float,
    to: str | None,
    format_: str,
) -> Any:
    from pipeline.audit.addresses import connect_string, servers
    from pipeline.audit.admin_port import admin_ports
    from pipeline.audit.asked import Addresses, Asked
    from pipeline.audit.outputs import FORMATS

    addresses = Addresses(
        servers("--shim", shim), servers("--upstream", upstream), zookeeper and connect_string("--zookeeper", zookeeper)
    )
    admins = () if admin is None else admin_ports(admin, token_file, ca_file, certificate_file)
    formats = FORMATS if format_ == "all" else (format_,)
    return Asked(addresses, admins, groups, not no_mirror, second_look, to, formats)


def print_found(found: Any, to: str | None) -> None:
    from pipeline.audit.summary import step_shown
    from pipeline.audit.words import PAIRS, PLACES, Verdict

    totals = found.totals
    if found.groups:
        headings = ("GROUP", "STEP", "PARTITIONS", *map(str.upper, PLACES), "DIFFERING", "MOVING", "LAG")
        names = ("partitions", *PLACES, "differing", "moving", "lag")
        rows = [
            [each["group"], step_shown(each["step"]), *(each[name] or 0 for name in names)]
            for each in found.groups[:_TABLE_GROUPS]
        ]
        print_table(headings, rows)
        if totals.differing_groups > len(rows):
            click.echo(f"… and {counted(totals.differing_groups - len(rows), 'more group')} with differences")
        click.echo()
    pairs = [(pair, totals.verdicts[pair.column]) for pair in PAIRS]
    compared = [(pair, counts) for pair, counts in pairs if any(counts.values())]
    if compared:
        rows = [[f"{pair.place} / {pair.other}", *(counts[each] for each in Verdict)] for pair, counts in compared]
        print_table(("", *(each.value.upper() for each in Verdict)), rows)
        click.echo()
    click.echo(
        f"{counted(totals.groups, 'group')}, {counted(totals.partitions, 'partition')} compared: "
        f"{totals.differences:,} differing, {totals.moving:,} moving, {totals.outside:,} out of their log; "
        f"lag {totals.lag:,}"
    )
    if found.left_out:
        _print_left_out(found.left_out, totals)
    if to is not None:
        click.echo(f"written to {shown(to)}")


def _print_left_out(left_out: Sequence[Mapping[str, Any]], totals: Any) -> None:
    from pipeline.audit.summary import step_shown

    rows = [[each["group"], step_shown(each["step"]), each["partitions"], each["why"]] for each in left_out]
    click.echo()
    groups, partitions = counted(totals.left_out_groups, "group"), counted(totals.left_out_partitions, "partition")
    click.echo(f"left out: {groups}, {partitions}")
    print_table(("GROUP", "STEP", "PARTITIONS", "WHY"), rows[:_TABLE_GROUPS])
    if len(rows) > _TABLE_GROUPS:
        click.echo("… and more: --json names them")


def print_found_as_json(found: Any, to: str | None) -> None:
    from pipeline.audit.as_json import row

    document = {
        "totals": found.totals._asdict(),
        "groups": [row(each) for each in found.groups],
        "differences": [row(each) for each in found.differences],
        "left_out": [row(each) for each in found.left_out],
        "to": to,
    }
    print_json(document)
