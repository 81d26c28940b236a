"""What the demo found out, what must hold of it, and how that is shown."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from signal import SIGKILL
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shim.demo.clients import Number

Offsets = Mapping[int, int]  # by partition


@dataclass(frozen=True)
class GroupFindings:
    """One consumer group. Offsets are those of the demo's one topic."""

    group: str
    records: Mapping[str, Sequence[Number]]  # what each member was given, by the member's name
    records_before_kill: int
    positions: frozenset[
        tuple[int, int]
    ]  # (partition, offset) pairs that a member had come to, so could have committed
    failed_commits: int
    acknowledged: Offsets  # of the commits acknowledged before the kill
    found: Offsets  # what the shim said after the kill, before any client could commit again
    committed: Offsets  # what the shim said at the end
    at_broker: Offsets  # what the broker itself said at the end
    known_to_broker: bool  # whether the group has had members there


@dataclass(frozen=True)
class Findings:
    topic: str
    partitions: int
    delivered: Sequence[Number]  # what was acknowledged to the producer
    delivered_before_kill: int
    kill_status: int  # exit status of the shim that was killed, negative for a signal
    down_seconds: float  # from the kill until the shim was ready again
    stop_status: int  # exit status of the shim that was stopped with SIGTERM at the end
    groups: Sequence[GroupFindings]
    data_dir: str
    dump: Sequence[str]  # what DumpLogSegments --offsets-decoder printed of the shim's log

    @property
    def log_end(self) -> Offsets:
        """The log end offset of every partition that has records."""
        ends: dict[int, int] = {}
        for partition, offset, _ in self.delivered:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends


class Check(NamedTuple):
    """One line of the report."""

    holds: bool
    text: str


def checks(findings: Findings) -> list[Check]:
    """Everything that must hold, a line each."""
    return [
        _killed(findings),
        _produced(findings),
        *(_consumed(findings, group) for group in findings.groups),
        *(_kept(findings, group) for group in findings.groups),
        *(_committed(findings, group) for group in findings.groups),
        *(_copied(group) for group in findings.groups),
        _readable(findings),
        Check(findings.stop_status == 0, f"shim: stopped with SIGTERM, exit status {findings.stop_status}"),
    ]


def _killed(findings: Findings) -> Check:
    killed = f"killed with SIGKILL (exit status {findings.kill_status})"
    return Check(findings.kill_status == -SIGKILL, f"shim: {killed}, ready again {findings.down_seconds:.1f} s later")


def _produced(findings: Findings) -> Check:
    times = Counter(number for _, _, number in findings.delivered)
    total, after = len(times), len(findings.delivered) - findings.delivered_before_kill
    each_once = times.keys() == set(range(total)) and set(times.values()) == {1}
    times_each = "each once" if each_once else "NOT each once"
    text = f"producer: {total} records delivered, {after} of them after the kill, {times_each}"
    return Check(each_once and 0 < after < total, text)


def _consumed(findings: Findings, group: GroupFindings) -> Check:
    given = [record for records in group.records.values() for record in records]
    seen, delivered = set(given), set(findings.delivered)
    after = len(given) - group.records_before_kill
    shares = " + ".join(str(len(records)) for records in group.records.values())
    text = (
        f"{group.group}: consumed {len(seen & delivered)} of {len(delivered)} records ({shares}), "
        f"{len(given) - len(seen)} duplicates, {after} after the kill, {group.failed_commits} failed commits"
    )
    if seen - delivered:
        text += f", {len(seen - delivered)} THAT WERE NEVER PRODUCED"
    shared = len(group.records) > 1 and all(group.records.values())
    return Check(seen == delivered and shared and 0 < after < len(given), text)


def _kept(findings: Findings, group: GroupFindings) -> Check:
    lost = [p for p, offset in group.acknowledged.items() if group.found.get(p, -1) < offset]
    invented = [p for p, offset in group.found.items() if (p, offset) not in group.positions]
    text = f"{group.group}: offsets found after the kill are those acknowledged before it, or later commits"
    if not group.acknowledged:
        text = f"{group.group}: no commit was acknowledged before the kill"
    if lost:
        text += f"; LOST in partitions {lost}"
    if invented:
        text += f"; NEVER COMMITTED in partitions {invented}"
    return Check(bool(group.acknowledged) and not lost and not invented, text)


