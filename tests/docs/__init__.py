"""The documentation, tried: every command in it is run by a test, or the table says why not."""
