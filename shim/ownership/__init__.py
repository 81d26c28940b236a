"""Who of the shims that share a log on topics owns which offsets partition (docs/decisions/0018)."""
