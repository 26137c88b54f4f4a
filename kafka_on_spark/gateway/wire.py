"""Messages of Kafka's protocol: which are answered, and how bytes become requests and answers.

Source: RequestHeader, ResponseHeader, ApiVersionsRequest; the schemas are Kafka's.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cache, partial
from io import BytesIO
from types import ModuleType
from typing import Any, Final, NamedTuple

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kafka_on_spark.base.errors import (
    UNKNOWN_SERVER_ERROR,
    CommitError,
    InvalidRequestError,
    KafkaOnSparkError,
)

Fields = dict[str, Any]
"""Fields of a part of an answer, by their names."""

Name = tuple[str, int]
"""A partition's topic and number."""

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
DESCRIBE_CONFIGS: Final = 32
DESCRIBE_LOG_DIRS: Final = 35
CREATE_PARTITIONS: Final = 37
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_QUORUM: Final = 55
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69

SUPPORTED: Final[Mapping[int, tuple[int, int]]] = {
    PRODUCE: (3, 11),
    FETCH: (4, 12),  # later ones name topics by their ids
    LIST_OFFSETS: (1, 7),  # later ones ask for what lies on tiers
    METADATA: (0, 12),
    OFFSET_COMMIT: (2, 9),
    OFFSET_FETCH: (1, 9),
    FIND_COORDINATOR: (0, 4),
    JOIN_GROUP: (0, 9),
    HEARTBEAT: (0, 4),
    LEAVE_GROUP: (0, 5),
    SYNC_GROUP: (0, 5),
    API_VERSIONS: (0, 4),
    INIT_PRODUCER_ID: (0, 4),
    DESCRIBE_GROUPS: (0, 5),
    LIST_GROUPS: (0, 5),
    CREATE_TOPICS: (2, 7),
    DELETE_TOPICS: (1, 5),  # later ones name topics by their ids
    DELETE_RECORDS: (0, 2),
    DESCRIBE_CONFIGS: (1, 4),
    CREATE_PARTITIONS: (0, 3),
    DELETE_GROUPS: (0, 2),
    INCREMENTAL_ALTER_CONFIGS: (0, 1),
    DESCRIBE_CLUSTER: (0, 1),
    OFFSET_FOR_LEADER_EPOCH: (2, 4),
    DESCRIBE_LOG_DIRS: (1, 4),
    ELECT_LEADERS: (0, 2),
    ALTER_PARTITION_REASSIGNMENTS: (0, 0),  # a later one may forbid another number of replicas
    LIST_PARTITION_REASSIGNMENTS: (0, 0),
    OFFSET_DELETE: (0, 0),
    DESCRIBE_QUORUM: (0, 2),
    DESCRIBE_PRODUCERS: (0, 0),
    CONSUMER_GROUP_HEARTBEAT: (0, 1),
    CONSUMER_GROUP_DESCRIBE: (0, 1),
}
"""The requests that are answered, and in which versions."""


class RefusedError(Exception):
    """A request is refused by a code of Kafka's that no error of the cluster has."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code


class Request(NamedTuple):
    """A request of a client.

    Attributes:
        client_id: As the client names itself.
        body: Its message, or None of an ApiVersions request of a version that is not known.
        host: The address that it came from.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: Any
    host: str = ""


@dataclass(frozen=True, slots=True)
class _Api:
    request: type
    response: type
    schema: ModuleType
    read_header: Any
    read_body: Any
    write_header: Any
    write_body: Any
    response_header: type


@cache
def _api(key: int, version: int) -> _Api:
    asked = load_payload_module(key, version, EntityType.request)
    answered = load_payload_module(key, version, EntityType.response)
    request = _payload(asked, "Request")
    response = _payload(answered, "Response")
    header = response.__header_schema__
    return _Api(
        request=request,
        response=response,
        schema=answered,
        read_header=entity_reader(request.__header_schema__),
        read_body=entity_reader(request),
        write_header=entity_writer(header),
        write_body=entity_writer(response),
        response_header=header,
    )


def _payload(module: ModuleType, kind: str) -> Any:
    [found] = (
        each
        for name, each in vars(module).items()
        if name.endswith(kind)
        and getattr(each, "__module__", "") == module.__name__
        and each.__type__ in (EntityType.request, EntityType.response)
    )
    return found


def schema_of(request: Request) -> Any:
    """Return the module with the types of which a request's answer is made."""
    return _api(request.api_key, request.version).schema


@cache
def _fields(kind: type) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))


def made(kind: Any, **given: Any) -> Any:
    """Return a part of an answer, with what its version has of some fields; none is throttled."""
    given["throttle_time"] = timedelta()
    return kind(**{name: value for name, value in given.items() if name in _fields(kind)})


