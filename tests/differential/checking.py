"""The sequences of some seeds, run one by one, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tests.differential.generating import sequence_of
from tests.differential.pair import Pair
from tests.differential.running import Difference, Result, TooSlow, Undetermined, run
from tests.differential.shrinking import shrunk
from tests.differential.steps import Sequence, Timing

_TRIES = 3  # of a sequence in which something may have expired by chance
_SHRINKING_PATIENCE_S = 0.5
_MOST_DIFFERENCES = 3


class Report(NamedTuple):
    """`results`: how many sequences ended in which way. `undetermined`: why those did. `differences`: each with its
    shortest sequence.
    """

    sequences: int
    steps: int
    results: Counter[str]
    undetermined: Counter[str]
    differences: list[str]


def check(
    pair: Pair, seeds: Iterable[int], timing: Timing | None = None, most_differences: int = _MOST_DIFFERENCES
) -> Report:
    """Run the sequences of all seeds, until so many of them differ."""
    results: Counter[str] = Counter()
    undetermined: Counter[str] = Counter()
    differences: list[str] = []
    steps = sequences = 0
    for seed in seeds:
        sequence = sequence_of(seed, pair.at_broker, timing)
        result = run_in_time(pair, sequence)
        sequences += 1
        results[type(result).__name__] += 1
        if isinstance(result, Difference):
            differences.append(f"seed {seed}: {result}\n{explained(pair, sequence, result)}")
            if len(differences) == most_differences:
                break
            continue
        steps += result.steps
        if isinstance(result, Undetermined):
            undetermined[result.why] += 1
    return Report(sequences, steps, results, undetermined, differences)


def first_difference(pair: Pair, seeds: Iterable[int]) -> Difference | None:
    """The first that is found, as it is."""
    for seed in seeds:
        result = run(pair, sequence_of(seed, pair.at_broker), _SHRINKING_PATIENCE_S)
        if isinstance(result, Difference):
            return result
    return None


def run_in_time(pair: Pair, sequence: Sequence) -> Result:
    for _ in range(_TRIES):
        result = run(pair, sequence)
        if not isinstance(result, TooSlow):
            break
    return result


def explained(pair: Pair, sequence: Sequence, found: Difference) -> str:
    """The shortest sequence with a difference of that kind, and the difference."""

    def differs(part: Sequence) -> bool:
        again = run(pair, part, _SHRINKING_PATIENCE_S)
        return isinstance(again, Difference) and type(again.step) is type(found.step)

    small = shrunk(sequence, differs)
    return f"in the shortest form:\n{small}\n{run(pair, small)}"
