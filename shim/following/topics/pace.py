"""How often the cluster is looked at, and how long is waited for what it says: in seconds."""

from __future__ import annotations

from typing import NamedTuple


class Pace(NamedTuple):
    """What tests make short."""

    pause: float = 0.1
    """Between two requests of a look."""
    round: float = 1.0
    """From one time that all brokers are asked of topics in doubt to the next one."""
    doubt: float = 30.0
    """The longest that a topic is in doubt which somebody did not see; one that was seen with another id is in doubt
    for as long as the brokers do not agree, which is logged after this time."""
    wait: float = 3.0
    """The longest that a request waits to be told."""