def read_request(content: bytes) -> Request:
    """Return the request that a frame has.

    Raises:
        InvalidRequestError: It is none, or of a kind or version that is not answered.
    """
    if len(content) < 8:
        raise InvalidRequestError(f"a request has {len(content)} bytes: there is none so short")
    key, version, correlation_id = struct.unpack_from(">hhi", content)
    lowest, highest = SUPPORTED.get(key, (0, -1))
    if key == API_VERSIONS and not lowest <= version <= highest:
        return Request(key, version, correlation_id, None, None)
    if not lowest <= version <= highest:
        raise InvalidRequestError(f"requests of kind {key}, version {version} are not answered")
    api = _api(key, version)
    try:
        header, size = api.read_header(content, 0)
        body, _ = api.read_body(content, size)
    except Exception as error:  # whatever bytes a client sends
        raise InvalidRequestError(f"a request of kind {key} can't be read: {error!r}") from error
    return Request(key, version, correlation_id, header.client_id, body)


def answer_bytes(request: Request, answer: Any) -> bytes:
    """Return the frame of an answer."""
    version = request.version if request.body is not None else 0
    api = _api(request.api_key, version)
    buffer = BytesIO()
    buffer.write(b"\0\0\0\0")
    api.write_header(buffer, api.response_header(correlation_id=request.correlation_id))
    api.write_body(buffer, answer)
    content = buffer.getvalue()
    return struct.pack(">i", len(content) - 4) + content[4:]


_KAFKAS: Final = {
    90: ErrorCode.invalid_producer_epoch,  # ProducerFenced, which is of transactions
    1003: ErrorCode.offset_out_of_range,  # LogTruncated
    1005: ErrorCode.kafka_storage_error,  # ReplicaLost
    1006: ErrorCode.cluster_authorization_failed,  # RootAccessDenied
    1007: ErrorCode.kafka_storage_error,  # RootFull
    1010: ErrorCode.not_enough_replicas,  # QuorumUnavailable: nothing can be decided
    1011: ErrorCode.kafka_storage_error,  # RootReadOnly
}
"""Codes of Kafka's for errors that it does not have."""


def code_of(error: KafkaOnSparkError | RefusedError) -> ErrorCode:
    """Return Kafka's code of an error. A commit whose outcome is unknown is a request that has
    timed out."""
    if isinstance(error, RefusedError):
        return error.code
    if isinstance(error, CommitError):
        return ErrorCode.request_timed_out
    code = getattr(error, "code", UNKNOWN_SERVER_ERROR)
    return _KAFKAS.get(code) or ErrorCode(code if code < 1000 else UNKNOWN_SERVER_ERROR)


def asked_of(topics: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return what a request says of partitions, each with its topic's name."""
    return [
        (name, each)
        for topic in topics
        for name, parts in [(getattr(topic, each.name) for each in fields(topic))]
        for each in parts
    ]


def by_topic(topic_kind: Any, kind: Any, found: Mapping[Name, Fields]) -> tuple[Any, ...]:
    """Return what is answered of partitions: a `topic_kind` with the `kind` of each partition."""
    number = next(each.name for each in fields(kind) if each.name.startswith("partition"))
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, partition), each in found.items():
        topics[topic].append(made(kind, **{number: partition}, **each))
    name, parts = (each.name for each in fields(topic_kind))
    return tuple(topic_kind(**{name: topic, parts: tuple(each)}) for topic, each in topics.items())


def answered(call: Callable[[], Fields], **otherwise: Any) -> Fields:
    """Return the fields of an answer that a call gives, with its code and message; of one that is
    refused, what stands `otherwise`."""
    try:
        return {"error_code": ErrorCode.none, "error_message": None} | call()
    except (KafkaOnSparkError, RefusedError) as error:
        message = getattr(error, "message", str(error))
        return {"error_code": code_of(error), "error_message": message} | otherwise


def outcome(call: Callable[[], object]) -> Fields:
    """Return the code and the message that an answer has of a call."""

    def done() -> Fields:
        call()
        return {}

    return answered(done)


def outcomes(names: Sequence[Name], call: Callable[[list[Name]], object]) -> dict[Name, Fields]:
    """Return the outcome of each of `names`: of a call for all of them, which is one commit, or if
    that is refused, of a call for each alone."""
    if not names:
        return {}
    found = outcome(partial(call, list(names)))
    if found["error_code"] in (ErrorCode.none, ErrorCode.request_timed_out) or len(names) == 1:
        return dict.fromkeys(names, found)
    return {name: outcome(partial(call, [name])) for name in names}
