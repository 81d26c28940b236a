"""`offset-shim log import` and `export` at a cluster that wants TLS and SASL: they speak with it as the shim does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from tests.admin.running import commit_record, log, plainly, served, write_log
from tests.secured.broker import Rule, SecuredBroker
from tests.secured.conftest import ALL_GROUPS, DESCRIBE_GROUPS, shim_settings

GROUP, TOPIC = "exported", "alice-exported"


def settings_file(folder: Path, settings: Mapping[str, str | int]) -> Path:
    path = folder / "shim.toml"
    path.write_text("".join(f'"{name}" = "{value}"\n' for name, value in settings.items()))
    return path


def test_offsets_go_into_a_secured_cluster_and_come_back(secured: SecuredBroker, tmp_path: Path) -> None:
    secured.allow(Rule("shim", "ALL", "GROUP", GROUP), Rule("shim", "READ", "TOPIC", TOPIC))
    admin = secured.admin
    for created in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        created.result()
    written, read = tmp_path / "written", tmp_path / "read"
    write_log(written, [(GROUP, commit_record(GROUP, TOPIC, 0, 0, metadata="m"))])
    config = settings_file(tmp_path, shim_settings(secured))
    export: list[str | Path] = ["export", "--data-dir", written, "--to-bootstrap", secured.bootstrap_servers]
    stranger = log(*export)
    assert (stranger.status, stranger.stdout) == (2, "")
    assert "closed the connection" in stranger.stderr or "speaks TLS" in stranger.stderr
    done = log(*export, "--config", config)
    assert done.status == 0, done.stderr
    back: list[str | Path] = ["import", "--data-dir", read, "--from-bootstrap", secured.bootstrap_servers]
    wrong = log(*back, "--group", GROUP, "--config", config, "--set", "upstream.sasl.password=wrong")
    assert wrong.status == 2
    assert "SCRAM-SHA-512 as shim: Authentication failed" in wrong.stderr
    part = log(*back, "--config", config)
    assert part.status == 2, "a part of the groups would look like all of them"
    assert "not all groups are shown" in part.stderr
    nobodys = log(*back, "--group", "nobodys", "--config", config)
    assert nobodys.status == 2
    assert "no offsets there of nobodys" in nobodys.stderr
    secured.revoke(DESCRIBE_GROUPS, *ALL_GROUPS)
    try:
        nobodys = log(*back, "--group", "nobodys", "--config", config)
    finally:
        secured.allow(DESCRIBE_GROUPS, *ALL_GROUPS)
    assert nobodys.status == 2
    assert "GROUP_AUTHORIZATION_FAILED" in nobodys.stderr
    done = log(*back, "--group", GROUP, "--config", config)
    assert done.status == 0, done.stderr
    assert "are all topics (*) allowed to be described?" in done.stderr
    assert plainly(served(read)) == {(GROUP, TOPIC, 0): (0, -1, "m")}
