"""What went wrong on the network, or with a file, in words."""

from __future__ import annotations


def reason_of(error: OSError) -> str:
    """In a few of them."""
    from shim.upstream.errors import reason_of  # only now: that room is most of what a command would import

    return reason_of(error)
