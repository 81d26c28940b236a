"""A partition that comes to this process: fenced, and read back; `taking_over.py` is the door."""
