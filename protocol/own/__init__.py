"""Formats of this repository alone, which Kafka does not know."""
