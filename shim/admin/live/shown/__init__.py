"""How what a shim has answered looks outside: rows of JSON, for the interface and ``--json`` alike, and metrics."""
