"""Offsets partitions on their way between the log in the data directory and the one on topics of the cluster; settings,
commands and docs call it moving."""
