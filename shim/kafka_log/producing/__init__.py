"""Batches of a topic, on their way to who leads their partitions; `producer.py` is the door, and before it `in_turn.py`
for batches of a partition one after the other."""
