"""The command line."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

import click

from shim.admin.commands.console import Refused, configuration_options
from shim.admin.commands.when_asked_for import WhenAskedFor
from shim.config import OPTIONS, SettingError, load_configuration


def _groups() -> click.Command:
    from shim.admin.commands.groups import groups_commands

    return groups_commands


def _migrate() -> click.Command:
    from shim.admin.commands.migrate import migrate_commands

    return migrate_commands


def _log() -> click.Command:
    from shim.admin.commands.log import log_commands

    return log_commands


def _config() -> click.Command:
    from shim.admin.commands.config import config_command

    return config_command


_COMMANDS: Final = {"config": _config, "groups": _groups, "log": _log, "migrate": _migrate}


@click.group(cls=WhenAskedFor, imported=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kafka-offset-shim", message="%(version)s")
def cli() -> None:
    """A Kafka-protocol-compatible offset shim: groups and offsets served in front of a Kafka cluster.

    `serve` is the shim. `groups` and `migrate` talk to one that runs with --admin; `log` works on a data directory that
    none uses (`log backup` also on one in use). `COMMAND --help` says more of each, with examples; --json gives any
    table as JSON.

    \b
    offset-shim serve --bootstrap-servers kafka:9092 --listen 127.0.0.1:19092 --data-dir DIR --admin 127.0.0.1:9644
    offset-shim groups list --lag                # who is behind
    offset-shim groups history billing           # who moved an offset, or deleted it
    offset-shim migrate plan                     # which groups the shim could take over
    offset-shim log backup TARGET --data-dir DIR
    """


@cli.command("serve", short_help="Serve clients until SIGTERM.")
@click.option("--bootstrap-servers", metavar="H:P[,H:P]", help="Brokers of the cluster behind the shim.")
@click.option("--listen", metavar="H:P", help="Bootstrap port P; the broker with node id i is at P+1+i.")
@click.option("--data-dir", metavar="DIR", help="Where the log is.")
@click.option("--advertised-host", metavar="H", help="The host that clients are told. Default: the one of --listen.")
@click.option("--admin", metavar="H:P", help="Port for `groups`, `migrate`, the console and metrics.")
@click.option("--zookeeper", metavar="H:P[,H:P][/chroot]", help="Where old consumers have their offsets.")
@click.option(
    "--registrar",
    is_flag=True,
    default=None,
    help="Have consumers of 0.8 to 1.1 find brokers and topics in --zookeeper.",
)
@click.option("--workers", metavar="N", type=click.IntRange(1, 64), help="Processes that share the work. Default: one.")
@configuration_options
def serve_command(config: Path | None, assignments: tuple[str, ...], **options: str | bool | int | None) -> None:
    """Serve clients until SIGTERM; SIGHUP has the settings read again.

    Each option may stand in the file of --config or in the environment as well: `offset-shim config --describe`.
    --bootstrap-servers, --listen and --data-dir have to be given, in whichever way. Exit status: 0 after SIGTERM or
    Ctrl-C; 1 it cannot start, or cannot go on; 2 an option or a setting that is wrong, or missing.

    Whoever reaches the port of --admin may see, move, reset and delete groups, unless admin.token.file is set.

    \b
    offset-shim serve --bootstrap-servers kafka:9092 --listen 127.0.0.1:19092 --data-dir /var/lib/offset-shim
    """
    hung_up: list[int] = []  # until the event loop hears it; no lock, as handlers interrupt one another
    signal.signal(signal.SIGHUP, lambda number, _: hung_up.append(number))
    _prefer_throughput()  # first: the collector would look at what is imported again and again, too
    # Only now: the other commands, and completion at each press of a key, do without half of what is imported.
    from shim.given import Given, given_to_serve
    from shim.logs import LogOutput
    from shim.serve import CannotStart, DiskHangs, check_ports, serve
    from shim.serve.real_time import take_real_time
    from shim.serve.service_manager import ServiceManager
    from shim.workers.at_parent import Worker
    from shim.workers.parent import CannotGoOn, Parent, of_worker

    gc.freeze()  # what was imported stays: no collection is to look at it again, nor the last one, when it ends

    said = {
        name: (option, value)
        for name, option in OPTIONS.items()
        if (value := options[option.removeprefix("--").replace("-", "_")]) is not None
    }

    def read() -> Given:
        return given_to_serve(load_configuration(config, assignments, os.environ, said))

    try:
        given = read()
    except SettingError as error:
        raise Refused(str(error)) from error
    logs = LogOutput(given.settings, given.secrets)
    logs.begin()
    faulthandler.enable()  # systemd ends what hangs by SIGABRT: the log then says where it was
    manager = ServiceManager(os.environ)

    def ready(line: str) -> None:
        click.echo(line)
        manager.ready(line)

    async def serve_and_end() -> None:
        await serve(given, ready, reread=read, logs=logs, hung_up=lambda: bool(hung_up), manager=manager)
        _end_quietly()

    def be_worker(worker: Worker, hung_up_before: bool) -> int:
        logs.of_worker(worker.share.number)

        async def work() -> None:
            await serve(
                of_worker(given, worker.share),
                worker.parent.ready,
                reread=lambda: of_worker(read(), worker.share),
                logs=logs,
                hung_up=lambda: hung_up_before,
                worker=worker,
            )
            _end_quietly()

        try:
            _run(work())
        except CannotStart as error:
            worker.parent.failed(str(error))
            return 1
        return 0

    try:
        check_ports(given)
        take_real_time(given.settings)
        if given.settings.workers > 1:
            Parent(given, ready, be_worker, manager).serve(hung_up=bool(hung_up))
        else:
            _run(serve_and_end())
    except DiskHangs as error:
        click.echo(f"Error: {error}", err=True)
        os._exit(1)
    except (CannotStart, CannotGoOn) as error:
        raise click.ClickException(str(error)) from error


@cli.command("demo", short_help="A real broker, the shim and unmodified clients, in one go.")
@click.option("--keep", is_flag=True, help="Keep the data and the logs, and say where.")
@click.option("--json", "json_wanted", is_flag=True, help="The report as JSON; progress goes to standard error.")
def demo_command(keep: bool, json_wanted: bool) -> None:
    """A real broker, the shim and unmodified clients, in one go.

    It takes Java 17 and, the first time, Maven, which fetches Kafka's jars; and the clients, which are an extra: `make
    demo` in the clone installs them, and so does pip install '.[demo]' there.

    \b
    offset-shim demo
    offset-shim demo --keep
    """
    from shim.demo import missing_libraries
    from shim.demo.parts.cache import PartsUnavailable
    from shim.demo.parts.jars import KAFKA, look_for

    try:  # before what is installed for it: without Java that would be in vain
        look_for(KAFKA)
    except PartsUnavailable as error:
        raise click.ClickException(str(error)) from error
    if missing := missing_libraries():
        raise click.ClickException(f"{', '.join(missing)} not installed: in the clone, pip install '.[demo]'")
    from shim.demo.demo import run  # only now: it imports the clients, an extra that `serve` does without

    sys.exit(run(keep=keep, json_wanted=json_wanted))


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


def _end_quietly() -> None:
    """What comes from here on would find no handler, and make an end in good order look like another. In the loop, at
    whose end its handlers are taken away; to block signals here leaves the other threads, for as long as there are any.
    """
    ending = {signal.SIGHUP, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    for number in ending:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _run(main: Coroutine[object, object, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


if __name__ == "__main__":
    cli()
