"""Offsets in ZooKeeper beside the log: what is written here comes there, and what others write there comes here."""
