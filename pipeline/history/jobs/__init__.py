"""What can be asked of the history: each job takes tables, and gives the table that answers.

Times are milliseconds since the epoch. In one millisecond the order of the log counts: of a group all commits are in
one log partition, so log offset and row say which came first.
"""
