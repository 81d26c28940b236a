"""The log on a Kafka topic: what its design relies on, and what a partition holds (docs/decisions/0018)."""
