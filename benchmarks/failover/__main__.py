"""`python -m benchmarks.failover [--json] [--rounds N]`."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks import shown
from benchmarks.failover.sides import PROPERTIES, both

_ROUNDS_FOR_P99: Final = 101


def quantile(of: Sequence[float], share: float) -> float:
    """The least that so many are not above."""
    return sorted(of)[min(len(of) - 1, int(share * len(of)))]


@click.command()
@click.option("--rounds", default=20, show_default=True, help="Of each side, taking turns.")
@click.option("--json", "as_json", is_flag=True)
def main(rounds: int, as_json: bool) -> None:
    """From SIGKILL to the next commit that is acknowledged."""
    rng = random.Random(rounds)
    taken: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        both(Path(folder)) as sides,
        shown.progress() as progress,
    ):
        for _ in progress.track(range(rounds)):
            for side in sides:
                taken.setdefault(side.name, []).append(asyncio.run(side.gap(rng)))
    here = shown.conditions(rounds, 0.0, ["offsets.log=kafka"])
    if as_json:
        print(json.dumps({**here, "seconds": {name: sorted(its) for name, its in taken.items()}}))
        return
    table = shown.results("side", "p50 s", "p99 s", "least s", "most s", words=1)
    for name, its in taken.items():
        numbers = (statistics.median(its), quantile(its, 0.99), min(its), max(its))
        table.add_row(name, *(f"{number:.2f}" for number in numbers))
    session = PROPERTIES["broker.session.timeout.ms"]
    shown.show(
        table,
        f"{here['date']}, {here['kafka']}, {here['cores']} cores, broker.session.timeout.ms={session}, "
        f"load average {here['load_average']:g}; {rounds} rounds of each, taking turns"
        + (", of which the p99 is the most" if rounds < _ROUNDS_FOR_P99 else ""),
    )


if __name__ == "__main__":
    main()
