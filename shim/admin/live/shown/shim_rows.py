"""The shim as a whole, its clients, and the places of its log, as the admin interface shows them."""

from __future__ import annotations

from shim.admin.live.asked.overview import ClientsOf, Overview
from shim.admin.live.shown.documents import Row
from shim.relocation.words import LogPlaces


def overview_row(seen: Overview, *, ready: bool) -> Row:
    return {
        **seen._asdict(),
        "ready": ready,
        "brokers": [each._asdict() for each in seen.brokers],
        "listeners": [each._asdict() for each in seen.listeners],
    }


def client_row(seen: ClientsOf) -> Row:
    versions = [each._asdict() for each in seen.lowest_versions]
    return {**seen._asdict(), "dropped": seen.dropped, "lowest_versions": versions}


def places_row(found: LogPlaces) -> Row:
    return {
        "partitions": [each._asdict() for each in found.partitions],
        "to": None if found.to is None else str(found.to),
        "turn": found.changes,  # as scripts know it
        "warning": found.warning,
    }
