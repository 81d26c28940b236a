"""`python -m benchmarks.proxy [--json] [--only TEXT] [--rounds N] [--megabytes M] [--seconds S] [--spare-core] …`."""

import json
import sys
import tempfile
from pathlib import Path

import click

from benchmarks import shown
from benchmarks.commit.generator import Load
from benchmarks.proxy.isolation import NoNetworkOfItsOwn, again_in_isolation, is_isolated, loopback_up
from benchmarks.proxy.kroxylicious import RELEASE
from benchmarks.proxy.perf_tools import Consume, Produce
from benchmarks.proxy.report import as_json, as_table, conditions, headline
from benchmarks.proxy.rounds import lines, run
from benchmarks.proxy.sides import all_sides
from shim.demo.parts.jars import KAFKA, jar_set


@click.command()
@click.option("--json", "to_json", is_flag=True, help="JSON on standard output instead of a table.")
@click.option("--only", metavar="TEXT", default="", help="Only the lines whose name has TEXT in it.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Of each line.")
@click.option("--warm-up", default=1, show_default=True, type=click.IntRange(0), help="Rounds before, not counted.")
@click.option("--megabytes", default=2_000, show_default=True, type=click.IntRange(10), help="Of each side in a round.")
@click.option("--seconds", default=3.0, show_default=True, help="Of round trips, of each side in a round.")
@click.option("--spare-core", is_flag=True, help="One core is the proxy's alone; broker and load share the others.")
@click.option("--without-kroxylicious", is_flag=True, help="The shim and the direct way alone.")
@click.option("--directory", type=click.Path(exists=True, path_type=Path), help="On which disk the broker writes.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="A setting of the shim.")
def main(
    to_json: bool,
    only: str,
    rounds: int,
    warm_up: int,
    megabytes: int,
    seconds: float,
    spare_core: bool,
    without_kroxylicious: bool,
    directory: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Produce, consume and small round trips: to the broker directly, through the shim, and through Kroxylicious.

    The load comes from Kafka's own ProducerPerformance and ConsumerPerformance, for round trips from a generator of
    its own: all the same for each side, on the same machine, in turns. CPU is of the proxy's whole process.
    Kroxylicious listens on every address, so everything runs in a network of its own (`unshare`).
    """
    chosen = shown.chosen(lines(megabytes, seconds), only)
    if is_isolated():
        loopback_up()
    elif not without_kroxylicious:
        for release in (KAFKA, RELEASE):
            jar_set(release)  # in a network of its own nothing can be fetched
        try:
            again_in_isolation("benchmarks.proxy", sys.argv[1:])
        except NoNetworkOfItsOwn as error:
            raise click.ClickException(f"no network of its own: {error} (see --without-kroxylicious)") from error
    read = next((line.load.records for line in chosen if isinstance(line.load, Consume)), None)
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="benchmarks-proxy-") as temporary,
        all_sides(
            Path(temporary),
            connections=max((line.load.connections for line in chosen if isinstance(line.load, Load)), default=1),
            to_read=Produce(1_024, 1 << 20, read) if read is not None else None,
            with_kroxylicious=not without_kroxylicious,
            spare_core=spare_core,
            settings=settings,
        ) as sides,
        shown.progress() as progress,
    ):
        task = progress.add_task("measuring", total=len(chosen) * (warm_up + rounds))
        results = run(sides, chosen, rounds=rounds, warm_up=warm_up, done=lambda: progress.advance(task))
    here = conditions(rounds, megabytes, seconds, spare_core, settings)
    if to_json:
        click.echo(json.dumps(as_json(results, here), indent=2, ensure_ascii=False))
        return
    shown.show(as_table(results, here), headline(here))


if __name__ == "__main__":
    main()
