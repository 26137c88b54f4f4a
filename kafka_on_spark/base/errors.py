"""Every error this package raises on purpose, grouped by what the caller should do.

* KafkaOnSparkError
    * ProtocolError: the request is refused; `code` is Kafka's own number for why. Where
      `is_retriable`, refresh the image and try again; where not, the request is wrong.
    * CommitError: a conditional commit did not simply succeed
        * CommitConflictError: certainly not written; refresh, then decide again
        * CommitOutcomeUnknownError: perhaps written; commit the same again, or say "unknown"
    * CorruptLogError: stored bytes break an invariant; stop serving the replica
    * InconsistentClusterError: the metadata contradicts the tables; stop everything
    * IllegalStateError: a voter's state has moved on; refresh it, then decide again
    * ClusterClosedError, ProducerClosedError, ConsumerClosedError: this process has closed it; open
      or make another
    * WakeupError: another thread has ended a consumer's wait

A broken assumption of our own is an ``assert``, not one of these: no caller can handle it.
Codes below 1000 are Kafka's (protocol/Errors.java); from 1000 on they are ours.
"""

from functools import partial
from typing import ClassVar, Final

from kafka_on_spark.base.text import visible


class KafkaOnSparkError(Exception):
    """Base of the hierarchy: a message for people, and `context` for logs and tests."""

    is_retriable: ClassVar[bool] = False

    def __init__(self, message: str, /, **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.context = context

    def __str__(self) -> str:
        details = " ".join(f"{name}={value}" for name, value in sorted(self.context.items()))
        # Python's tracebacks, notebooks and log lines show this text without escaping it.
        return visible(f"{self.message} [{details}]" if details else self.message)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.message, **self.context), ()


class ProtocolError(KafkaOnSparkError):
    """A request is refused.

    A refusal inside a task travels as `code` in the task's result row and becomes an error
    again on the driver, because Spark shows the driver a task's error as text only and runs
    the task again. Source: Kafka's protocol/Errors.java.
    """

    code: ClassVar[int]


class OffsetOutOfRangeError(ProtocolError):
    """The offset is below the log start offset or above the log end offset."""

    code = 1


class HistoryExpiredError(OffsetOutOfRangeError):
    """The metadata log's history there is gone, as metadata.max.retention.ms says."""

    code = 1016


class UnknownTopicOrPartitionError(ProtocolError):
    """No topic of that name, or no such partition in it. No request creates one on the way."""

    code = 3


class NotLeaderOrFollowerError(ProtocolError):
    """This broker does not lead, or does not host, the partition."""

    code = 6
    is_retriable = True


class RequestTimedOutError(ProtocolError, TimeoutError):
    """Time was up; whether the request took effect is unknown. Retry with the same sequence."""

    code = 7
    is_retriable = True


class MessageTooLargeError(ProtocolError):
    """A record is larger than max.message.bytes allows, or an append has more segments of one
    partition than a commit can name; nothing was appended."""

    code = 10


class InvalidTopicError(ProtocolError):
    """The topic's name is not one that Kafka allows."""

    code = 17


class NotEnoughReplicasError(ProtocolError):
    """The ISR is smaller than min.insync.replicas; nothing was written."""

    code = 19
    is_retriable = True


class NotEnoughReplicasAfterAppendError(ProtocolError):
    """The ISR shrank below min.insync.replicas after the write: it may be committed later."""

    code = 20
    is_retriable = True


class UnknownMemberIdError(ProtocolError):
    """The group has no such member: it left or was fenced, and must join again."""

    code = 25


class InvalidTimestampError(ProtocolError):
    """A record's timestamp is further from now than the topic's settings allow."""

    code = 32


class InvalidRequiredAcksError(ProtocolError):
    """The acks asked for are not "all", 1 or 0."""

    code = 21


class InvalidGroupIdError(ProtocolError):
    """The name can't be a consumer group's."""

    code = 24


class TopicAlreadyExistsError(ProtocolError):
    """A topic of that name exists."""

    code = 36


class InvalidPartitionsError(ProtocolError):
    """The number of partitions is not allowed."""

    code = 37


