"""Plain commits that follow one another in what a client has sent, decided as one.

What each of them has to pass, rights, owner and hands, is asked once for all.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.commit_rows import API, AllCommitted
from protocol.commits_in_a_row import CommitsInARow, commits_in_a_row
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitResponse
from shim.api.authorization import commit_needs, may_at_once
from shim.api.call import Connection, OrderedConnection, Services
from shim.api.counting import count_answer
from shim.api.known_topics import are_known
from shim.api.offset_commit import all_refused, codes
from shim.api.owners import forwarded_in_a_row
from shim.coordinator import Caller
from shim.migration.hands.placements import Whose


def several(services: Services, connection: OrderedConnection, data: bytes, position: int, most: int) -> int:
    """Plain commits that a client has sent one after another are one to the coordinator, and to the log: nobody can
    tell, as all of them are decided before anything else. What is done once for a request is most of the work of one.
    """
    commits = commits_in_a_row(data, position, most)
    if commits is None:
        return position
    version, client_id, request = commits[:3]
    count, peer = len(commits.correlation_ids), services.owner_elsewhere(request.group_id)
    if not services.authorizer.absent and not may_at_once(services, connection, commit_needs(request)):
        return position
    if peer is not None:
        connection.pause_requests()
        ticket = _InARow(commits, connection, connection.place(count))
        connection.follow(forwarded_in_a_row(services, connection, peer, data[position : commits.end], ticket))
        return commits.end
    if services.placements.of(request.group_id) is not Whose.SERVED or not are_known(services.topics, request.topics):
        return position
    caller = Caller(client_id or "", connection.client_host, connection.principal)
    services.runtime.submit(
        services.runtime.partition_of(request.group_id),
        lambda coordinator, now, asker: coordinator.offset_commit(now, caller, version, request, asker),
        _InARow(commits, connection, connection.place(count)),
    )
    return commits.end


class _InARow:
    """The ticket of commits that are decided as one."""

    __slots__ = ("_commits", "_connection", "_respond")

    def __init__(self, commits: CommitsInARow, connection: Connection, respond: Callable[[bytes], None]) -> None:
        self._commits = commits
        self._connection = connection
        self._respond = respond

    def answer_frames(self, frames: bytes) -> None:
        """With the responses to all of them, as they are."""
        self._respond(frames)

    def answer(self, response: OffsetCommitResponse | AllCommitted) -> None:
        count_answer(self._connection.counts, API.key, codes, response, len(self._commits.correlation_ids))
        if isinstance(response, AllCommitted):
            self._respond(self._commits.all_committed())
        else:
            self._respond(self._commits.answered(response))

    def fail(self, error: ErrorCode) -> None:
        self.answer(OffsetCommitResponse(topics=all_refused(self._commits.request.topics, error)))
        if error is ErrorCode.NOT_COORDINATOR:
            self._connection.misled()
