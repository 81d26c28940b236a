"""How shims that share a log on topics share the work (docs/decisions/0018)."""
