"""`python -m benchmarks.commit [--json] [--only TEXT] [--rounds N] [--seconds S] [--directory D] [--set N=V]`."""

import json
import tempfile
from pathlib import Path

import click

from benchmarks import shown
from benchmarks.commit.report import as_json, as_table, headline, of_the_disk
from benchmarks.commit.rounds import LINES, run
from benchmarks.commit.sides import both


@click.command()
@click.option("--json", "to_json", is_flag=True, help="JSON on standard output instead of a table.")
@click.option("--only", metavar="TEXT", default="", help="Only the lines whose name has TEXT in it.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Of each line.")
@click.option("--seconds", default=3.0, show_default=True, help="Of each side in each round.")
@click.option("--warm-up", default=3.0, show_default=True, help="Seconds of each line on each side, before all rounds.")
@click.option("--directory", type=click.Path(exists=True, path_type=Path), help="On which disk both write.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="A setting of the shim.")
def main(
    to_json: bool,
    only: str,
    rounds: int,
    seconds: float,
    warm_up: float,
    directory: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Commits and offset fetches a second: the shim, each commit durable, beside the real coordinator it stands before.

    The real one only writes to the page cache. Both are driven by the same load generator (a process of its own for
    each), on the same machine, in turns. Each connection is a member of a group of its own, and has so many requests
    unanswered. A commit sets one offset, where nothing else is said. Times are from a client's call to send to the end
    of its call to receive; CPU is of the server's whole process, a request.
    """
    chosen = shown.chosen(LINES, only)
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="benchmarks-commit-") as temporary,
        both(Path(temporary), max(line.connections for line in chosen), settings) as sides,
        shown.progress() as progress,
    ):
        task = progress.add_task("measuring", total=len(chosen) * rounds)
        results = run(
            *(sides, chosen, Path(temporary)),
            rounds=rounds,
            seconds=seconds,
            warm_up=warm_up,
            done=lambda: progress.advance(task),
        )
    here = shown.conditions(rounds, seconds, settings)
    if to_json:
        click.echo(json.dumps(as_json(results, here), indent=2, ensure_ascii=False))
        return
    shown.show(as_table(results), *filter(None, [of_the_disk(results)]), headline(here))


if __name__ == "__main__":
    main()
