"""``offset-pipeline load``: topics into a table, exactly once, with a group's offsets as the record of progress."""
