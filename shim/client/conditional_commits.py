"""Commit an offset if and only if another one is committed now (`protocol.own.conditional_commit`)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from protocol.errors import DecodeError, ErrorCode
from protocol.messages import api_versions, find_coordinator, offset_commit
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.own import conditional_commit
from shim.client.address import address_of
from shim.client.connection import Connection

TopicPartition = tuple[str, int]

_TIMEOUT_SECONDS: Final = 30.0
_FIND_COORDINATOR_VERSION: Final = 1
_API_VERSIONS_VERSION: Final = 3
_NEWEST_OFFSET_COMMIT: Final = 9  # newer ones name topics by id alone

# Answers of a coordinator that may have written the commit all the same: it was on its way to the disk.
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class OffsetSwap(NamedTuple):
    """Set a partition's offset to `offset` if `expected` is committed; -1: if none is; None: whatever is.

    With None it is written if the conditions of all other partitions hold.
    """

    expected: int | None
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class NotAnnounced(Exception):
    """The coordinator does not announce conditional commits: it would commit whatever is committed now. Nothing was
    sent to it.
    """


class CommitRefused(Exception):
    """Nothing was committed. `errors` has Kafka's error code for every partition."""

    def __init__(self, errors: Mapping[TopicPartition, int]) -> None:
        super().__init__(
            ", ".join(f"{topic}-{partition}: {_name(error)}" for (topic, partition), error in errors.items())
        )
        self.errors = dict(errors)


class ConditionFailed(CommitRefused):
    """Another offset than expected is committed for the partitions in `failed`; nothing was committed for any."""

    def __init__(self, errors: Mapping[TopicPartition, int]) -> None:
        super().__init__(errors)
        self.failed = [partition for partition, error in errors.items() if error == conditional_commit.REFUSED]


class OutcomeUnknown(Exception):
    """All of it was committed, or nothing. Fetch the offsets: sent again it would be refused where it had been
    committed.
    """


class ConditionalCommits:
    """Conditional commits of one group. For one thread at a time; `close` it, or use it as a context manager.

    It connects at the first commit, and again after any failure; that the coordinator announces conditional commits is
    made sure of on each connection anew. `connect` gives a connected socket for (host, port): TLS is up to it.

    `bootstrap`: a server of the cluster, as (host, port) or "host:port". Raises ValueError for what is neither.
    """

    def __init__(
        self,
        bootstrap: tuple[str, int] | str,
        group_id: str,
        *,
        client_id: str = "offset-shim",
        connect: Callable[[tuple[str, int]], socket.socket] | None = None,
    ) -> None:
        self._bootstrap = address_of(bootstrap)
        self._group_id = group_id
        self._client_id = client_id
        self._connect = connect or _connected
        self._coordinator: Connection | None = None
        self._version = 0

    def commit(
        self,
        swaps: Mapping[TopicPartition, OffsetSwap],
        *,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        """Commit all of these offsets, durably, or none: by (topic, partition).

        A group with members takes commits of its members only: `generation_id`, `member_id` and `group_instance_id`
        are what a consumer knows of itself.

        Raises ConditionFailed and CommitRefused, NotAnnounced, OutcomeUnknown; OSError where no coordinator could be
        reached, or it made no sense, and nothing was sent; :class:`protocol.errors.EncodeError` for what is no commit.
        """
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), swap in swaps.items():
            partition = OffsetCommitRequestPartition(
                index, swap.offset, swap.leader_epoch, committed_metadata=swap.metadata
            )
            if swap.expected is not None:
                partition = conditional_commit.expecting(partition, swap.expected)
            topics.setdefault(topic, []).append(partition)
        request = OffsetCommitRequest(
            self._group_id,
            generation_id,
            member_id,
            group_instance_id,
            topics=tuple(OffsetCommitRequestTopic(name, partitions=tuple(found)) for name, found in topics.items()),
        )
        offset_commit.API.encode_request(conditional_commit.FIRST_VERSION, request)  # before anything is sent
        coordinator = self._connected()
        try:
            response = coordinator.ask(offset_commit.API, self._version, request)
        except (OSError, DecodeError) as error:
            self.close()
            raise OutcomeUnknown(f"no answer to the commit: {error}") from error
        except BaseException:
            self.close()
            raise
        self._judge(
            {(topic.name, p.partition_index): p.error_code for topic in response.topics for p in topic.partitions}
        )

    def _judge(self, errors: Mapping[TopicPartition, int]) -> None:
        codes = set(errors.values())
        if codes <= {ErrorCode.NONE}:
            return
        if unknown := codes & _UNKNOWN:
            self.close()
            raise OutcomeUnknown(f"the coordinator answered {', '.join(map(_name, unknown))}")
        raise (ConditionFailed if conditional_commit.REFUSED in codes else CommitRefused)(errors)

    def _connected(self) -> Connection:
        if self._coordinator is None:
            connection = Connection(self._connect(self._find_coordinator()), self._client_id)
            try:
                self._version = _commit_version(connection)
            except DecodeError as error:
                connection.close()
                raise ConnectionError(f"what the coordinator answers is not Kafka's: {error}") from error
            except BaseException:
                connection.close()
                raise
            self._coordinator = connection
        return self._coordinator

    def _find_coordinator(self) -> tuple[str, int]:
        connection = Connection(self._connect(self._bootstrap), self._client_id)
        try:
            found = connection.ask(
                find_coordinator.API, _FIND_COORDINATOR_VERSION, FindCoordinatorRequest(self._group_id)
            )
        except DecodeError as error:
            raise ConnectionError(f"what the bootstrap server answers is not Kafka's: {error}") from error
        finally:
            connection.close()
        if found.error_code != ErrorCode.NONE:
            raise ConnectionError(f"no coordinator for group {self._group_id!r}: {_name(found.error_code)}")
        return found.host, found.port

    def close(self) -> None:
        """Nothing happens where it is closed already. Another commit connects again."""
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _commit_version(connection: Connection) -> int:
    """The version of OffsetCommit to send. Raises NotAnnounced."""
    answered = connection.ask(api_versions.API, _API_VERSIONS_VERSION, ApiVersionsRequest("offset-shim", "1"))
    if answered.error_code == ErrorCode.NONE and conditional_commit.announced(answered):
        for offered in answered.api_keys:
            version = min(offered.max_version, _NEWEST_OFFSET_COMMIT)
            first = max(offered.min_version, conditional_commit.FIRST_VERSION)
            if offered.api_key == offset_commit.API.key and first <= version:
                return version
    raise NotAnnounced(f"{conditional_commit.FEATURE.name} is not among the supported features of the coordinator")


def _connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, _TIMEOUT_SECONDS)


def _name(error: int) -> str:
    return f"{ErrorCode.for_code(error).name} ({error})"
