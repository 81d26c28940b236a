"""The command line."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from shim.admin import configuration_options, groups_commands, log_commands, migrate_commands
from shim.config import SettingError, load_configuration, parse_host_port, parse_servers
from shim.listener_config import listeners_of
from shim.offsets.zookeeper.kazoo_client import parse_connect_string
from shim.serve import CannotStart, DiskHangs, serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kafka-offset-shim", message="%(version)s")
def cli() -> None:
    """A Kafka-protocol-compatible offset shim: groups and offsets served in front of a Kafka cluster."""


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """Whoever gave a wrong value is told by which option."""
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{option}: {error}") from error


@cli.command("serve")
@click.option("--bootstrap-servers", required=True, metavar="H:P[,H:P]", help="Brokers of the cluster behind the shim.")
@click.option("--listen", required=True, metavar="H:P", help="Bootstrap port P; the broker with node id i is at P+1+i.")
@click.option("--data-dir", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where the log is.")
@click.option("--advertised-host", metavar="H", help="The host that clients are told. Default: the one of --listen.")
@click.option("--admin", metavar="H:P", help="Port for `groups` and `migrate`; whoever reaches it may use it.")
@click.option("--zookeeper", metavar="H:P[,H:P][/chroot]", help="Where old consumers have their offsets.")
@click.option(
    "--registrar",
    is_flag=True,
    help="Have consumers of 0.8 to 1.1 find brokers and topics in --zookeeper.",
)
@configuration_options
def serve_command(
    bootstrap_servers: str,
    listen: str,
    data_dir: Path,
    advertised_host: str | None,
    admin: str | None,
    zookeeper: str | None,
    registrar: bool,
    config: Path | None,
    assignments: tuple[str, ...],
) -> None:
    """Serve clients until SIGTERM.

    \b
    offset-shim serve --bootstrap-servers kafka:9092 --listen 127.0.0.1:19092 --data-dir /var/lib/offset-shim
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)sZ %(levelname)s %(message)s", stream=sys.stderr)
    logging.Formatter.converter = time.gmtime  # as `log dump` shows times
    try:
        configuration = load_configuration(config, assignments)
        with _naming("--bootstrap-servers"):
            bootstrap = parse_servers(bootstrap_servers)
        with _naming("--listen"):
            address = parse_host_port(listen)
        with _naming("--admin"):
            admin_address = None if admin is None else parse_host_port(admin)
        listening = listeners_of(configuration, address, advertised_host)
        if registrar and zookeeper is None:
            raise SettingError("--registrar needs to know where: --zookeeper")
        with _naming("--zookeeper"):
            if zookeeper is not None:
                parse_connect_string(zookeeper)
    except SettingError as error:
        raise click.ClickException(str(error)) from error
    _prefer_throughput()
    try:
        _run(
            serve(
                bootstrap,
                listening,
                data_dir,
                configuration.settings,
                click.echo,
                admin_address,
                zookeeper,
                registrar=registrar,
            )
        )
    except DiskHangs as error:
        click.echo(f"Error: {error}", err=True)
        os._exit(1)
    except CannotStart as error:
        raise click.ClickException(str(error)) from error


@cli.command("demo")
@click.option("--keep", is_flag=True, help="Keep the data and the logs, and say where.")
@click.option("--json", "json_wanted", is_flag=True, help="The report as JSON; progress goes to standard error.")
def demo_command(keep: bool, json_wanted: bool) -> None:
    """A real broker, the shim and unmodified clients, in one go."""
    from shim.demo import missing_libraries

    if missing := missing_libraries():
        raise click.ClickException(f"{', '.join(missing)} not installed: in the clone, pip install '.[demo]'")
    from shim.demo.demo import run  # only now: it imports the clients, an extra that `serve` does without

    sys.exit(run(keep=keep, json_wanted=json_wanted))


for _commands in (groups_commands, migrate_commands, log_commands):
    cli.add_command(_commands)


# Of malloc.h. Pieces above the first come from the system one by one, whatever is kept; the second is how much of what
# is free at the heap's end is kept: what glibc itself goes up to.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES = 64 << 20


def _prefer_throughput() -> None:
    """Of a process that serves. What a flight holds is many objects and no cycle: Python's own threshold of 700 has the
    collector look at all of them again and again, a quarter of the processor time of commits. So it comes seldom, and
    what lives and ends in numbers, as connections do, must be no cycle either. And a thread that comes
    back from the disk asks for the interpreter: for 5 ms in vain, while the loop is busy, at each of a flight's writes
    and flushes.

    And the memory of a message of a megabyte, which glibc gives back to the system and takes page by page for the next
    one, is kept: that was a quarter of the processor time of converting old clients' messages.
    """
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(0.0005)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _run(main: Coroutine[object, object, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


if __name__ == "__main__":
    cli()
