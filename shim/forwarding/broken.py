"""What ends a connection between two shims."""

from __future__ import annotations


class Broken(Exception):
    """What has come is not what the other side may say; the message is a few words."""
