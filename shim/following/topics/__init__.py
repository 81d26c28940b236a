"""Which topics the cluster has; `topics.py` is the door."""
