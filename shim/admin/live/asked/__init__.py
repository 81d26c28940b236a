"""What the interface asks of the shim behind it, as protocols: whoever answers knows nothing of HTTP or JSON.

``shim`` is the door: one object, which has who moves groups (``migration``), who looks after them (``groups``) and who
moves partitions of the log, and tells of the whole (``overview``). The first two have their words beside them, those of
:mod:`shim.migration.words` and :mod:`shim.groups.words`. Offsets and lag are in records, ``…_ms`` are milliseconds
since the epoch. Errors: NotReady of a shim that only starts, and of a worker that is not there for now; Refused and
NotKnown of a group; NotCertain of a change; CannotMove of the log.
"""
