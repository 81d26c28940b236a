"""What was decided, on its way to the topics: as plain records, a flight at a time of each partition."""
