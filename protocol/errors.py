"""What can go wrong: the two exceptions of this package, and Kafka's error codes.

Source of numbers, names and retriability: Kafka 4.3 (`org.apache.kafka.common.protocol.Errors`). The sentences are
ours.
"""

from enum import IntEnum


class DecodeError(ValueError):
    """Bytes that are not what they should be.

    `reason` says what is wrong, `position` is the offset into the buffer where it was seen, and `path` names the
    field (`OffsetCommitRequest.topics[2].name`).
    """

    def __init__(self, reason: str, position: int, path: str) -> None:
        super().__init__(reason, position, path)
        self.reason = reason
        self.position = position
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} at byte {self.position}"


class EncodeError(ValueError):
    """A message that the wanted version cannot carry, or whose values do not fit. `path` names the field."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class UnsupportedVersion(ValueError):
    """A version of an API that this package has no schema for."""


class ErrorCode(IntEnum):
    """An error code of the Kafka protocol, by Kafka's name for it.

    `ErrorCode(number)` raises ValueError for a number that is none of these; `ErrorCode.for_code` does not.

    `retriable`: the same request may succeed later, without anything else being done about it.
    `message`: one sentence for people.
    """

    retriable: bool
    message: str

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    @classmethod
    def for_code(cls, code: int) -> "ErrorCode":
        """The error of this number; UNKNOWN_SERVER_ERROR for one that newer servers have, as Kafka's clients take it.

        Never raises. Responses are decoded with the number as it came, which still says what this no longer does.
        """
        return cls._value2member_map_.get(code, cls.UNKNOWN_SERVER_ERROR)  # type: ignore[return-value]

    @classmethod
    def name_of(cls, code: int) -> str:
        """Kafka's name for it, for people; the number of one that newer servers have. Never raises."""
        return cls(code).name if code in cls._value2member_map_ else str(code)

    UNKNOWN_SERVER_ERROR = -1, "Something unforeseen went wrong in the server."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The log holds no record at this offset."
    CORRUPT_MESSAGE = (
        2,
        "The record batch is damaged: wrong checksum or size, or no key where the topic is compacted.",
        True,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker has no such topic or partition.", True
    INVALID_FETCH_SIZE = 4, "The fetch size asked for makes no sense."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", True
    NOT_LEADER_OR_FOLLOWER = 6, "This broker does not lead, or does not hold, the partition.", True
    REQUEST_TIMED_OUT = 7, "The request was not done in time.", True
    BROKER_NOT_AVAILABLE = 8, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, "The replica of the partition is not there at the moment.", True
    MESSAGE_TOO_LARGE = 10, "The record batch is larger than the broker takes."
    STALE_CONTROLLER_EPOCH = 11, "Another controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata string of the offset is longer than offset.metadata.max.bytes."
    NETWORK_EXCEPTION = 13, "The connection closed before the answer came.", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still reading its log.", True
    COORDINATOR_NOT_AVAILABLE = 15, "There is no coordinator at the moment.", True
    NOT_COORDINATOR = 16, "This broker does not coordinate the group or transaction.", True
    INVALID_TOPIC_EXCEPTION = 17, "The topic's name is illegal, or the topic may not be used so."
    RECORD_LIST_TOO_LARGE = 18, "The record batches together exceed the segment size."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than the topic demands, so nothing was written.", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "Written, but to fewer replicas than the topic demands.", True
    INVALID_REQUIRED_ACKS = 21, "The acks of the produce request are none of -1, 0 and 1."
    ILLEGAL_GENERATION = 22, "The generation is not the group's present one."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member's protocol type or protocols do not go with the group's."
    INVALID_GROUP_ID = 24, "No group can have this id."
    UNKNOWN_MEMBER_ID = 25, "The group has no such member."
    INVALID_SESSION_TIMEOUT = (
        26,
        "The session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms.",
    )
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The commit is too large to be written."
    TOPIC_AUTHORIZATION_FAILED = 29, "Not allowed on this topic."
    GROUP_AUTHORIZATION_FAILED = 30, "Not allowed on this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not allowed on this cluster."
    INVALID_TIMESTAMP = 32, "The record's timestamp is too far from now."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, "The server does not have this version of the API."
    TOPIC_ALREADY_EXISTS = 36, "There is a topic of this name already."
    INVALID_PARTITIONS = 37, "A topic cannot have this number of partitions."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below 1 or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The replicas named for the partitions cannot be assigned so."
    INVALID_CONFIG = 40, "A setting or its value is wrong."
    NOT_CONTROLLER = 41, "This node is not the controller.", True
    INVALID_REQUEST = 42, "The request is malformed or contradicts itself."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The topic's message format is too old for this."
    POLICY_VIOLATION = 44, "A policy set up in the cluster forbids it."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence number does not follow the last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer's sequence number was seen before."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is outdated."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows it."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not the one assigned to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, "Another operation on the same transaction is under way.", True
    TRANSACTION_COORDINATOR_FENCED = 52, "The markers come from a transaction coordinator that has been replaced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not allowed on this transactional id."
    SECURITY_DISABLED = 54, "Security is not set up on this cluster."
    OPERATION_NOT_ATTEMPTED = 55, "Left undone, as another part of the same request failed."
    KAFKA_STORAGE_ERROR = 56, "The broker could not read or write its disk.", True
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The SASL credentials were refused."
    UNKNOWN_PRODUCER_ID = 59, "The broker knows nothing of this producer id any more."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned already."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to another principal."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation tokens cannot be asked for over this kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not allowed on this delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "Principals of this type are not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no group with this id."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker has no such fetch session.", True
    INVALID_FETCH_SESSION_EPOCH = 71, "The epoch does not follow the fetch session's last one.", True
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the kind the request came through.", True
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, "The leader epoch is older than the broker's.", True
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch is newer than the broker's.", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client's version cannot read the compression of this partition."
    STALE_BROKER_EPOCH = 77, "The broker has registered anew since."
    OFFSET_NOT_AVAILABLE = 78, "The new leader cannot vouch for this offset yet.", True
    MEMBER_ID_REQUIRED = 79, "The member has to join again with the member id it was just given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not there at the moment.", True
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as group.max.size allows."
    FENCED_INSTANCE_ID = 82, "Another member has taken over this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica that could lead is there at the moment.", True
    ELECTION_NOT_NEEDED = 84, "The partition has the wanted leader already.", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No reassignment of this partition is under way."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is subscribed to the topic, so its offsets cannot be deleted."
    INVALID_RECORD = 87, "The broker's checks refused the record."
    UNSTABLE_OFFSET_COMMIT = 88, "A transaction that commits this offset is still open.", True
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up for the moment.", True
    PRODUCER_FENCED = 90, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, "The request names a resource that is not there."
    DUPLICATE_RESOURCE = 92, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential is too weak or otherwise not acceptable."
    INCONSISTENT_VOTER_SET = 94, "Sender or receiver is not one of the voters expected."
    INVALID_UPDATE_VERSION = 95, "The version of the update is wrong."
    FEATURE_UPDATE_FAILED = 96, "The finalized features could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker has no topic with this id.", True
    DUPLICATE_BROKER_REGISTRATION = 101, "A broker with this id is registered already."
    BROKER_ID_NOT_REGISTERED = 102, "No broker with this id is registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic id is not the one the log was made with.", True
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes requests with and without topic ids.", True
    INELIGIBLE_REPLICA = 107, "A replica named may not be in the in-sync set."
    NEW_LEADER_ELECTED = 108, "The in-sync set was changed, and with it the leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset now lies in tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member epoch is outdated; the member has to give up its partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "Another member still holds this group.instance.id."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, "The member epoch is behind; the next heartbeat brings the new one."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "Endpoints of this kind are not supported."
    UNKNOWN_CONTROLLER_ID = 116, "There is no controller with this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is outdated or was never made."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker takes."
    INVALID_REGISTRATION = 119, "The controller refused the broker's registration."
    TRANSACTION_ABORTABLE = 120, "The transaction failed; aborting it lets the producer go on."
    INVALID_RECORD_STATE = 121, "The record is not in a state that can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, "The broker has no such share session.", True
    INVALID_SHARE_SESSION_EPOCH = 123, "The epoch does not follow the share session's last one.", True
    FENCED_STATE_EPOCH = 124, "The state epoch of the share group is outdated."
    INVALID_VOTER_KEY = 125, "The voter key is not that of the node that was asked."
    DUPLICATE_VOTER = 126, "The node is a voter already."
    VOTER_NOT_FOUND = 127, "The node is not a voter."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression cannot be read."
    REBOOTSTRAP_REQUIRED = (
        129,
        "The client's view of the cluster is outdated; it has to start from its bootstrap servers.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, "The streams topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the streams topology is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, "The epoch of the streams topology is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker has as many share sessions as it takes.", True
