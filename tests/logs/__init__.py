"""What the process says on standard error."""
