"""How a request comes and its answer goes out over HTTP, whatever either is about."""
