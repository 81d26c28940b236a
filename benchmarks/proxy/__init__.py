"""What a proxy costs: the shim beside Kroxylicious, and both beside the broker itself. `python -m benchmarks.proxy`."""
