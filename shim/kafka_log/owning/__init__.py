"""A partition at the brokers: taken over, read, written and released, so that two never own it; `owned_topic.py` is the
door."""
