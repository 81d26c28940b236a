"""PySpark jobs around the shim: topics loaded into a lake, the migration audited, the offset history read."""
