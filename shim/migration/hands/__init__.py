"""In whose hands each group is, as requests need to know it."""
