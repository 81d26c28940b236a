"""At which step each group is, asked at the shim's admin port (docs/admin.md)."""

from __future__ import annotations

from pipeline.audit.words import CannotRead
from shim.admin.admin_client import RunningShim
from shim.admin.errors import BrokenOff, Declined, NotDone
from shim.admin.live.asked.migration import NotKnown


def steps_of_groups(shim: RunningShim) -> dict[str, str]:
    """Of every group that the shim has heard of, such as ``kafka+dual``. Raises :class:`CannotRead`."""
    steps: dict[str, str] = {}
    try:
        for row in shim.post("/v1/migrate/status", {"all": True}).rows:
            if "error" in row:
                raise CannotRead(f"the shim's admin port at {shim.address}: group {row['group']}: {row['error']}")
            steps[row["group"]] = f"{row['offsets_storage']}{'+dual' * row['dual_commit_enabled']}"
    except (Declined, NotKnown) as error:
        raise CannotRead(f"the shim's admin port at {shim.address}: {error}") from error
    except (NotDone, BrokenOff) as error:
        raise CannotRead(str(error)) from error
    return steps
