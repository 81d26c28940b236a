"""What of a partition's segments counts after a crash, or a failed write."""