class InvalidReplicationFactorError(ProtocolError):
    """The replication factor is below 1 or above the number of brokers."""

    code = 38


class InvalidReplicaAssignmentError(ProtocolError):
    """The explicit replica assignment names unknown or repeated brokers, or is uneven."""

    code = 39


class InvalidConfigError(ProtocolError):
    """A setting's name is unknown or its value is not allowed."""

    code = 40


class NotControllerError(ProtocolError):
    """Another controller has taken over; this one must stop deciding."""

    code = 41
    is_retriable = True


class InvalidRequestError(ProtocolError):
    """The request is malformed: an argument, a column or an option is wrong."""

    code = 42


class PolicyViolationError(ProtocolError):
    """The topic's settings do not allow the request."""

    code = 44


class OutOfOrderSequenceError(ProtocolError):
    """The sequence is below the producer's last one and stands nowhere in the log."""

    code = 45


class DuplicateSequenceError(ProtocolError):
    """The sequence was appended before with other records."""

    code = 46


class KafkaStorageError(ProtocolError):
    """A root or table can't be read or written now: the system, a library or a store says so.

    It is no evidence about a replica: a replica that is wrong has an error of its own.
    """

    code = 56
    is_retriable = True


class RootAccessDeniedError(KafkaStorageError):
    """The root refuses this caller: no permission, no credentials, or a wrong option. It counts
    against no broker: another caller may well reach the root."""

    code = 1006
    is_retriable = False


class RootFullError(KafkaStorageError):
    """The root has no room for what is written to it, or its quota is used up."""

    code = 1007


class RootReadOnlyError(KafkaStorageError):
    """The root's file system is read-only."""

    code = 1011


REFUSES_WRITES: Final = (RootFullError, RootReadOnlyError)
"""The root is there, and the write was certainly not made."""


class BufferExhaustedError(ProtocolError, TimeoutError):
    """A producer's buffer.memory had no room within max.block.ms; the record was not sent."""

    code = 1008
    is_retriable = True


class RecordExpiredError(ProtocolError, TimeoutError):
    """delivery.timeout.ms was over before a producer's record was appended; it never will be."""

    code = 1009
    is_retriable = True


class UnknownProducerIdError(ProtocolError):
    """The producer id has expired, or nobody knows whether its sequence stands in the log, or with
    which records."""

    code = 59


class ReassignmentInProgressError(ProtocolError):
    """The partition is being reassigned already; one at a time."""

    code = 60


class NonEmptyGroupError(ProtocolError):
    """The group has members; they would have to leave first."""

    code = 68


class GroupIdNotFoundError(ProtocolError):
    """No consumer group of that name has committed an offset."""

    code = 69


class GroupMaxSizeReachedError(ProtocolError):
    """The group has as many members as it may have (group.consumer.max.size)."""

    code = 81


class FencedInstanceIdError(ProtocolError):
    """Another process has taken the place of the static member; this one must stop."""

    code = 82


class FencedLeaderEpochError(ProtocolError):
    """The request's leader epoch is older than the replica's: its sender was deposed."""

    code = 74


class UnknownLeaderEpochError(ProtocolError):
    """The request's leader epoch is newer than the replica's: the replica is behind."""

    code = 75
    is_retriable = True


class NoReassignmentInProgressError(ProtocolError):
    """The partition is not being reassigned, so there is nothing to cancel."""

    code = 85


class InvalidRecordError(ProtocolError):
    """A record can't be stored: its partition or one of its fields is not allowed."""

    code = 87


class ProducerFencedError(ProtocolError):
    """A newer run of the same producer id has taken over; this run must stop."""

    code = 90


class UnknownTopicIdError(ProtocolError):
    """The topic id is not in the image: the topic was deleted, or not yet heard of."""

    code = 100
    is_retriable = True


class DuplicateBrokerRegistrationError(ProtocolError):
    """The broker id, the root or its directory is registered already."""

    code = 101


class BrokerIdNotRegisteredError(ProtocolError):
    """No broker of that id is registered."""

    code = 102


