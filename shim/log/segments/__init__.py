"""The files that records are in: batches, segments and their indexes."""
