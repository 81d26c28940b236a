"""A data directory that no shim uses (a backup: that one may): what is in it, what is damaged, and what can be done."""
