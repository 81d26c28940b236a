"""``offset-pipeline audit``: what ZooKeeper, the shim and the cluster have of every group's offsets, held against each
other by Spark."""
