"""Commands of the documentation, typed as it has them, beside a real broker and a real shim."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.docs.conftest import READY, Surroundings, given
from tests.docs.desk import Desk
from tests.docs.stories import (
    AT_A_SHIM,
    AT_REST,
    BEFORE_THE_TOKEN,
    BY_CERTIFICATE,
    BY_TOKEN,
    SERVES,
    WATCHED,
    WITH_A_TOKEN,
    WITHOUT_A_SHIM,
    Step,
    Story,
)

_MAY_BE_MISSING = {"curl", "promtool"}


def tell(desk: Desk, story: Story) -> None:
    """Skips the test where the machine does not have what is typed."""
    for missing in _MAY_BE_MISSING & {step.doc.split()[0] for step in story}:
        if shutil.which(missing) is None:
            pytest.skip(f"no {missing} on the path")
    for step in story:
        said = desk.run(step.command, status=step.status)
        assert desk.typed(step.says) in said.stdout, (step, said)


def test_watching(desk: Desk) -> None:
    with desk.running(WATCHED.command, desk.typed(WATCHED.says), ends_by=signal.SIGINT):
        pass


@pytest.mark.parametrize("name", AT_A_SHIM)
def test_at_a_shim(desk: Desk, name: str) -> None:
    tell(desk, AT_A_SHIM[name])


@pytest.mark.parametrize("name", AT_REST)
def test_at_rest(at_rest: Desk, name: str) -> None:
    tell(at_rest, AT_REST[name])


@pytest.mark.parametrize("name", WITHOUT_A_SHIM)
def test_without_a_shim(bare: Desk, name: str) -> None:
    tell(bare, WITHOUT_A_SHIM[name])


def test_a_token(surroundings: Surroundings, tmp_path: Path, free_address: str) -> None:
    desk = Desk(tmp_path / "desk", given(surroundings, tmp_path, admin=free_address))
    (tmp_path / "etc").mkdir()
    desk.run(BEFORE_THE_TOKEN.command)
    shutil.copy(tmp_path / "etc" / "admin-token", desk.folder / ".offset-shim-token")
    with desk.running(WITH_A_TOKEN.command, READY):
        tell(desk, BY_TOKEN)
        refused = "curl -sf -X POST -H 'Content-Type: application/json' -d '{}' http://shim:9644/v1/migrate/start"
        desk.run(refused, status=22)


def test_a_certificate(surroundings: Surroundings, tmp_path: Path, free_address: str) -> None:
    desk = Desk(tmp_path / "desk", given(surroundings, tmp_path, admin=free_address))
    authority = Authority(desk.folder)
    authority.truststore.rename(desk.folder / "ca.pem")
    authority.keystore("me.pem", "me.example.org")
    own = {
        "keystore.location": authority.keystore("admin.pem", free_address.partition(":")[0]),
        "truststore.location": "ca.pem",
    }
    settings = {f"listener.name.admin.ssl.{name}": value for name, value in {**own, "client.auth": "required"}.items()}
    over_tls = "".join(f" --set {name}={value}" for name, value in settings.items())
    serve = "offset-shim serve … --admin 0.0.0.0:9644 --set listener.security.protocol.map=admin:SSL"
    with desk.running(serve + over_tls, READY):
        tell(desk, BY_CERTIFICATE)


@pytest.mark.parametrize("step", SERVES, ids=lambda step: step.doc[:70])
def test_serving(surroundings: Surroundings, tmp_path: Path, step: Step) -> None:
    desk = Desk(tmp_path / "desk", given(surroundings, tmp_path))
    with desk.running(step.command, READY):
        pass
