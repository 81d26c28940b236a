"""The table of all metrics. docs/metrics.md shows it, and a test holds the two together."""

from __future__ import annotations

from typing import Final

from shim.metrics.model import Kind, Metric

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

REQUESTS: Final = Metric(
    "requests",
    _COUNTER,
    "Requests of clients, by what the shim does with that version of that API: `forwarded` (passed on to the broker as "
    "it is), `rewritten` in its answer, `translated` for a broker that has dropped it, `served` (also where it is "
    "passed on because the cluster has the group for now), `refused`, or `authenticates` at the broker.",
    ("api", "version", "treatment"),
)
ERRORS: Final = Metric(
    "request_errors", _COUNTER, "The shim's own answers with this error in them, once each.", ("api", "error")
)
MALFORMED: Final = Metric(
    "malformed_requests", _COUNTER, "Connections closed for what came on them: no request, or none that is known."
)
LATENCY: Final = Metric(
    "request_latency_seconds",
    _HISTOGRAM,
    "From the last byte of a request that the shim answers itself to its answer; of JoinGroup and SyncGroup that is as "
    "long as a rebalance.",
    ("api",),
)
OFFSETS_COMMITTED: Final = Metric(
    "offsets_committed", _COUNTER, "Offsets in answered OffsetCommit requests; each is durable in the log."
)
FORWARDING_FAILED: Final = Metric(
    "forwarding_failures",
    _COUNTER,
    "Requests that another shim, or worker, was to answer, and has not: it was `unreachable`, or `silent` for some "
    "seconds, the connection was `lost`, it did not read (`congested`), it `refused`, what it answered was something "
    "else (`misanswered`), or the request was too large for it (`unsendable`). Those that came together count once.",
    ("reason",),
)
FLUSH_RECORDS: Final = Metric(
    "log_flush_records", _HISTOGRAM, "Records of the offsets log that became durable together, by flush."
)
FLUSH_SECONDS: Final = Metric(
    "log_flush_latency_seconds", _HISTOGRAM, "How long a write of the log took, its flush included."
)
FLUSH_FAILED: Final = Metric(
    "log_write_failures", _COUNTER, "Writes of a partition that failed; it is read back before it serves again."
)
LOG_BYTES: Final = Metric("log_size_bytes", _GAUGE, "Bytes of the offsets log on disk, snapshots and indexes included.")
COMPACTIONS: Final = Metric("log_compactions", _COUNTER, "Rounds of compaction, each of one partition.")
COMPACTION_SECONDS: Final = Metric("log_compaction_seconds", _COUNTER, "How long these took, pauses included.")
COMPACTION_RECORDS: Final = Metric(
    "log_compaction_records", _COUNTER, "Records before (`read`) and after (`written`) compaction.", ("direction",)
)
COMPACTION_BYTES: Final = Metric(
    "log_compaction_bytes",
    _COUNTER,
    "Bytes that compaction has `read`, what was never compacted before twice, and `written`.",
    ("direction",),
)
PARTITIONS: Final = Metric(
    "partitions",
    _GAUGE,
    "Partitions of the offsets log: `loaded` (and served once the start is over), `loading`, or `unavailable`.",
    ("state",),
)
STANDBYS: Final = Metric(
    "standby_partitions",
    _GAUGE,
    "Partitions that other shims own and this one follows, with the log on topics: to their end (`current`), or not "
    "yet (`behind`).",
    ("state",),
)
TAKEOVERS: Final = Metric(
    "takeovers",
    _COUNTER,
    "Partitions that were taken over, with the log on topics: which this one had followed (`standby`), had a "
    "`snapshot` of, or read from the `beginning`.",
    ("from",),
)
TAKEOVER_RECORDS: Final = Metric(
    "takeover_records", _COUNTER, "Records that were read then, before these could be served.", ("from",)
)
TOPIC_COMPLAINTS: Final = Metric(
    "log_topic_complaints",
    _GAUGE,
    "Settings of the topics that the log is on which may lose what is committed, as they were found last.",
)
OFFSETS: Final = Metric("offsets", _GAUGE, "Committed offsets in the log, of all groups.")
GROUPS: Final = Metric("groups", _GAUGE, "Groups that the shim coordinates, by their state.", ("state",))
MEMBERS: Final = Metric("group_members", _GAUGE, "Members of all these groups.")
GROUP_BYTES: Final = Metric(
    "group_memory_bytes", _GAUGE, "What groups and members take of group.memory.max.bytes, as that counts."
)
REBALANCES: Final = Metric("rebalances", _COUNTER, "New generations of groups that the shim coordinates.")
REBALANCE_SECONDS: Final = Metric(
    "group_rebalance_seconds",
    _GAUGE,
    "For how long the group rebalances that does so for longest: until all members have their assignments. 0: none.",
)
LAG: Final = Metric(
    "group_lag",
    _GAUGE,
    "Records behind the committed offset, by the log end offset that the brokers gave last; of as many partitions as "
    "metrics.lag.max.series says.",
    ("group", "topic", "partition"),
)
LAG_LEFT_OUT: Final = Metric(
    "group_lag_left_out", _GAUGE, "Committed offsets without a `group_lag`, beyond metrics.lag.max.series."
)
LAG_UNKNOWN: Final = Metric(
    "group_lag_unknown", _GAUGE, "Committed offsets of which the brokers have not told where the partition ends."
)
LAG_AGE: Final = Metric("group_lag_age_seconds", _GAUGE, "Since when the brokers were last asked for it.")
CONNECTIONS: Final = Metric("connections", _GAUGE, "Client connections that are open.")
CONNECTIONS_CREATED: Final = Metric("connections_created", _COUNTER, "Client connections that were accepted.")
CONNECTIONS_REFUSED: Final = Metric(
    "connections_refused", _COUNTER, "Client connections closed at once, for max.connections.per.ip."
)
CLIENT_BYTES: Final = Metric(
    "client_bytes", _COUNTER, "Bytes from clients (`in`) and to them (`out`), without TLS's own.", ("direction",)
)
BROKER_BYTES: Final = Metric(
    "broker_bytes",
    _COUNTER,
    "Bytes from brokers (`in`) and to them (`out`) on clients' connections, without TLS's own.",
    ("direction",),
)
SOFTWARE: Final = Metric(
    "client_software_connections",
    _COUNTER,
    "Connections by what their client has said that it is (ApiVersions v3 and newer); `other` beyond 200 kinds.",
    ("software", "version"),
)
OLDEST: Final = Metric(
    "unnamed_client_oldest_version",
    _GAUGE,
    "The lowest version of that API that a client has used without saying what it is.",
    ("api",),
)
NEWEST: Final = Metric("unnamed_client_newest_version", _GAUGE, "Likewise, the highest.", ("api",))
UPSTREAM_REACHABLE: Final = Metric(
    "upstream_reachable", _GAUGE, "1 where the last look at the cluster was answered, otherwise 0."
)
UPSTREAM_BROKERS: Final = Metric("upstream_brokers", _GAUGE, "Brokers of the cluster, by the last answer.")
STEPS: Final = Metric(
    "migration_groups",
    _GAUGE,
    "Groups by in whose `hands` they are (served, passed_through) and at which step: `zookeeper`, `zookeeper+dual`, "
    "`kafka+dual`, `kafka`, `upstream+dual`, `upstream`. Groups that were deleted since count, too.",
    ("hands", "step"),
)
STORE_GROUPS: Final = Metric(
    "store_lagging_groups",
    _GAUGE,
    "Groups with changes that another place is yet to have: `zookeeper`, or the cluster's own offsets (`upstream`).",
    ("store",),
)
STORE_LAG: Final = Metric("store_lag_seconds", _GAUGE, "For how long the oldest of these waits.", ("store",))
ALARMED: Final = Metric(
    "alarmed_groups",
    _GAUGE,
    "Groups with an `alarm`: of `members` in the cluster, past the shim; of `commits` there, past the shim; of other "
    "offsets there that are `kept`.",
    ("alarm",),
)
ZOOKEEPER_SESSION: Final = Metric(
    "zookeeper_session", _GAUGE, "1 where there is a session with ZooKeeper, 0 where not; none without --zookeeper."
)
LOOP_DELAY: Final = Metric(
    "event_loop_delay_seconds", _HISTOGRAM, "How late the event loop came to a timer, looked at four times a second."
)
READY: Final = Metric("ready", _GAUGE, "1 where /readyz answers 200, otherwise 0.")
WORKER_ANSWERS: Final = Metric(
    "worker_answers",
    _GAUGE,
    "1 where that one of --workers has answered, otherwise 0: then counters have what it told last, gauges nothing.",
    ("worker",),
)
STATSD_DATAGRAMS: Final = Metric("statsd_datagrams", _COUNTER, "StatsD datagrams handed to the system.")
STATSD_DROPPED: Final = Metric(
    "statsd_datagrams_dropped", _COUNTER, "StatsD datagrams given up: nobody listens, or they are too many."
)
START_TIME: Final = Metric("process_start_time_seconds", _GAUGE, "When the process began, in seconds since the epoch.")
BUILD: Final = Metric("build_info", _GAUGE, "1; what runs.", ("version", "python"))

