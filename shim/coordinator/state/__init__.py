"""What is known of one offsets partition, and the one function that changes it with a record."""
