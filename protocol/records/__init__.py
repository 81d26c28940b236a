"""What a log holds and Fetch and Produce carry: record batches, older message sets, compression."""
