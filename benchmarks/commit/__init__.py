"""Commits and offset fetches a second: the shim beside the real coordinator. `python -m benchmarks.commit`."""
