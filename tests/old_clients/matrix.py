"""Which old clients have passed where: kept in build/compatibility.json, and written from there into
docs/compatibility.md by `python -m tests.old_clients.matrix`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from shim.demo.parts.cache import locked

ROOT: Final = Path(__file__).resolve().parent.parent.parent
RESULTS: Final = ROOT / "build" / "compatibility.json"
TABLE: Final = ROOT / "docs" / "compatibility.md"

_CODECS: Final = ("none", "gzip", "snappy", "lz4")

Results = dict[str, dict[str, dict[str, bool]]]
"""By client, target and codec: whether it passed."""

_BEGIN: Final = "<!-- written by tests/old_clients/matrix.py -->\n"
_END: Final = "<!-- until here -->\n"


def record(client: str, target: str, codec: str, *, passed: bool) -> None:
    """One result more, in the place of what was known of these three."""
    with locked(RESULTS):
        results = _known()
        results.setdefault(client, {}).setdefault(target, {})[codec] = passed
        new = RESULTS.with_suffix(".new")
        new.write_text(json.dumps(results, indent=1))
        new.replace(RESULTS)


def table(results: Results) -> str:
    """Clients down, targets across, both by name and release."""
    targets = sorted({target for row in results.values() for target in row}, key=_by_release)
    lines = [f"| client | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for client in sorted(results, key=_by_release):
        cells = (_cell(results[client].get(target, {})) for target in targets)
        lines.append(f"| {client} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _by_release(name: str) -> list[tuple[int, str]]:
    """0.9 comes before 0.10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _cell(codecs: dict[str, bool]) -> str:
    ordered = [codec for codec in _CODECS if codec in codecs]
    passed = [codec for codec in ordered if codecs[codec]]
    failed = [codec for codec in ordered if not codecs[codec]]
    parts = [", ".join(passed)] if passed else []
    if failed:
        parts.append(f"**fails**: {', '.join(failed)}")
    return "; ".join(parts) or "not run"


def _known() -> Results:
    if not RESULTS.exists():
        return {}
    known: Any = json.loads(RESULTS.read_bytes())
    return known  # type: ignore[no-any-return]


def main() -> int:
    if not (results := _known()):
        print(f"no {RESULTS}: the tests in tests/old_clients write it", file=sys.stderr)
        return 1
    before, _, rest = TABLE.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    TABLE.write_text(f"{before}{_BEGIN}{table(results)}{_END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
