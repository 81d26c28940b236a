"""The log in the data directory, as the runtime needs it: its threads between the event loop and :mod:`shim.log`.

`backend.py` is the door. `opening.py` opens the log, `loading.py` reads partitions back, `writer.py` writes what is
decided of them, in `writing_thread.py`, and `cleaning_thread.py` compacts it. Where it ends, for snapshots, says
`ends.py`; the history is read by `history.py`.
"""

from shim.disk_log.backend import DiskBackend
from shim.disk_log.opening import open_log, open_share, open_whole

__all__ = ["DiskBackend", "open_log", "open_share", "open_whole"]
