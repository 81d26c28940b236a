"""Formats of this repository alone, which Kafka does not know, and what its logs are given to append."""
