"""OffsetCommit: READ on the group and on each topic. TxnOffsetCommit: WRITE on the transactional id, then the same.
OffsetDelete: DELETE on the group, READ on each topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from protocol.commit_rows import AllCommitted
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from protocol.own.conditional_commit import NOT_ATTEMPTED, is_conditional
from shim.api import offset_commit, offset_delete, txn_offset_commit
from shim.api.authorization import AnyCall, Granted, Policy, commit_needs, topic_needs
from shim.api.known_topics import merged
from shim.api.policies.refusals import (
    NO_TOPIC,
    admit_to_group,
    divided,
    in_a_brokers_order,
)
from shim.security.rights import Need, Right


def _admit_commit(call: AnyCall, granted: Granted) -> bool:
    if not admit_to_group(Right.READ_GROUP, call, granted):
        return False
    allowed, refused_topics = divided(Right.READ_TOPIC, call.request.topics, granted)
    refused = offset_commit.all_refused(refused_topics, NO_TOPIC)
    if refused and is_conditional(call.request):  # all of it, or nothing
        refused, allowed = merged(refused, offset_commit.all_refused(allowed, NOT_ATTEMPTED)), ()
    if not refused:
        return True
    if not allowed:
        call.answer(OffsetCommitResponse(topics=refused))
        return False
    names = [topic.name for topic in call.request.topics]
    call.request = call.request._replace(topics=allowed)
    call.amend(partial(_with_refused_commits, names, refused))
    return True


def _with_refused_commits(
    names: Sequence[str], refused: tuple[Any, ...], response: OffsetCommitResponse | AllCommitted
) -> OffsetCommitResponse:
    decided = response.response() if isinstance(response, AllCommitted) else response
    return decided._replace(topics=in_a_brokers_order(names, refused, decided.topics))


def _txn_needs(call: AnyCall) -> list[Need]:
    return [Need(Right.WRITE_TRANSACTIONAL_ID, call.request.transactional_id), *commit_needs(call.request)]


def _admit_txn(call: AnyCall, granted: Granted) -> bool:
    if Need(Right.WRITE_TRANSACTIONAL_ID, call.request.transactional_id) not in granted:
        call.fail(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return False
    if not admit_to_group(Right.READ_GROUP, call, granted):
        return False
    allowed, refused_topics = divided(Right.READ_TOPIC, call.request.topics, granted)
    if not refused_topics:
        return True
    names = [topic.name for topic in call.request.topics]
    refused = txn_offset_commit.all_refused(refused_topics, NO_TOPIC)
    if not allowed:
        call.answer(TxnOffsetCommitResponse(throttle_time_ms=0, topics=refused))
        return False
    call.request = call.request._replace(topics=allowed)
    call.amend(lambda response: response._replace(topics=in_a_brokers_order(names, refused, response.topics)))
    return True


def _delete_needs(call: AnyCall) -> list[Need]:
    return [Need(Right.DELETE_GROUP, call.request.group_id), *topic_needs(Right.READ_TOPIC, call.request.topics)]


def _admit_delete(call: AnyCall, granted: Granted) -> bool:
    if not admit_to_group(Right.DELETE_GROUP, call, granted):
        return False
    allowed, refused_topics = divided(Right.READ_TOPIC, call.request.topics, granted)
    if refused_topics:
        names = [topic.name for topic in call.request.topics]
        refused = offset_delete.all_refused(refused_topics, NO_TOPIC)
        call.request = call.request._replace(topics=allowed)
        call.amend(partial(_with_refused_deletes, names, refused))
    return True


def _with_refused_deletes(
    names: Sequence[str], refused: Sequence[Any], response: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    """With an error of the request nothing is said of its topics."""
    if response.error_code:
        return response
    return response._replace(topics=in_a_brokers_order(names, refused, response.topics))


OFFSET_COMMIT: Final = Policy(lambda call: commit_needs(call.request), _admit_commit)
TXN_OFFSET_COMMIT: Final = Policy(_txn_needs, _admit_txn)
OFFSET_DELETE: Final = Policy(_delete_needs, _admit_delete)
