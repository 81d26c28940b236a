"""What is asked of real brokers, API by API."""

from tests.protocol_live.scenarios import cluster, groups, records, transactions

__all__ = ["cluster", "groups", "records", "transactions"]
