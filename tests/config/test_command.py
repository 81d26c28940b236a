"""`offset-shim config`, as its users run it, and the documentation that is made with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.config import BY_NAME, as_markdown
from tests.admin.live.running import offset_shim

SECRET = "never-to-be-shown"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shim.toml"
    path.write_text(f'"group.max.size" = 5\n"upstream.sasl.password" = "{SECRET}"\n')
    return path


def test_effective_settings_with_their_sources(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_SHIM_LOG_CLEANER_ENABLE", "false")
    given = ("--config", str(file), "--set", "log.level=DEBUG")
    shown = offset_shim("config", *given, "--changed")
    assert shown.status == 0
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["NAME", "VALUE", "SOURCE"],
        ["log.cleaner.enable", "false", "OFFSET_SHIM_LOG_CLEANER_ENABLE"],
        ["group.max.size", "5", f"{file}:1"],
        ["upstream.sasl.password", "***", f"{file}:2"],
        ["log.level", "DEBUG", "--set"],
    ]
    whole = offset_shim("config", *given)
    assert len(whole.stdout.splitlines()) == 1 + len(BY_NAME)
    as_json = offset_shim("config", *given, "--json")
    by_name = {row["name"]: row for row in as_json.json}
    assert by_name.keys() == BY_NAME.keys()
    assert by_name["group.max.size"] == {
        "name": "group.max.size",
        "value": 5,
        "source": f"{file}:1",
        "reloadable": True,
    }
    assert SECRET not in shown.stdout + whole.stdout + as_json.stdout


def test_a_wrong_setting_ends_it_with_2(file: Path) -> None:
    file.write_text("\n'group.max.size' = 0\n")
    refused = offset_shim("config", "--config", str(file))
    assert refused.status == 2
    assert refused.stderr == f"Error: {file}:2: group.max.size: 0 is not a whole number from 1 to 2147483647\n"
    assert offset_shim("config", "--changed", "--describe").status == 2


NEEDED = ("bootstrap.servers=b:1", "listen=127.0.0.1:1", "data.dir=/nowhere")


@pytest.mark.parametrize(
    "wrong",
    [
        "listen=9092",
        "listen=0.0.0.0:9092",
        "bootstrap.servers=kafka",
        "bootstrap.servers=",
        "advertised.host=0.0.0.0",
        "admin.listen=9644",
        "admin.listen=0.0.0.0:9644",
        "zookeeper.connect=z",
        "zookeeper.connect=z:1/a//b",
        "registrar.enable=true",
        "listeners=nonsense",
        "data.dir=/etc/passwd",
        "shims.listener=9092",
        "shims.listener=127.0.0.1:9092",
    ],
)
def test_what_serve_refuses_is_refused_in_the_same_line(wrong: str) -> None:
    given = [each for setting in (*NEEDED, wrong) for each in ("--set", setting)]
    by_serve = offset_shim("serve", *given)
    by_config = offset_shim("config", *given)
    assert (by_config.status, by_config.stdout, by_config.stderr) == (2, "", by_serve.stderr)
    assert by_serve.status == 2
    assert by_config.stderr.startswith("Error: ")
    assert by_config.stderr.count("\n") == 1


def test_what_is_missing_yet_is_no_error() -> None:
    assert offset_shim("config").status == 0
    one_by_one = [offset_shim("config", "--set", setting) for setting in (*NEEDED, "admin.listen=localhost:9644")]
    assert [each.status for each in one_by_one] == [0] * 4


def test_the_reference() -> None:
    text = offset_shim("config", "--describe").stdout
    documents = offset_shim("config", "--describe", "--json").json
    assert [each["name"] for each in documents] == list(BY_NAME)
    for name in BY_NAME:
        assert f"\n{name} (" in f"\n{text}"
    assert "group.max.size (int)\n" in text
    assert offset_shim("config", "--markdown").stdout == as_markdown()


def test_the_documentation_has_the_table_as_the_code_has_it() -> None:
    text = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    assert as_markdown() in text, "put the output of `offset-shim config --markdown` into docs/settings.md"
