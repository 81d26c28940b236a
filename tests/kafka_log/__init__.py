"""The log on topics: what its design relies on, room by room, and what a partition holds (docs/decisions/0018)."""
