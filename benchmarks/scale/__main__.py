"""`python -m benchmarks.scale [--json] [--only TEXT] [--workers N]… [--rounds N] [--seconds S] [--directory D]`."""

import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from confluent_kafka.cimpl import NewTopic
from rich.table import Table

from benchmarks import shown
from benchmarks.commit.generator import TOPIC_PARTITIONS
from benchmarks.commit.report import headline
from benchmarks.commit.rounds import LINES as ALL_LINES
from benchmarks.commit.rounds import Line, rate
from benchmarks.commit.sides import Generator, Measured, Side
from benchmarks.commit.wire import TOPIC
from benchmarks.servers import full_size, make_topics
from shim.demo.processes import ShimProcess

LINES: Final = tuple(line for line in ALL_LINES if line.name in {"commits 8x8", "commits 64x16"})


class Family(Side):
    """A shim of so many processes; its processor time is that of them all."""

    def __init__(self, workers: int, pid: int, generator: Generator) -> None:
        super().__init__(f"{workers} workers" if workers > 1 else "1 worker", pid, generator)
        self.workers = workers


class Numbers(NamedTuple):
    """Of one number of workers, on one line: medians of its rounds. `ratio`: of its rate to that of the first, in the
    same round. `cpu_us`: processor time of all its processes, a commit. `generator_share`: of one core."""

    per_second: float
    ratio: float
    p50_us: float
    p99_us: float
    cpu_us: float
    generator_share: float


@contextmanager
def families(folder: Path, workers: Sequence[int], connections: int, settings: Sequence[str]) -> Iterator[list[Family]]:
    """All ready, in front of one broker, each with so many members."""
    with ExitStack() as running:
        broker = running.enter_context(full_size(folder / "kafka"))
        make_topics(broker.bootstrap_servers, NewTopic(TOPIC, TOPIC_PARTITIONS, 1))
        found = []
        for count in workers:
            of_this = [f"workers={count}", *settings]
            shim = ShimProcess(folder / f"shim-{count}", broker.bootstrap_servers, broker.node_id, of_this)
            running.enter_context(shim)
            generator = running.enter_context(Generator(shim.broker_port, connections))
            found.append(Family(count, shim.pid, generator))
        yield found


def numbers(rounds: Sequence[Sequence[Measured]], at: int) -> Numbers:
    """``rounds``: of one line, in each what every family has done."""
    own = [each[at] for each in rounds]
    return Numbers(
        statistics.median(map(rate, own)),
        statistics.median(rate(each[at]) / rate(each[0]) for each in rounds),
        statistics.median(each.carried.p50_us for each in own),
        statistics.median(each.carried.p99_us for each in own),
        statistics.median(each.server_cpu_seconds / each.carried.done * 1e6 for each in own),
        statistics.median(each.carried.generator_cpu_seconds / each.carried.seconds for each in own),
    )


def as_table(results: Sequence[tuple[Line, Family, Numbers]]) -> Table:
    table = shown.results(
        *("connections x pipelined", "", "a second", "ratio", "p50, ms", "p99, ms", "CPU each, µs", "generator, cores"),
    )
    for line, family, found in results:
        table.add_row(
            *(line.name, family.name, f"{found.per_second:,.0f}", f"{found.ratio:.2f}"),
            *(f"{found.p50_us / 1e3:,.2f}", f"{found.p99_us / 1e3:,.2f}", f"{found.cpu_us:,.1f}"),
            f"{found.generator_share:.2f}",
        )
    return table


def as_json(results: Sequence[tuple[Line, Family, Numbers]]) -> list[dict[str, Any]]:
    return [
        {
            "line": line.name,
            "workers": family.workers,
            **{name: round(value, 3) for name, value in found._asdict().items()},
        }
        for line, family, found in results
    ]


@click.command()
@click.option("--json", "to_json", is_flag=True, help="JSON on standard output instead of a table.")
@click.option("--only", metavar="TEXT", default="", help="Only the lines whose name has TEXT in it.")
@click.option("--workers", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1, 64))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Of each line.")
@click.option("--seconds", default=3.0, show_default=True, help="Of each shim in each round.")
@click.option("--warm-up", default=3.0, show_default=True, help="Seconds of each line on each shim, before all rounds.")
@click.option("--directory", type=click.Path(exists=True, path_type=Path), help="On which disk all write.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="A setting of all shims.")
def main(
    to_json: bool,
    only: str,
    workers: tuple[int, ...],
    rounds: int,
    seconds: float,
    warm_up: float,
    directory: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Durable commits a second of shims with different numbers of workers, in turns, in front of one broker.

    The load generator is that of `benchmarks.commit`, a process of its own. Connections come to whichever worker is
    free, and groups are spread over all of them: of two workers each forwards about half of what comes to it. Ratios
    are of the same round, to the first number of workers.
    """
    chosen = shown.chosen(LINES, only)
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="benchmarks-scale-") as temporary,
        families(Path(temporary), workers, max(line.connections for line in chosen), settings) as found,
        shown.progress() as progress,
    ):
        task = progress.add_task("measuring", total=len(chosen) * rounds)
        for line in chosen:
            for family in found:
                family.measure(line.load(warm_up))
        taken: dict[str, list[list[Measured]]] = {line.name: [] for line in chosen}
        for number in range(rounds):
            for line in chosen:
                # Whoever comes first has the others' writes behind it: each is that in its turn.
                order = [(number + at) % len(found) for at in range(len(found))]
                measured = {at: found[at].measure(line.load(seconds)) for at in order}
                taken[line.name].append([measured[at] for at in range(len(found))])
                progress.advance(task)
        results = [(line, family, numbers(taken[line.name], at)) for line in chosen for at, family in enumerate(found)]
    here = shown.conditions(rounds, seconds, settings)
    if to_json:
        click.echo(json.dumps({**here, "lines": as_json(results)}, indent=2, ensure_ascii=False))
        return
    shown.show(as_table(results), headline(here))


if __name__ == "__main__":
    main()
