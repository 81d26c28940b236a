"""The length of a commit's metadata, as the limit on it counts."""

from shim.coordinator.settings import CoordinatorSettings


def is_too_large(metadata: str | None, settings: CoordinatorSettings) -> bool:
    """Whether it is beyond `offset.metadata.max.bytes`."""
    return metadata is not None and utf16_length(metadata) > settings.offset_metadata_max_bytes


def utf16_length(text: str) -> int:
    """Java's String.length(), which the limit is on, whatever the setting's name says."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