def _committed(findings: Findings, group: GroupFindings) -> Check:
    behind = sum(end - group.committed.get(p, 0) for p, end in findings.log_end.items())
    text = f"{group.group}: committed up to the end of every partition" + (f", lag {behind}" if behind else "")
    return Check(dict(group.committed) == findings.log_end, text)


def _copied(group: GroupFindings) -> Check:
    same = group.at_broker == group.committed
    text = f"{group.group}: the broker itself had {'members' if group.known_to_broker else 'no member'} of it"
    text += ", and has a copy of its offsets" if same else f", and its {len(group.at_broker)} offsets of it differ"
    return Check(same and not group.known_to_broker, text)


def _readable(findings: Findings) -> Check:
    batches = [line for line in findings.dump if line.startswith("baseOffset: ")]
    valid = [line for line in batches if " isvalid: true" in line]
    commits = sum('"type":"1"' in line for line in findings.dump)
    text = (
        f"log: DumpLogSegments --offsets-decoder reads {len(batches)} batches with {commits} offset commits, "
        f"{len(batches) - len(valid)} of them invalid"
    )
    return Check(len(batches) == len(valid) and commits > 0, text)


def show(findings: Findings, console: Console) -> bool:
    """Print the report; whether every check holds. Without a terminal the tables are lines with aligned columns."""
    console.print()
    console.print(_offsets_table(findings, box.SIMPLE_HEAD if console.is_terminal else None))
    if any(not group.acknowledged.keys() >= set(range(findings.partitions)) for group in findings.groups):
        note = "-: no commit for that partition was acknowledged before the kill, so none had to be found after it"
        console.print(note, highlight=False, soft_wrap=True)
    console.print()
    console.print("The shim's log, as Kafka's own DumpLogSegments prints it (the last commit of each group):")
    for line in _log_excerpt(findings):
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    console.print()
    results = checks(findings)
    for holds, text in results:
        mark = Text(" ok   ", "green") if holds else Text("FAILED", "bold red")
        console.print(Text.assemble(mark, "  ", text), soft_wrap=True)
    failed = sum(not check.holds for check in results)
    console.print()
    console.print(
        Text(f"{failed} of {len(results)} checks failed" if failed else f"all {len(results)} checks hold"),
        style="bold red" if failed else "bold green",
    )
    return not failed


def _offsets_table(findings: Findings, frame: box.Box | None) -> Table:
    table = Table(title=f"Offsets of {findings.topic}", title_justify="left", box=frame, pad_edge=False)
    table.add_column("group", no_wrap=True)
    for heading in (
        "partition",
        "acknowledged before the kill",
        "found after it",
        "at the end",
        "log end",
        "at the broker",
    ):
        table.add_column(heading, justify="right")
    for group in findings.groups:
        for partition in range(findings.partitions):
            known = (group.acknowledged, group.found, group.committed, findings.log_end, group.at_broker)
            cells = (str(offsets.get(partition, "-")) for offsets in known)
            table.add_row(group.group, str(partition), *cells)
    return table


def _log_excerpt(findings: Findings) -> Iterator[str]:
    for group in findings.groups:
        commits = [line for line in findings.dump if '"type":"1"' in line and f'"group":"{group.group}"' in line]
        yield from commits[-1:]


def as_json(findings: Findings) -> dict[str, Any]:
    """The report for programs: counts, offsets by group and partition, and the checks."""
    results = checks(findings)
    return {
        "topic": findings.topic,
        "delivered": len(findings.delivered),
        "log_end": findings.log_end,
        "data_dir": findings.data_dir,
        "groups": [
            {
                "group": group.group,
                "consumed": {member: len(records) for member, records in group.records.items()},
                "failed_commits": group.failed_commits,
                "acknowledged_before_kill": group.acknowledged,
                "found_after_kill": group.found,
                "committed": group.committed,
                "at_broker": group.at_broker,
            }
            for group in findings.groups
        ],
        "checks": [check._asdict() for check in results],
        "holds": all(check.holds for check in results),
    }
