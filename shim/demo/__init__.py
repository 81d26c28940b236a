"""`offset-shim demo`: real parts, unmodified clients, and a report. Begin with `demo.py`."""

import importlib.util

# The unmodified clients (the extra `demo`) and the modules that they are imported as.
LIBRARIES = {"kafka-python": "kafka", "aiokafka": "aiokafka", "confluent-kafka": "confluent_kafka"}


def missing_libraries() -> list[str]:
    """Which of the client libraries are not installed."""
    return [library for library, module in LIBRARIES.items() if importlib.util.find_spec(module) is None]
