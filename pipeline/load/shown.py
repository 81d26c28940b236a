"""What a load tells: tables for people, JSON for scripts."""

from __future__ import annotations

from typing import Any

import click

from pipeline.console import print_table
from pipeline.load.loading import Loaded, Standing
from pipeline.load.offsets import Range, nested
from pipeline.load.planning import Plan
from shim.counted import counted


def plan_as_json(standing: Standing, plan: Plan) -> dict[str, Any]:
    return {
        "batch": None if standing.last is None else standing.last.number,
        "group_behind": nested(standing.reconciled.behind),
        "ranges": [_range(each) for each in plan.ranges],
        "gaps": [_range(each) for each in plan.gaps],
        "offsets": plan.offsets,
    }


def print_plan(standing: Standing, plan: Plan) -> None:
    rows = [(each.at.topic, each.at.partition, each.start, each.end, len(each)) for each in plan.ranges]
    print_table(("TOPIC", "PARTITION", "FROM", "TO", "OFFSETS"), rows)
    last = "no batch yet" if standing.last is None else f"last batch: {standing.last.number}"
    click.echo(f"{counted(plan.offsets, 'offset')} to load; {last}")
    _print_gaps(plan.gaps, "would be passed over")
    if standing.reconciled.behind:
        click.echo(f"the group is behind the table at {counted(len(standing.reconciled.behind), 'partition')}")


def loaded_as_json(loaded: Loaded, seconds: float) -> dict[str, Any]:
    return {
        "batches": len(loaded.batches),
        "offsets": loaded.offsets,
        "seconds": round(seconds, 3),
        "caught_up": nested(loaded.caught_up),
        "gaps": [_range(each) for each in loaded.gaps],
        "perhaps_not_loaded": [_range(each) for each in loaded.perhaps],
        "ends": nested(loaded.ends),
    }


def print_loaded(loaded: Loaded, seconds: float) -> None:
    batches = counted(len(loaded.batches), "batch")
    click.echo(f"{counted(loaded.offsets, 'offset')} loaded in {batches}, {seconds:.1f} s")
    _print_gaps(loaded.gaps, "passed over, deleted by retention")
    _print_gaps(loaded.perhaps, "perhaps not loaded, deleted by retention meanwhile")


def _print_gaps(gaps: list[Range] | tuple[Range, ...], what: str) -> None:
    for gap in gaps:
        click.echo(f"{gap.at}: {counted(len(gap), 'offset')} from {gap.start} to {gap.end - 1} {what}")


def _range(each: Range) -> dict[str, Any]:
    return {"topic": each.at.topic, "partition": each.at.partition, "from": each.start, "to": each.end}
