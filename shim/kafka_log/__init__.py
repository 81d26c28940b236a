"""The log on topics of the cluster (docs/decisions/0018)."""
