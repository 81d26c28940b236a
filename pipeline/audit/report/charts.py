"""Bars as inline SVG. What is written beside them is text of the page, so that it is readable at any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from shim.terminal.showing import shown

_WIDTH: Final = 1000
_HEIGHT: Final = 20
_SMALLEST: Final = 6  # a part that is there is seen


class Part(NamedTuple):
    """Of a bar. ``kind``: its class in the page's style sheet."""

    kind: str
    name: str
    number: int


def text(of: object) -> str:
    """Of whatever others chose, for the page."""
    return escape(shown(str(of)))


def stacked(label: str, parts: Sequence[Part]) -> str:
    """One bar of the whole width, in parts, with what each is beneath it."""
    there = [part for part in parts if part.number]
    total = sum(part.number for part in there)
    at = 0.0
    drawn = []
    for part, width in zip(there, _widths([part.number for part in there]), strict=True):
        title = f"<title>{text(part.name)}: {part.number:,}</title>"
        drawn.append(
            f'<rect class="{part.kind}" x="{at:.1f}" y="0" width="{width:.1f}" height="{_HEIGHT}">{title}</rect>'
        )
        at += width
    spoken = ", ".join(f"{part.name} {part.number:,}" for part in there) or "nothing to compare"
    legend = "".join(
        f'<li><span class="key {part.kind}"></span>{text(part.name)} <b>{part.number:,}</b></li>' for part in there
    )
    return (
        f'<div class="stacked"><h3>{text(label)} <small>{total:,}</small></h3>{_svg(spoken, drawn)}'
        f'<ul class="legend">{legend or "<li>nothing to compare</li>"}</ul></div>'
    )


def bars(counts: Mapping[str, int], kind: str) -> str:
    """A bar for each, the longest of the whole width."""
    longest = max(counts.values(), default=0)
    rows = []
    for name, count in counts.items():
        width = max(_SMALLEST, _WIDTH * count / longest) if count else 0
        rect = f'<rect class="{kind}" x="0" y="0" width="{width:.1f}" height="{_HEIGHT}"></rect>'
        rows.append(
            f'<div class="bar"><span class="name">{text(name)}</span>{_svg(f"{name}: {count:,}", [rect])}'
            f'<span class="count">{count:,}</span></div>'
        )
    return f'<div class="bars">{"".join(rows)}</div>'


def _svg(spoken: str, drawn: Sequence[str]) -> str:
    return (
        f'<svg role="img" aria-label="{text(spoken)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
        f"{''.join(drawn)}</svg>"
    )


def _widths(counts: Sequence[int]) -> list[float]:
    """In the same ratios as the counts, but for those that would not be seen; together the whole width."""
    total = sum(counts)
    wanted = [max(_SMALLEST, _WIDTH * count / total) for count in counts]
    return [_WIDTH * each / sum(wanted) for each in wanted]
