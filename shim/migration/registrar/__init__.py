"""The cluster as consumers of 0.8 to 1.1 look for it in ZooKeeper."""
