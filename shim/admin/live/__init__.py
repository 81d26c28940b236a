"""The admin interface of a running shim: HTTP and JSON, for the commands, the console, Burrow's readers and Prometheus.

Its rooms, from the top; each imports what is below it, and nothing beside it:

- ``port/``: opens the port (``serving``), has few connections (``connections``), knows which paths there are
  (``routes``) and what holds for each request (``application``): who is turned away, what is logged, which status an
  error has.
- ``paths/``: what is behind the paths, a module for each family of them.
- ``described/``: OpenAPI. ``streamed/``: work on many groups, told a line at a time.
- ``guard/``: who is turned away. ``over_http/``: how a request comes and an answer goes, whatever they are about.
  ``sampled/``: groups and their lag over time, looked at now and then, and what is told by that: pages, and answers as
  Burrow's.
- ``requests/``: what is asked for, read from bytes that anybody may have sent. ``shown/``: answers as JSON; metrics.
- ``asked/``: what the interface asks of the shim behind it, which is all that the rest of the shim need know of it.

aiohttp is in the first two, ``streamed/`` and ``over_http/`` alone, and imported where the interface is wanted.
"""
