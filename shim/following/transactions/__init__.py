"""How transactions end in the cluster; `follower.py` is the door."""
