"""The shortest sequence that still shows a difference (delta debugging: Zeller, Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.steps import Sequence, Step


def shrunk(sequence: Sequence, differs: Callable[[Sequence], bool]) -> Sequence:
    """A part of the sequence that differs, and no more when any one step is left out."""

    def holds(steps: tuple[Step, ...]) -> bool:
        return differs(sequence._replace(steps=steps))

    steps, parts = sequence.steps, 2
    while len(steps) > 1:
        size = -(-len(steps) // parts)
        for begin in range(0, len(steps), size):
            rest = steps[:begin] + steps[begin + size :]
            if holds(rest):
                steps, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(steps))
    return sequence._replace(steps=steps)
