"""Which responses can name a broker by its address: for the whole table, by Kafka's own schemas as kio has them."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import typing
from collections.abc import Iterator
from types import ModuleType

import kio.schema
import pytest

from shim.api import ROUTES, AsIs
from shim.api.table import TABLE

# Fields that say where something is reached. A field of another name that ends so is looked at, too.
ADDRESS = ("host", "port")
# Where clients are, or may be: an ACL's host.
OF_CLIENTS = {"describe_acls": ["resources.acls.host"], "delete_acls": ["filter_results.matching_acls.host"]}
KNOWN_MODULES = {module.name for module in pkgutil.iter_modules(kio.schema.__path__)}


def response(name: str, version: int) -> type | None:
    try:
        module: ModuleType = importlib.import_module(f"kio.schema.{name}.v{version}.response")
    except ModuleNotFoundError:
        return None
    (whole,) = (
        each
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and hasattr(each, "__header_schema__")
        if each.__name__ == f"{''.join(map(str.capitalize, name.split('_')))}Response"
    )
    return whole


def fields(entity: type, path: str = "") -> Iterator[str]:
    for name, hint in typing.get_type_hints(entity).items():
        if name.startswith("__"):
            continue
        yield f"{path}{name}"
        for inner in nested(hint):
            yield from fields(inner, f"{path}{name}.")


def nested(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from nested(argument)


def addresses(entity: type) -> list[str]:
    return [path for path in fields(entity) if path.rpartition(".")[2].endswith(ADDRESS)]


AS_IS = sorted(
    {(route.key.name.lower(), key & 0xFFFF) for key, route in ROUTES.items() if isinstance(route.disposition, AsIs)}
)


@pytest.mark.parametrize(("name", "version"), AS_IS)
def test_no_response_that_is_passed_on_as_it_is_has_room_for_an_address(name: str, version: int) -> None:
    assert name in KNOWN_MODULES
    entity = response(name, version)
    if entity is None:  # one that Kafka 4 dropped, of which kio knows nothing
        oldest = min(v for v in range(20) if response(name, v) is not None)
        assert version < oldest, "newer than what is known here"
        return
    assert addresses(entity) in ([], OF_CLIENTS.get(name))


def test_the_search_finds_what_there_is_to_find() -> None:
    assert addresses(typing.cast(type, response("produce", 10))) == ["node_endpoints.host", "node_endpoints.port"]
    assert addresses(typing.cast(type, response("fetch", 16))) == ["node_endpoints.host", "node_endpoints.port"]
    assert addresses(typing.cast(type, response("metadata", 12))) == ["brokers.host", "brokers.port"]
    assert addresses(typing.cast(type, response("describe_quorum", 2)))


def test_every_api_is_looked_at() -> None:
    assert {name for name, _ in AS_IS} == {
        route.key.name.lower() for route in TABLE if isinstance(route.disposition, AsIs)
    }
