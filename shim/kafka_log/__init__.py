"""The log on topics of the cluster (docs/decisions/0018). In the making: `serve` does not know of it yet."""
