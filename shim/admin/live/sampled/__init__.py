"""What is looked at now and then, for all who ask: groups, their lag over time, and what is told by such samples."""
