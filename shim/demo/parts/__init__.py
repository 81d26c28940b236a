"""Real Kafka brokers, clusters, ZooKeeper and Kafka's Java tools, started from jars that Maven fetches into a cache.

Standard library only, and nothing else of this project: what is tested against these parts has no hand in them.
Every process started here dies with the process that started it, even when that one is killed with SIGKILL (Linux).
"""

from shim.demo.parts.broker import Broker, Cluster
from shim.demo.parts.cache import PartsUnavailable, cache_folder
from shim.demo.parts.jars import JarSet, jar_set
from shim.demo.parts.ports import free_port, free_port_range
from shim.demo.parts.process import StartFailed
from shim.demo.parts.tools import ToolFailed, java_tool
from shim.demo.parts.zookeeper import ZooKeeper

__all__ = [
    "Broker",
    "Cluster",
    "JarSet",
    "PartsUnavailable",
    "StartFailed",
    "ToolFailed",
    "ZooKeeper",
    "cache_folder",
    "free_port",
    "free_port_range",
    "jar_set",
    "java_tool",
]
