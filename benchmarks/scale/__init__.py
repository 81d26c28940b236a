"""What more processes and more entries cost: docs/scaling.md."""
