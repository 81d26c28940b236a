"""What it costs to serve clients from before Kafka 0.11: see :mod:`benchmarks.compat.__main__`."""
