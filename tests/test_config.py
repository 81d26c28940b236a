"""Settings: read, checked, and refused in one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.batches import encode_batch, read_header, rewrite_batch
from shim.config import HostPort, SettingError, Settings, load_configuration, parse_host_port, parse_servers
from shim.log.cleaner.compaction import group_segments
from shim.log.segments.segment import Segment


def test_defaults_are_kafkas() -> None:
    settings = load_configuration(None, ()).settings
    assert settings.offsets_topic_num_partitions == 50
    assert settings.offset_metadata_max_bytes == 4096
    assert settings.group_max_session_timeout_ms == 1_800_000


def test_a_file_and_then_set_win_over_the_default(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_text('offsets.commit.timeout.ms = 100\n"group.max.size" = 7\n[group.initial]\nrebalance.delay.ms = 0\n')
    settings = load_configuration(file, ["group.max.size=9"]).settings
    assert settings.offsets_commit_timeout_ms == 100
    assert settings.group_max_size == 9
    assert settings.group_initial_rebalance_delay_ms == 0


def test_numbers_and_switches(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_text("log.cleaner.enable = false\nlog.cleaner.min.cleanable.ratio = 0.25\n")
    settings = load_configuration(file, ["log.cleaner.io.max.bytes.per.second=1e6"]).settings
    assert (settings.log_cleaner_enable, settings.log_cleaner_min_cleanable_ratio) == (False, 0.25)
    assert settings.log_cleaner_io_max_bytes_per_second == 1_000_000.0
    assert load_configuration(None, ["log.cleaner.enable=false"]).settings.log_cleaner_enable is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group.max.size", "expected name=value"),
        ("group.max.size=many", "group.max.size: 'many' is not a whole number from 1 to 2147483647"),
        ("group.max.size=0", "group.max.size: '0' is not a whole number"),
        ("offsets.topic.segment.bytes=1023", "'1023' is not a whole number from 1024 to 2147483647"),
        ("group.max.size=1.5", "group.max.size: '1.5' is not a whole number"),
        ("log.cleaner.min.cleanable.ratio=2", "'2' is not a number from 0.0 to 1.0"),
        ("log.cleaner.min.cleanable.ratio=nan", "'nan' is not a number from 0.0 to 1.0"),
        ("log.cleaner.enable=1", "log.cleaner.enable: '1' is not true or false"),
        ("offset.topic.num.partitions=5", "did you mean offsets.topic.num.partitions"),
        ("group.min.session.timeout.ms=2000000", "is larger than group.max.session.timeout.ms"),
        ("upstream.security.protocol=SASL_SSL", "PLAIN needs upstream.sasl.username and upstream.sasl.password"),
        ("zookeeper.username=shim", "zookeeper.username and zookeeper.password are of use only together"),
        ("zookeeper.set.acl=true", "zookeeper.set.acl needs zookeeper.username"),
        ("offsets.log=topics", "'topics' is not one of local, kafka"),
        ("offsets.log.topics.prefix=", "'' is not 1 to 241 letters"),
        ("offsets.log.topics.prefix=own shim", "'own shim' is not 1 to 241 letters"),
        ("offsets.log.topics.prefix=ölog", "'ölog' is not 1 to 241 letters"),
        (f"offsets.log.topics.prefix={'a' * 242}", "is not 1 to 241 letters"),
        ("offsets.log.topics.prefix=__consumer", "__consumer_offsets is the cluster's own topic"),
        ("offsets.topic.replication.factor=0", "'0' is not a whole number from 1 to 32767"),
        ("offsets.read.lease.ms=10001", "'10001' is not a whole number from 0 to 10000"),
        ("upstream.sasl.mechanism=GSSAPI", "'GSSAPI' is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    ],
)
def test_a_wrong_setting_is_one_line(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message) as refused:
        load_configuration(None, [text])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("prefix", ["a" * 241, "Own.shim-1_log", "."])
def test_what_the_topics_of_the_log_may_be_called(prefix: str) -> None:
    settings = load_configuration(None, [f"offsets.log.topics.prefix={prefix}"]).settings
    assert settings.offsets_log_topics_prefix == prefix


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        load_configuration(tmp_path / "missing.toml", ())
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = 1")
    with pytest.raises(SettingError, match=r"broken\.toml"):
        load_configuration(broken, ())
    typed = tmp_path / "typed.toml"
    typed.write_text("group.max.size = true")
    with pytest.raises(SettingError, match="True is not a whole number"):
        load_configuration(typed, ())


def test_addresses() -> None:
    assert parse_host_port("localhost:9092") == HostPort("localhost", 9092)
    assert parse_host_port("[::1]:9092") == HostPort("::1", 9092)
    assert str(HostPort("::1", 9092)) == "[::1]:9092"
    assert parse_servers("a:1, b:2") == (HostPort("a", 1), HostPort("b", 2))


@pytest.mark.parametrize(
    "text", ["localhost", ":9092", "localhost:", "localhost:0", "localhost:65536", "::1:9092", "h:x"]
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(SettingError):
        parse_host_port(text)


def test_every_setting_is_described() -> None:
    for name in Settings.__dataclass_fields__:
        assert Settings.__dataclass_fields__[name].metadata["doc"].endswith(".")


def test_emptied_segments_of_the_smallest_size_become_one() -> None:
    """Two of them, at least: otherwise they would pile up for good."""
    low = Settings.__dataclass_fields__["offsets_topic_segment_bytes"].metadata["low"]
    emptied = len(rewrite_batch(read_header(encode_batch(0, [(b"key", b"value")], 0)), ()))
    segments = [Segment(Path(f"{at}"), at, at + 1, emptied) for at in range(2)]
    assert group_segments(segments, low, low) == [segments]


@pytest.mark.parametrize("url", ["", "https://example.com/token", "/run/token"])
def test_a_token_is_in_a_file(url: str) -> None:
    oauthbearer = ["upstream.security.protocol=SASL_PLAINTEXT", "upstream.sasl.mechanism=OAUTHBEARER"]
    setting = "upstream.sasl.oauthbearer.token.endpoint.url"
    with pytest.raises(SettingError, match=f"{setting}: '{url}' is not file:/// and the path of a file"):
        load_configuration(None, [*oauthbearer, f"{setting}={url}"])
    assert load_configuration(None, [*oauthbearer, f"{setting}=file:///run/token"]).settings
