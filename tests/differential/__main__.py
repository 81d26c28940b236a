"""The differences that the sequences of some seeds show, each kind once, by its shortest.

python -m tests.differential FIRST LAST [none|session|rebalance|delay]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.differential.generating import sequence_of
from tests.differential.pair import DELAYED, USUAL, in_order_broker, pair_with
from tests.differential.running import Difference, run
from tests.differential.shrinking import shrunk
from tests.differential.steps import Timing


def main(first: int, last: int, timing: Timing | None) -> int:
    seen: Counter[str] = Counter()
    results: Counter[str] = Counter()
    steps = 0
    settings = DELAYED if timing is Timing.DELAY else USUAL
    with (
        tempfile.TemporaryDirectory() as folder,
        in_order_broker(Path(folder), settings) as broker,
        pair_with(broker, Path(folder), settings) as both,
    ):
        begun = time.monotonic()
        for seed in range(first, last):
            sequence = sequence_of(seed, both.at_broker, timing)
            result = run(both, sequence, 0.5)
            results[type(result).__name__ + str(getattr(result, "why", ""))] += 1
            if not isinstance(result, Difference):
                steps += result.steps
                continue
            seen[result.kind] += 1
            if seen[result.kind] > 1:
                continue
            print(f"== seed {seed} at {time.monotonic() - begun:.0f} s", flush=True)
            kind = type(result.step)

            def differs(part: object, kind: type = kind) -> bool:
                again = run(both, part, 0.3)  # type: ignore[arg-type]
                return isinstance(again, Difference) and type(again.step) is kind

            small = shrunk(sequence, differs)
            print(small, run(both, small, 0.5), sep="\n", flush=True)
        print(f"{time.monotonic() - begun:.1f} s, {dict(results)}, {steps} steps")
        met: dict[str, Counter[int]] = {}
        for (name, _, error), count in both.answers.items():
            met.setdefault(name, Counter())[error] += count
        print(*(f"{name}: {dict(errors.most_common())}" for name, errors in met.items()), sep="\n")
        print(f"{both.expired} expired", sorted(both.transitions))
        for kind_text, count in seen.most_common():
            print(f"{count:5} {kind_text}")
    return int(bool(seen))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), Timing(sys.argv[3]) if len(sys.argv) > 3 else None))
