"""What is done with groups at the word of whoever looks after them: described, reset, deleted, and their history."""
