"""The admin interface of a running shim: HTTP and JSON, for the commands, the console, Burrow's readers and Prometheus.

Its rooms, from the top: `port/`, `paths/` (a module for each family of them), `described/` (OpenAPI), `guard/` (who is
turned away), `over_http/`, `sampled/` (lag over time), `requests/` (what is asked for), `shown/` (how it is told), and
`asked/`: what the interface asks of the shim behind it, which is all that others need know of it.
"""
