"""What changes the state without a request: expiry, topics that are gone, what the cluster's log says."""
