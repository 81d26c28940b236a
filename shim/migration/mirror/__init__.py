"""The cluster's own offsets, kept as they are in the log; and who writes there past the shim."""
