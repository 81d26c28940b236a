"""Settings: Kafka's names, Kafka's defaults (but for flushing), and one clear line for whatever is wrong with a value.

They come from a TOML file (``--config``), then from the environment, then from ``--set name=value`` and the options of
``serve``; the later wins.
"""

from shim.config.addresses import (
    INT32_MAX,
    INT64_MAX,
    ConnectString,
    HostPort,
    SettingError,
    check_admin_reach,
    parse_connect_string,
    parse_counts,
    parse_host_port,
    parse_servers,
)
from shim.config.configuration import (
    DEFAULT,
    HIDDEN,
    Configuration,
    Effective,
    load_configuration,
)
from shim.config.names import BY_NAME, OPTIONS, Named, is_per_listener, named
from shim.config.reference import as_markdown, as_text, described, value_shown
from shim.config.settings import PROTOCOLS, Settings

__all__ = [
    "BY_NAME",
    "DEFAULT",
    "HIDDEN",
    "INT32_MAX",
    "INT64_MAX",
    "OPTIONS",
    "PROTOCOLS",
    "Configuration",
    "ConnectString",
    "Effective",
    "HostPort",
    "Named",
    "SettingError",
    "Settings",
    "as_markdown",
    "as_text",
    "check_admin_reach",
    "described",
    "is_per_listener",
    "load_configuration",
    "named",
    "parse_connect_string",
    "parse_counts",
    "parse_host_port",
    "parse_servers",
    "value_shown",
]
