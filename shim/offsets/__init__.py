"""Other places where offsets are kept: the cluster's own `__consumer_offsets`, ZooKeeper."""
