"""Every setting, by its Kafka name: the only place where one is named."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from shim.config.addresses import INT32_MAX, INT64_MAX
from shim.config.agreement import (
    check_connections_per_ip,
    check_credentials,
    check_session_timeouts,
    check_statsd_address,
    check_topics_prefix,
    check_zookeeper_user,
)
from shim.config.kinds import boolean, choice, integer, number, secret, text

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's names for what is spoken on a connection."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
"""How much a line of the log matters, least first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of ``serve``. Times are in milliseconds. An attribute is the setting's name with the dots turned
    into underscores. Raises :class:`SettingError` for values that do not go together.
    """

    bootstrap_servers: str = text("", "Brokers of the cluster behind the shim: `host:port`, with commas between.")
    listen: str = text("", "Where clients bootstrap, `host:port`; the broker with node id i is at port + 1 + i.")
    advertised_host: str = text("", "The host that clients are told; empty: the one of `listen`.")
    data_dir: str = text("", "Folder of the log.")
    admin_listen: str = text("", "`host:port` of the admin interface; empty: there is none.")
    zookeeper_connect: str = text("", "Where old consumers have their offsets: `host:port[,host:port][/chroot]`.")
    registrar_enable: bool = boolean(
        False, "Whether consumers of 0.8 to 1.1 find brokers and topics in `zookeeper.connect`."
    )
    workers: int = integer(1, 1, 64, "Processes that share the ports and the partitions of the offsets log.")
    process_realtime_enable: bool = boolean(
        False,
        "Whether threads of the shim come before all that is not in real time (`SCHED_RR`), where that is allowed.",
    )
    offsets_log: str = choice(
        "local",
        ("local", "kafka", "moving"),
        "Where the offsets log is: in `data.dir`, or on topics of the cluster; `moving`: each partition in either.",
    )
    offsets_log_topics_prefix: str = text("__offset_shim", "How the names of these topics begin.")
    offsets_topic_replication_factor: int = integer(3, 1, 32_767, "Replicas that these topics are made with.")
    offsets_read_lease_ms: int = integer(
        1000, 0, 10_000, "How long after a write to these topics offsets are told without another one; 0: never."
    )
    standby_replicas: int = integer(
        1, 0, 1, "How many other shims follow each partition of these topics, so that they have it soon."
    )
    offsets_topic_num_partitions: int = integer(50, 1, 100_000, "Partitions of the offsets log; fixed once written.")
    # An emptied segment is 61 bytes: two of them at least must fit into one, or compaction never merges them.
    offsets_topic_segment_bytes: int = integer(104_857_600, 1024, INT32_MAX, "Bytes at which a log segment is closed.")
    log_roll_ms: int = integer(604_800_000, 1, INT64_MAX, "Age at which a log segment is closed.")
    log_flush_interval_messages: int = integer(1, 1, INT64_MAX, "Most unflushed records of a partition.")
    log_flush_interval_ms: int = integer(INT64_MAX, 1, INT64_MAX, "Longest that a record stays unflushed.")
    log_flush_offset_checkpoint_interval_ms: int = integer(60_000, 1, INT32_MAX, "How often flushed offsets are noted.")
    log_cleaner_enable: bool = boolean(True, "Whether the offsets log is compacted while the shim runs.")
    log_cleaner_backoff_ms: int = integer(
        15_000, 0, INT64_MAX, "Pause of the cleaner when nothing is to be cleaned.", reloadable=True
    )
    log_cleaner_min_cleanable_ratio: float = number(
        0.5, 0.0, 1.0, "Share of a log that is dirty when it is cleaned.", reloadable=True
    )
    log_cleaner_delete_retention_ms: int = integer(
        86_400_000, 0, INT64_MAX, "How long tombstones stay after they were first cleaned.", reloadable=True
    )
    log_cleaner_dedupe_buffer_size: int = integer(
        134_217_728, 1, INT64_MAX, "Memory in bytes for the keys of one round of cleaning.", reloadable=True
    )
    log_cleaner_io_max_bytes_per_second: float = number(
        sys.float_info.max,
        1.0,
        sys.float_info.max,
        "Most bytes a second that the cleaner reads and writes.",
        reloadable=True,
    )
    offset_metadata_max_bytes: int = integer(
        4096, 0, INT32_MAX, "Longest metadata string of a commit (UTF-16 units).", reloadable=True
    )
    offsets_commit_timeout_ms: int = integer(5000, 1, INT32_MAX, "Longest wait for a commit to become durable.")
    offsets_retention_minutes: int = integer(
        10_080, 1, INT32_MAX, "How long offsets stay when nobody uses them.", reloadable=True
    )
    offsets_retention_check_interval_ms: int = integer(
        600_000, 1, INT64_MAX, "How often old offsets are looked for.", reloadable=True
    )
    offsets_history_retention_minutes: int = integer(
        10_080, 0, INT32_MAX, "How long every commit is kept in the history; 0: there is none."
    )
    offsets_mirror_upstream: bool = boolean(
        True, "Whether the cluster's own offsets of groups that the shim serves are kept as they are in the log."
    )
    group_min_session_timeout_ms: int = integer(
        6000, 1, INT32_MAX, "Shortest session time-out a member may ask for.", reloadable=True
    )
    group_max_session_timeout_ms: int = integer(
        1_800_000, 1, INT32_MAX, "Longest session time-out a member may have.", reloadable=True
    )
    group_new_served: bool = boolean(
        True,
        "Whether the shim serves a group that neither it nor the cluster knows; otherwise it is passed through.",
        reloadable=True,
    )
    group_handover_timeout_ms: int = integer(
        60_000, 1, INT32_MAX, "How long the members of a group that changes hands have to join again."
    )
    group_initial_rebalance_delay_ms: int = integer(
        3000, 0, INT32_MAX, "Wait for more members of an empty group.", reloadable=True
    )
    group_max_size: int = integer(INT32_MAX, 1, INT32_MAX, "Most members a group may have.", reloadable=True)
    group_memory_max_bytes: int = integer(
        1 << 30, 1 << 20, INT64_MAX, "Most bytes of memory that all groups and members may take."
    )
    socket_request_max_bytes: int = integer(
        104_857_600, 1024, INT32_MAX, "Largest request, in bytes, that a client may send.", reloadable=True
    )
    queued_max_request_bytes: int = integer(
        104_857_600, -1, INT64_MAX, "Room in bytes for the requests that the shim answers itself; -1: no bound."
    )
    max_connections: int = integer(INT32_MAX, 1, INT32_MAX, "Most connections of clients at a time.", reloadable=True)
    max_connections_per_ip: int = integer(INT32_MAX, 0, INT32_MAX, "Most connections of one address.", reloadable=True)
    max_connections_per_ip_overrides: str = text("", "Others for some addresses: host:count[,host:count].")
    max_connection_creation_rate: int = integer(
        INT32_MAX, 1, INT32_MAX, "Most new connections in a second.", reloadable=True
    )
    connections_max_idle_ms: int = integer(
        600_000, 1, INT64_MAX, "When a silent connection is closed.", reloadable=True
    )
    socket_connection_setup_timeout_ms: int = integer(10_000, 1, INT32_MAX, "Longest wait for a broker to connect.")
    upstream_sasl_mechanism: str = choice(
        "PLAIN", ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), "How the shim itself authenticates."
    )
    upstream_sasl_username: str = text("", "Who the shim itself is to the brokers.")
    upstream_sasl_password: str = secret("The password of that user.")
    upstream_sasl_oauthbearer_token_endpoint_url: str = text(
        "", "`file:///` and the path of a file with a token; read for each connection."
    )
    sasl_server_max_receive_size: int = integer(
        524_288, 1, INT32_MAX, "Largest request, in bytes, of a client that has not authenticated."
    )
    request_timeout_ms: int = integer(30_000, 1, INT32_MAX, "Longest wait for a broker's answer to the shim itself.")
    topology_refresh_interval_ms: int = integer(
        5000, 10, INT32_MAX, "How often the cluster's brokers and topics are looked up.", reloadable=True
    )
    zookeeper_session_timeout_ms: int = integer(
        18_000, 1, INT32_MAX, "When ZooKeeper takes a shim that it does not hear of for dead."
    )
    zookeeper_username: str = text("", "Who the shim is to ZooKeeper, in its scheme `digest`; nobody by default.")
    zookeeper_password: str = secret("The password of that user.")
    zookeeper_set_acl: bool = boolean(
        False, "Whether what the shim creates in ZooKeeper is that user's alone; otherwise it is everybody's."
    )
    shims_listener: str = text(
        "", "Where other shims with the same log on topics reach this one, `host:port`; empty: nothing is forwarded."
    )
    shims_principals: str = text("", "Names of certificates, with commas between: who is believed there.")
    listeners: str = text("", "Listeners beside the one of `--listen`: `NAME://host:port`, with commas between.")
    advertised_listeners: str = text("", "What a listener's clients are told: `NAME://host:port`, with commas between.")
    listener_security_protocol_map: str = text("", "What is spoken at each listener: `NAME:SSL`, with commas between.")
    security_protocol: str = choice("", ("", *PROTOCOLS), "What is spoken at `--listen`.")
    ssl_keystore_type: str = choice("PEM", ("PEM",), "Kind of the file in `ssl.keystore.location`.")
    ssl_keystore_location: str = text("", "File with the key and the certificate chain that clients are shown.")
    ssl_key_password: str = secret("Password of that key, if it has one.")
    ssl_truststore_type: str = choice("PEM", ("PEM",), "Kind of the file in `ssl.truststore.location`.")
    ssl_truststore_location: str = text("", "File with the CAs that clients' certificates have to be from.")
    ssl_client_auth: str = choice("none", ("none", "requested", "required"), "Whether clients show a certificate.")
    ssl_enabled_protocols: str = text("TLSv1.2,TLSv1.3", "TLS versions that clients may speak.")
    ssl_cipher_suites: str = text("", "Cipher suites of TLS 1.2 that clients may use; empty: those of OpenSSL.")
    upstream_security_protocol: str = choice("PLAINTEXT", PROTOCOLS, "What is spoken with brokers.")
    upstream_ssl_truststore_type: str = choice(
        "PEM", ("PEM",), "Kind of the file in `upstream.ssl.truststore.location`."
    )
    upstream_ssl_truststore_location: str = text(
        "", "File with the CAs that brokers' certificates have to be from; empty: those of the system."
    )
    upstream_ssl_keystore_type: str = choice("PEM", ("PEM",), "Kind of the file in `upstream.ssl.keystore.location`.")
    upstream_ssl_keystore_location: str = text(
        "", "File with the key and the certificate chain that brokers are shown."
    )
    upstream_ssl_key_password: str = secret("Password of that key, if it has one.")
    upstream_ssl_endpoint_identification_algorithm: str = choice(
        "https", ("", "https"), "Whether a broker's certificate has to be for its host name; empty: it need not."
    )
    metrics_lag_max_series: int = integer(
        5000, 0, INT32_MAX, "Most partitions of groups of which `/metrics` tells the lag; 0: none."
    )
    metrics_lag_interval_ms: int = integer(
        30_000, 1000, INT32_MAX, "How often brokers are asked where partitions end, while somebody wants to know."
    )
    metrics_statsd_address: str = text("", "`host:port` that metrics are sent to as StatsD datagrams; empty: nowhere.")
    metrics_statsd_interval_ms: int = integer(10_000, 100, INT32_MAX, "How often they are sent.")
    metrics_statsd_dialect: str = choice(
        "statsd", ("statsd", "dogstatsd"), "Whether labels are parts of the name or, for DogStatsD, tags."
    )
    admin_token_file: str = text(
        "", "File with the token that requests at `--admin` have to bring; read again when it has changed."
    )
    admin_token_for: str = choice("changes", ("changes", "all"), "Which requests have to bring the token.")
    admin_insecure: bool = boolean(
        False, "Whether `--admin` may be an address that other machines reach, without a token."
    )
    authorization_cache_ms: int = integer(
        10_000,
        0,
        INT32_MAX,
        "How long what a client may do is believed; 0: it is asked for with each request.",
        reloadable=True,
    )
    fault_injection_file: str = text("", "For tests alone: a TOML file of faults.")
    shutdown_drain_timeout_ms: int = integer(
        4000, 0, INT32_MAX, "Longest wait for requests in flight at shutdown.", reloadable=True
    )
    log_level: str = choice("INFO", LEVELS, "What is logged: this, and what matters more.", reloadable=True)
    log_format: str = choice("text", ("text", "json"), "How a line of the log looks.", reloadable=True)
    log_repeat_max_per_minute: int = integer(
        600,
        0,
        INT32_MAX,
        "How often one event is logged in a minute, 30 times at most of one group; others are counted. 0: no bound.",
        reloadable=True,
    )

    def __post_init__(self) -> None:
        check_session_timeouts(self.group_min_session_timeout_ms, self.group_max_session_timeout_ms)
        check_connections_per_ip(self.max_connections_per_ip, self.max_connections_per_ip_overrides)
        if self.brokers_authenticate:
            check_credentials(
                self.upstream_sasl_mechanism,
                self.upstream_sasl_username,
                self.upstream_sasl_password,
                self.upstream_sasl_oauthbearer_token_endpoint_url,
            )
        check_zookeeper_user(self.zookeeper_username, self.zookeeper_password, set_acl=self.zookeeper_set_acl)
        check_statsd_address(self.metrics_statsd_address)
        check_topics_prefix(self.offsets_log_topics_prefix)

    @property
    def brokers_authenticate(self) -> bool:
        """Whether brokers want SASL, of clients and of the shim."""
        return self.upstream_security_protocol.startswith("SASL_")
