"""The log of one partition, and its snapshots."""
