"""The log's benchmarks: `python -m benchmarks.log commits|load|memory|compaction`, from the root of the repository.

`commits`     durable commits a second through the runtime, and bytes a commit
`load`        time to load a partition, from a snapshot and by plain replay, beside a real broker with the same segments
`memory`      what the offset table takes (offset_table.py)
`compaction`  what the cleaner does, and what that costs others (compaction.py)

`--directory` says on which disk; what else there is to choose, `--help` after the name tells.
"""

import sys

from benchmarks.log import commits, compaction, load, offset_table

PARTS = {"commits": commits.main, "load": load.main, "memory": offset_table.main, "compaction": compaction.main}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in PARTS:
        print(__doc__)
        sys.exit(f"one of {', '.join(PARTS)} is wanted")
    name = sys.argv.pop(1)
    sys.argv[0] = f"{sys.argv[0]} {name}"
    PARTS[name]()


if __name__ == "__main__":
    main()
