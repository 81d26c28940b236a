"""The contracts of imports say what they seem to: of rooms that there are, of each one, and all that their names say.

That the code keeps them import-linter says (`make lint`)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
OURS: Final = ("compat", "pipeline", "protocol", "shim")
LINTER: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS: Final[list[dict[str, Any]]] = LINTER["contracts"]
FLOORS: Final[list[list[str]]] = [
    [f"shim.{room}" for room in layer.split(" | ")]
    for contract in CONTRACTS
    if contract.get("containers") == ["shim"]
    for layer in contract["layers"]
]
FLOOR_OF: Final = {room: number for number, rooms in enumerate(reversed(FLOORS)) for room in rooms}
ROOMS: Final = {"compat", "protocol", *FLOOR_OF}

FOR_EVERYBODY: Final = {"shim.apart", "shim.boottime", "shim.counted", "shim.logged_once", "shim.metrics"}
OTHERWISE: Final = {
    "shim.main": "it is the top floor",
    "shim.serve": "it wires a running shim, and may import nearly all",
    "shim.apart": "it stands beside the rooms",
    "shim.boottime": "it stands beside the rooms",
    "shim.counted": "it stands beside the rooms",
    "shim.logged_once": "it stands beside the rooms",
    "shim.workers_folder": "it stands beside the rooms",
}

PARTS: Final = {"shim.admin.live"}
"""Of rooms, with a contract as a room has."""

_MAY_IMPORT: Final = re.compile(r"([\w.]+) may import: ([^;]*)")


def is_there(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def named() -> Iterator[tuple[str, str]]:
    """All modules of ours that contracts name, each with the contract's name."""
    for contract in CONTRACTS:
        for container in contract.get("containers", [""]):
            for layer in contract.get("layers", ()):
                for room in layer.split(" | "):
                    yield contract["name"], f"{container}.{room}".lstrip(".")
        ignored = [module for each in contract.get("ignore_imports", ()) for module in each.split(" -> ")]
        for kind in ("source_modules", "forbidden_modules", "containers", "modules"):
            ignored += contract.get(kind, ())
        for module in ignored:
            if module.partition(".")[0] in OURS:
                yield contract["name"], module.rstrip(".*")


def test_what_is_named_is_there() -> None:
    assert [each for each in named() if not is_there(each[1])] == []


def test_every_contract_is_about_something() -> None:
    for contract in CONTRACTS:
        if contract["type"] == "forbidden":
            assert contract["source_modules"], contract["name"]
            assert contract["forbidden_modules"], contract["name"]
        elif contract["type"] == "independence":
            assert all(module.endswith(".*") for module in contract["modules"]), contract["name"]
        else:
            assert len(contract["layers"]) > 1, contract["name"]
            assert contract["exhaustive"], contract["name"]


def contract_of(room: str) -> tuple[dict[str, Any], str]:
    """And what its name says that the room may import."""
    (found,) = (
        (contract, said[2])
        for contract in CONTRACTS
        if (said := _MAY_IMPORT.match(contract["name"])) is not None and said[1] == room
    )
    return found


def excepted(contract: Mapping[str, Any], room: str) -> Iterator[str]:
    """What any module of ``room`` may import of what the contract forbids."""
    for ignored in contract.get("ignore_imports", ()):
        importing, imported = ignored.split(" -> ")
        assert importing == f"{room}.**", contract["name"]
        yield imported.removesuffix(".**")


@pytest.mark.parametrize("room", sorted(ROOMS - OTHERWISE.keys() | PARTS))
def test_a_room_has_a_contract_that_forbids_what_its_name_does_not_allow(room: str) -> None:
    """What is above a room, or beside it on its floor, the contract of the floors forbids."""
    contract, said = contract_of(room)
    assert contract["source_modules"] == [room]
    allowed = {*re.findall(r"shim(?:\.\w+)+|compat|protocol", said)}
    forbidden = {*contract["forbidden_modules"]}
    assert allowed.isdisjoint(forbidden)
    # Of a room of which a part is allowed the rest is forbidden.
    assert {each for each in allowed if each.count(".") > 1} == {*excepted(contract, room)}
    whole = ".".join(room.split(".")[:2])
    if whole in FLOOR_OF:
        others = {each for each, floor in FLOOR_OF.items() if floor < FLOOR_OF[whole]} | {"compat", "protocol"}
    else:
        others = {"compat", "protocol", "shim"} - {room}
    assert others - allowed - forbidden - FOR_EVERYBODY == set()


def test_what_is_said_otherwise_is_a_room_of_which_there_is_a_contract() -> None:
    assert OTHERWISE.keys() <= ROOMS
    sources = {module for contract in CONTRACTS for module in contract.get("source_modules", ())}
    assert OTHERWISE.keys() <= sources
