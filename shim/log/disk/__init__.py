"""What the log is made of on a disk: the calls that reach it, names and small files, and what is called how."""
