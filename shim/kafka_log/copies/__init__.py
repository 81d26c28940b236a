"""What this process has of a partition before it takes it over, followed or kept in a file; how long that counts
(docs/decisions/0020)."""
