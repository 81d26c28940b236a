"""Between a command and whoever has given it: what `offset-shim` and `offset-pipeline` have in common. It knows nothing
of what either is about; what ends a command, and with which status, is each one's own."""
