"""Settings: every one of them, in each place where it may be given."""
