"""Settings in environment variables: ``OFFSET_SHIM_`` and the name in upper case, dots as underscores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from shim.config.addresses import SettingError
from shim.config.names import BY_NAME, LISTENER_PREFIX, Named, is_per_listener, near

PREFIX: Final = "OFFSET_SHIM_"

_NO_SETTINGS: Final = (
    "OFFSET_SHIM_CACHE",
    "OFFSET_SHIM_ADMIN",
    "OFFSET_SHIM_ADMIN_CA_FILE",
    "OFFSET_SHIM_ADMIN_CERTIFICATE_FILE",
)
"""What else begins so: where jars are kept, and what commands know of an admin port (the token is a setting, too)."""

_OF_A_SERVICE: Final = re.compile(r"\w*(_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT(_\d+_(TCP|UDP|SCTP)\w*)?)")
"""What Kubernetes sets in every container beside a Service whose name begins with ``offset-shim``
(https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables)."""

_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://.*|[0-9a-fA-F.:]+|(TCP|UDP|SCTP|tcp|udp|sctp)")
"""The values of these."""


class Variable(NamedTuple):
    variable: str
    name: Named
    value: str


def variable_of(name: str) -> str:
    """The variable for a setting."""
    return PREFIX + name.upper().replace(".", "_")


_BY_VARIABLE: Final = {variable_of(name): name for name in BY_NAME}
_PER_LISTENER: Final = sorted(
    ((f"_{name.upper().replace('.', '_')}", name) for name in BY_NAME if is_per_listener(name)),
    key=lambda each: -len(each[0]),
)
"""The ends of variables for one listener, longest first: a listener's name may have underscores, too."""


def read_environment(environ: Mapping[str, str]) -> Iterator[Variable]:
    """Raises :class:`SettingError` for a variable that begins with ``OFFSET_SHIM_`` and is none."""
    for variable, value in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in _NO_SETTINGS or _is_of_a_service(variable, value):
            continue
        yield Variable(variable, _named(variable), value)


def _is_of_a_service(variable: str, value: str) -> bool:
    """A setting goes before."""
    return bool(variable not in _BY_VARIABLE and _OF_A_SERVICE.fullmatch(variable) and _ADDRESS.fullmatch(value))


def _named(variable: str) -> Named:
    if variable in _BY_VARIABLE:
        return Named(_BY_VARIABLE[variable])
    for_listeners = variable_of(LISTENER_PREFIX)
    if variable.startswith(for_listeners):
        rest = variable.removeprefix(for_listeners)
        for end, setting in _PER_LISTENER:
            if rest.endswith(end) and len(rest) > len(end):
                return Named(setting, rest.removesuffix(end).lower())
    raise SettingError(f"unknown environment variable {variable}{near(variable, _BY_VARIABLE)}")
