"""ZooKeeper: a session for the event loop, and the offsets that old consumers keep there."""
