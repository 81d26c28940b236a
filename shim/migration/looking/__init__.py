"""Groups as they are, and as a start would find them; nothing is changed."""

from typing import Final

CLUSTER_SECONDS: Final = 3.0
"""For so long each broker is waited for, all at once, by who looks."""
