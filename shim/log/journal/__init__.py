"""One flush for what a flight writes to many partitions, and what has only that for a while."""
