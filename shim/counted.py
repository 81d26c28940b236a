"""A count and what is counted, as messages have them."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """``1 batch``, ``2 batches``, ``1,000 offsets``. ``what``: in the singular."""
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}es" if what.endswith("ch") else f"{count:,} {what}s"
