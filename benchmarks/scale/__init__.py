"""What more processes, and more entries, bring and cost: docs/scaling.md."""
