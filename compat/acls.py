"""CreateAcls and DeleteAcls v0: names are literal (v1 has patterns: KIP-290). Source: KIP-140, Kafka 3.9.

Their schemas end with v1: newer ones pass through as they are.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from compat.translation import Translation, renumbered
from protocol.api import Api
from protocol.wire import Int8, Int16, Int32, NullableString, String, TaggedFields, since

LITERAL: Final = 3


class AclCreation(NamedTuple):
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Annotated[Int8, since(1)] = LITERAL
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
    tagged: TaggedFields = ()


class CreateAclsRequest(NamedTuple):
    creations: tuple[AclCreation, ...]
    tagged: TaggedFields = ()


class AclCreationResult(NamedTuple):
    error_code: Int16
    error_message: NullableString
    tagged: TaggedFields = ()


class CreateAclsResponse(NamedTuple):
    throttle_time_ms: Int32
    results: tuple[AclCreationResult, ...]
    tagged: TaggedFields = ()


class DeleteAclsFilter(NamedTuple):
    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = LITERAL
    principal_filter: NullableString = None
    host_filter: NullableString = None
    operation: Int8 = 0
    permission_type: Int8 = 0
    tagged: TaggedFields = ()


class DeleteAclsRequest(NamedTuple):
    filters: tuple[DeleteAclsFilter, ...]
    tagged: TaggedFields = ()


class DeleteAclsMatchingAcl(NamedTuple):
    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, since(1)] = LITERAL
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
    tagged: TaggedFields = ()


class DeleteAclsFilterResult(NamedTuple):
    error_code: Int16
    error_message: NullableString
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]
    tagged: TaggedFields = ()


class DeleteAclsResponse(NamedTuple):
    throttle_time_ms: Int32
    filter_results: tuple[DeleteAclsFilterResult, ...]
    tagged: TaggedFields = ()


CREATE_ACLS: Final = Api(
    key=30,
    name="CreateAcls",
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    versions=(0, 1),
    flexible_since=None,
)
DELETE_ACLS: Final = Api(
    key=31,
    name="DeleteAcls",
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    versions=(0, 1),
    flexible_since=None,
)

TRANSLATIONS: Final = (
    Translation(CREATE_ACLS, 0, 0, 1, renumbered),
    Translation(DELETE_ACLS, 0, 0, 1, renumbered),
)
