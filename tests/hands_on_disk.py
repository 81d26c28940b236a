"""In whose hands the groups of a shim are, as its data directory says, whether it runs or not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from protocol.errors import DecodeError
from protocol.own.state_log import STATE_TOPIC, GroupHandsKey, GroupHandsValue, Hands, decode_state
from shim.log.disk.files import Files
from shim.log.segments.segment import BadBytes, sound_batches


def hands_on_disk(data_dir: Path) -> dict[str, Hands]:
    """By group. What a crash has left unreadable, and all behind it in its file, is left out."""
    found: dict[str, Hands] = {}
    for path in sorted(data_dir.glob(f"{STATE_TOPIC}-*/*.log")):
        try:
            found |= _in_segment(path)
        except FileNotFoundError:  # compacted meanwhile
            continue
    return found


def passed_through(hands: Mapping[str, Hands]) -> set[str]:
    """The groups that were left to the cluster."""
    return {group for group, whose in hands.items() if whose is Hands.PASSED_THROUGH}


_FILES: Final = Files()


def _in_segment(path: Path) -> dict[str, Hands]:
    found: dict[str, Hands] = {}
    fd = _FILES.open(path)
    try:
        for batch in sound_batches(_FILES, fd, path.stat().st_size, int(path.stem), gaps=True):
            for record in batch.records:
                key, value = decode_state(record.key or b"", record.value)
                if isinstance(key, GroupHandsKey):
                    assert isinstance(value, GroupHandsValue)
                    found[key.group] = Hands(value.hands)
    except (BadBytes, DecodeError):
        pass
    finally:
        _FILES.close(fd)
    return found
