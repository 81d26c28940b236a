"""The cluster's own groups and offsets, through the APIs that every client uses."""
