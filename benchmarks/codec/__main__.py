"""`python -m benchmarks.codec [--quick] [--json] [--only TEXT]`."""

import gc
import json

import click

from benchmarks import shown
from benchmarks.codec.lines import lines
from benchmarks.codec.report import as_json, as_table, headline
from benchmarks.codec.timing import FULL, QUICK, time_lines


@click.command()
@click.option("--quick", is_flag=True, help="A smoke run: few and short samples, numbers that mean little.")
@click.option("--json", "to_json", is_flag=True, help="JSON on standard output instead of a table.")
@click.option("--only", metavar="TEXT", default="", help="Only the lines whose name has TEXT in it.")
def main(quick: bool, to_json: bool, only: str) -> None:
    """Times our codec beside kafka-python's, aiokafka's and kio's, line by line.

    Ratios are their time / ours, of the same run: above 1, ours is the faster one. Before a line is timed, all sides
    have to agree on its bytes or values.
    """
    effort = QUICK if quick else FULL
    chosen = shown.chosen(list(lines()), only)
    # What was imported so far is garbage to nobody: without it, the collections between samples are quick.
    gc.collect()
    gc.freeze()
    try:
        with shown.progress() as progress:
            task = progress.add_task("timing", total=len(chosen) * effort.rounds)
            results = time_lines(chosen, effort, lambda: progress.advance(task))
    finally:
        gc.unfreeze()
    if to_json:
        click.echo(json.dumps(as_json(results, effort), indent=2, ensure_ascii=False))
        return
    note = "others: times as long as ours. * compiled code; the CRC-32C is compiled on every side."
    shown.show(as_table(results), note, headline(effort))


if __name__ == "__main__":
    main()