class InconsistentTopicIdError(ProtocolError):
    """The topic id is not the expected one: a table stands in the place of another topic's."""

    code = 103


class InconsistentClusterIdError(ProtocolError):
    """The root belongs to another cluster."""

    code = 104


class FencedMemberEpochError(ProtocolError):
    """The member's epoch is not the group's word; it must give up its partitions and join again."""

    code = 110


class UnreleasedInstanceIdError(ProtocolError):
    """The static member's place is taken by one that has not left: wait until it is fenced."""

    code = 111
    is_retriable = True


class UnsupportedAssignorError(ProtocolError):
    """There is no such assignor."""

    code = 112


class StaleMemberEpochError(ProtocolError):
    """Offsets of a partition that the member no longer owns, or of an epoch that it has left."""

    code = 113


class DuplicateVoterError(ProtocolError):
    """A voter of that id is in the set of voters already."""

    code = 126


class VoterNotFoundError(ProtocolError):
    """No voter of that id and directory is in the set of voters."""

    code = 127


class InvalidRootError(ProtocolError):
    """The URL can't serve as a root: unreachable, not a folder, or its puts are unsafe."""

    code = 1001


class UnexpectedOffsetError(ProtocolError):
    """A conditional append found the partition's log end elsewhere than expected."""

    code = 1002


class LogTruncatedError(ProtocolError):
    """Records are lost that a reader had seen offsets of (KIP-320): by an unclean election, or as
    their partition was removed and added again."""

    code = 1003


class ClusterNotFoundError(ProtocolError):
    """There is no cluster at the metadata root."""

    code = 1004


class ReplicaLostError(ProtocolError):
    """The replica's table is gone, short, rolled back, or not the one in the image: bad."""

    code = 1005


class QuorumUnavailableError(ProtocolError):
    """No majority of the voters answers, or none agrees on a leader; try again."""

    code = 1010
    is_retriable = True


class CommitError(KafkaOnSparkError):
    """A conditional commit did not simply succeed."""


class CommitConflictError(CommitError):
    """Another commit took this version. Ours is certainly not in the log."""

    is_retriable = True


class CommitOutcomeUnknownError(CommitError):
    """The store failed mid-commit. Ours may be in the log: never blindly retry."""


class CorruptLogError(ProtocolError):
    """Stored bytes break an invariant of the log. Retrying cannot help."""

    code = 2


class InconsistentClusterError(KafkaOnSparkError):
    """A table is ahead of the metadata: the metadata log went back. Nothing may go on."""


class IllegalStateError(KafkaOnSparkError):
    """Raft has no such transition from a voter's state: refresh the state, then decide again."""


_CLOSED: Final = "the cluster was closed by this process: open it again with Cluster.open"


class ClusterClosedError(KafkaOnSparkError):
    """This process has closed the cluster; any further request needs it opened again. Requests of
    other threads at that moment may have taken effect."""

    def __init__(self, message: str = _CLOSED, /, **context: object) -> None:
        super().__init__(message, **context)


class ProducerClosedError(KafkaOnSparkError):
    """The producer is closed; what it had not sent by then is not appended."""


class ConsumerClosedError(KafkaOnSparkError):
    """The consumer is closed; make another with Cluster.consumer."""


class WakeupError(KafkaOnSparkError):
    """Another thread has ended a consumer's wait by `wakeup`. Source: WakeupException."""

    def __init__(
        self, message: str = "another thread woke the consumer", /, **context: object
    ) -> None:
        super().__init__(message, **context)


NO_ERROR: Final = 0
UNKNOWN_SERVER_ERROR: Final = -1
ERROR_BY_CODE: Final = {
    cls.code: cls
    for kind in ProtocolError.__subclasses__()
    for cls in (kind, *kind.__subclasses__())
}
ERROR_NAME_BY_CODE: Final = {NO_ERROR: "NONE", UNKNOWN_SERVER_ERROR: "UNKNOWN_SERVER_ERROR"} | {
    code: cls.__name__.removesuffix("Error") for code, cls in ERROR_BY_CODE.items()
}