ALL: Final = (
    *(REQUESTS, ERRORS, MALFORMED, LATENCY, OFFSETS_COMMITTED, FORWARDING_FAILED),
    *(FLUSH_RECORDS, FLUSH_SECONDS, FLUSH_FAILED, LOG_BYTES),
    *(COMPACTIONS, COMPACTION_SECONDS, COMPACTION_RECORDS, COMPACTION_BYTES),
    *(
        PARTITIONS,
        STANDBYS,
        TAKEOVERS,
        TAKEOVER_RECORDS,
        TOPIC_COMPLAINTS,
        OFFSETS,
        GROUPS,
        MEMBERS,
        GROUP_BYTES,
        REBALANCES,
        REBALANCE_SECONDS,
    ),
    *(LAG, LAG_LEFT_OUT, LAG_UNKNOWN, LAG_AGE),
    *(CONNECTIONS, CONNECTIONS_CREATED, CONNECTIONS_REFUSED, CLIENT_BYTES, BROKER_BYTES, SOFTWARE, OLDEST, NEWEST),
    *(UPSTREAM_REACHABLE, UPSTREAM_BROKERS, STEPS, STORE_GROUPS, STORE_LAG, ALARMED, ZOOKEEPER_SESSION),
    *(LOOP_DELAY, READY, WORKER_ANSWERS, STATSD_DATAGRAMS, STATSD_DROPPED, START_TIME, BUILD),
)
"""In the order in which they are shown."""
