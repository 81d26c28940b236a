"""A partition read back from its topic, by who owns it and by who follows it: how far, and what that says."""
