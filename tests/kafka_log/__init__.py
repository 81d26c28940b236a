"""The log on a Kafka topic: so far, what its design relies on (docs/decisions/0018)."""
