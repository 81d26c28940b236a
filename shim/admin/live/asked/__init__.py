"""What the interface asks of the shim behind it, as protocols: whoever answers knows nothing of HTTP or JSON."""
