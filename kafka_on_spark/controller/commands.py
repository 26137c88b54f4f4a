"""The commands that people give: decided here if nobody controls the cluster, else by request.

A command has a name, and the decision that it stands for. Without a controller, claim, decision and
resignation are one commit. While a controller holds the lease, the command is an AdminRequestRecord
in the log, which the controller decides, and this process waits for its result. So a command is a
name and arguments, and the deciding process supplies uuids and random numbers. The decision and its
AdminResultRecord are one commit: a request with a result is never run again.

If the lease is not renewed for as long as it lasts, by this process's own clock, this process
decides its own request. A request without an answer in time is withdrawn, so that it is certain
what was done. A metadata root that goes away once the request is in the log is waited for; if it
stays away, the outcome is unknown: the request may be run yet.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from numbers import Integral
from typing import Any, Final, Generic, TypeVar, cast

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    CommitError,
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaOnSparkError,
    ProtocolError,
    RequestTimedOutError,
)
from kafka_on_spark.base.ids import IdSource, PartitionKey, TopicId
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.controller import brokers, election, reassignment, topics
from kafka_on_spark.controller.lease import ONE_COMMAND, LeaseWatch, Term, alone
from kafka_on_spark.controller.log_start import delete_records_of_all
from kafka_on_spark.groups.membership import remove_members
from kafka_on_spark.groups.offsets import alter_group_offsets, delete_group
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_service import ROOTS_AWAY, wait_for_root
from kafka_on_spark.metadata.records import AdminRequestRecord, AdminResultRecord, Record
from kafka_on_spark.metadata.reports import ReplicaInspection
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.deadlines import pauses_ms

T = TypeVar("T")

UNTOLD: Final = (RequestTimedOutError, CommitError, *ROOTS_AWAY)
"""Errors of reads and commits after which the log alone says what came of a request."""

PAUSE_MS_MIN: Final = 5.0
PAUSE_MS_MAX: Final = 250.0
"""Pauses between two reads for a result: short at first, since the controller may be quick."""

_KEY: Final = "$partition"
_INSPECTION: Final = "$look"
_MAP: Final = "$map"


def to_json(value: object) -> Any:
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, Integral):  # numpy's as well
        return int(value)
    if isinstance(value, PartitionKey):
        return {_KEY: [value.topic_id, value.partition]}
    if isinstance(value, ReplicaInspection):
        return {_INSPECTION: {**asdict(value), "key": to_json(value.key)}}
    if isinstance(value, Mapping):
        if all(isinstance(name, str) and not name.startswith("$") for name in value):
            return {name: to_json(each) for name, each in value.items()}
        return {_MAP: [[to_json(name), to_json(each)] for name, each in value.items()]}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    raise InvalidRequestError(
        f"a command can't be given {value!r}, a {type(value).__name__}: give numbers, texts,"
        " truth values, lists and mappings of them"
    )


def from_json(written: Any) -> Any:
    """Return the value that `to_json` wrote, tuples as lists; raise ValueError, TypeError or
    KeyError for another."""
    if isinstance(written, list):
        return [from_json(each) for each in written]
    if not isinstance(written, dict):
        return written
    if _KEY in written:
        topic_id, partition = written[_KEY]
        return PartitionKey(TopicId(topic_id), partition)
    if _INSPECTION in written:
        inspection = written[_INSPECTION]
        return ReplicaInspection(**{**inspection, "key": from_json(inspection["key"])})
    if _MAP in written:
        return {from_json(name): from_json(each) for name, each in written[_MAP]}
    return {name: from_json(each) for name, each in written.items()}


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """A kind of command.

    Attributes:
        name: In requests. A name never gets another meaning, since requests outlive the process
            that wrote them; so do the names of the decision's arguments.
        decision: Called with the image, and the arguments by name.
        cause: Why, with arguments in braces, for a decision that takes it; "": it takes none.
        ids: Which of an `IdSource` the decision takes.
    """

    name: str
    decision: Callable[..., ControllerResult[T]]
    cause: str = ""
    ids: tuple[str, ...] = ()

    def decide(
        self, image: MetadataImage, id_source: IdSource, arguments: Mapping[str, Any]
    ) -> ControllerResult[T]:
        """Return what the command leads to on `image`. `arguments`: by name, as JSON holds them."""
        given = {name: from_json(value) for name, value in arguments.items()}
        own = {name: getattr(id_source, name) for name in self.ids}
        if self.cause:
            own["cause"] = self.cause.format_map(given)
        return self.decision(image, **given, **own)


_PLACES: Final = ("new_uuid", "random_below")

CREATE_TOPIC: Final = Command(
    "create_topic", topics.create_topic, "topic created by request", _PLACES
)
ADD_PARTITIONS: Final = Command(
    "add_partitions", topics.add_partitions, "partitions added by request", _PLACES
)
REMOVE_PARTITIONS: Final = Command(
    "remove_partitions", topics.remove_partitions, "partitions removed by request"
)
DELETE_TOPIC: Final = Command("delete_topic", topics.delete_topic, "topic deleted by request")
ALTER_TOPIC_CONFIGS: Final = Command(
    "alter_topic_configs", topics.alter_configs, "altered by request"
)
ALTER_CLUSTER_CONFIGS: Final = Command(
    "alter_cluster_configs", topics.alter_cluster_configs, "altered by request"
)
REGISTER_BROKER: Final = Command(
    "register_broker", brokers.register_broker, "broker {broker_id} registered by request"
)
ALTER_BROKER: Final = Command(
    "alter_broker", brokers.alter_broker, "broker {broker_id} altered by request"
)
DRAIN_BROKER: Final = Command(
    "drain_broker", brokers.drain_broker, "broker {broker_id} drained by request"
)
CONTINUE_DRAINING: Final = Command("continue_draining", brokers.continue_draining)
RESUME_BROKER: Final = Command(
    "resume_broker", brokers.resume_broker, "broker {broker_id} resumed by request"
)
UNREGISTER_BROKER: Final = Command(
    "unregister_broker", brokers.unregister_broker, "broker {broker_id} unregistered by request"
)
ELECT_PREFERRED: Final = Command(
    "elect_preferred", election.elect_preferred, "preferred leaders by request"
)
ELECT_UNCLEAN: Final = Command(  # the requesting process has inspected the replicas
    "elect_unclean",
    lambda image, *, looks: election.elect_by_inspections(
        image, looks, forced=frozenset(each.key for each in looks)
    ),
)
LOSE_REPLICA: Final = Command("lose_replica", election.lose_replica, "called lost by request")
REASSIGN: Final = Command(
    "reassign", reassignment.start_reassignments, "reassigned by request", ("new_uuid",)
)
CANCEL_REASSIGNMENTS: Final = Command(
    "cancel_reassignments", reassignment.cancel_reassignments, "reassignment cancelled by request"
)
DELETE_RECORDS: Final = Command("delete_records", delete_records_of_all)
ALTER_GROUP_OFFSETS: Final = Command("alter_group_offsets", alter_group_offsets)
DELETE_GROUP: Final = Command("delete_group", delete_group)
REMOVE_GROUP_MEMBERS: Final = Command("remove_group_members", remove_members)

COMMANDS: Final[Mapping[str, Command[Any]]] = {
    each.name: each for each in list(globals().values()) if isinstance(each, Command)
}
"""By the name that a request gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an AdminRequestRecord says: the command, its arguments as JSON holds them, the process
    that asks, and how long it waits (`deadline_at_ms`: by the times of commits)."""

    command: Command[Any]
    arguments: Mapping[str, Any]
    asked_by: str
    timeout_ms: int
    deadline_at_ms: int


def request_record(request: Request, request_id: str) -> AdminRequestRecord:
    text = json.dumps(
        {
            "id": request_id,
            "command": request.command.name,
            "arguments": request.arguments,
            "asked_by": request.asked_by,
            "timeout_ms": request.timeout_ms,
            "deadline_at_ms": request.deadline_at_ms,
        }
    )
    cause = f"{request.command.name} asked for by {request.asked_by}"
    return AdminRequestRecord(request=text, cause=cause)


def request_of(record: AdminRequestRecord) -> Request:
    try:
        said = parse_json(record.request)
        return Request(
            command=COMMANDS[said["command"]],
            arguments=dict(said["arguments"]),
            asked_by=str(said["asked_by"]),
            timeout_ms=int(said["timeout_ms"]),
            deadline_at_ms=int(said["deadline_at_ms"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"a request in the metadata log is none that this version knows: {record.request[:200]}"
        ) from error


def answer(
    image: MetadataImage,
    record: AdminRequestRecord,
    id_source: IdSource,
    *,
    is_withdrawn: bool = False,
) -> ControllerResult[bool]:
    """Decide a pending request: its records and its result, in one commit.

    Nothing, and False, if it has a result already: so none is run twice, or once it was withdrawn.
    `is_withdrawn`: the process that asked stops waiting, so the request is not run. So it is if the
    newest commit is later than the request's deadline, as a controller's is once it has renewed its
    lease: what a dead process has left is not run a day later.
    """
    if record not in image.requests:
        return ControllerResult([], False)
    decided: list[Record] = []
    cause = "a request that is none"
    try:
        request = request_of(record)
        cause = f"{request.command.name} asked for by {request.asked_by}"
        if is_withdrawn or image.time_ms > request.deadline_at_ms:
            raise RequestTimedOutError(
                f"{request.command.name} was not run: nobody has decided on it in the"
                f" {request.timeout_ms} ms given; ask again"
            )
        result = request.command.decide(image, id_source, request.arguments)
        decided.extend(result.records)
        text = json.dumps({"code": NO_ERROR, "response": to_json(result.response)})
    except KafkaOnSparkError as error:
        text = refusal_text(error)
    # A request that can't be decided must not end one controller after the other.
    except Exception as error:
        decided.clear()
        said = f"{type(error).__name__}: {error}"
        text = json.dumps({"code": UNKNOWN_SERVER_ERROR, "error": said})
    answered = AdminResultRecord(request=record.request, result=text, cause=cause)
    return ControllerResult([*decided, answered], True)


def refusal_text(error: KafkaOnSparkError) -> str:
    """Return the result that raises `error` in the process that asked."""
    code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
    context = {name: str(value) for name, value in error.context.items()}
    return json.dumps({"code": code, "error": error.message, "context": context})


def response_of(result: AdminResultRecord) -> Any:
    said = parse_json(result.result)
    code = said["code"]
    if code == NO_ERROR:
        return from_json(said["response"])
    kind = ERROR_BY_CODE.get(code)
    if kind is None:
        raise KafkaOnSparkError(f"the controller could not decide: {said['error']}")
    raise kind(said["error"], **said.get("context", {}))


def serve_requests(term: Term, id_source: IdSource) -> None:
    """Renew a controller's lease if that is due, and decide the pending requests in order; raise as
    `Term.check`. To be called often."""
    term.read_if_needed()
    term.renew()
    for record in term.metadata.image.requests:
        term.submit(partial(answer, record=record, id_source=id_source))
        term.renew()


def run_command(node: Node, command: Command[T], **arguments: object) -> T:
    """Have a command decided and committed, here or by the controller of the cluster; return its
    response.

    If the newest image refuses the command, or it changes nothing, the answer comes at once and
    nothing is written.

    Raises:
        RequestTimedOutError: Commits kept conflicting, or no controller answered: nothing of
            it is committed.
        CommitOutcomeUnknownError: The store failed, or it is not known what came of the
            request; look whether it took effect.
        And what the command's decision raises, here or at the controller.
    """
    timeout_ms, image = node.timeout_ms, node.metadata.catch_up()
    # It is judged by the time of others' commits, whose clocks may be ahead by so much.
    given_ms = timeout_ms + image.settings().integer("clock.ahead.max.ms")
    request = Request(
        command=command,
        arguments=to_json(arguments),
        asked_by=node.controller_id,
        timeout_ms=timeout_ms,
        deadline_at_ms=node.metadata.clock.now_ms() + given_ms,
    )
    record = request_record(request, node.ids.new_uuid())
    watch = LeaseWatch(node.clock)
    with node.metadata.watching(record) as result_of:
        is_decided, response = node.submit(partial(_decide_or_ask, node, watch, request, record))
        if is_decided:
            return cast(T, response)
        try:
            _wait_for_answer(node, watch, record, result_of)
        except UNTOLD as error:
            if result_of() is None:  # else a withdrawal has lost against it
                raise CommitOutcomeUnknownError(
                    f"what came of a request is not known ({error.message}), so it may be run"
                    " yet: look whether it took effect before you ask again"
                ) from error
        result = result_of()
        assert result is not None, "a request is pending or has a result"
        return cast(T, response_of(result))


def _decide_or_ask(
    node: Node,
    watch: LeaseWatch,
    request: Request,
    record: AdminRequestRecord,
    image: MetadataImage,
) -> ControllerResult[tuple[bool, Any]]:
    """Decide a command if nobody holds the lease, or if there is nothing to commit; else commit the
    request. Answer: whether it is decided, and its response."""
    result = request.command.decide(image, node.ids, request.arguments)
    if result.records and not watch.is_over(image):
        return ControllerResult([record], (False, None))
    claimed = alone(image, result, node.controller_id, ONE_COMMAND)
    return ControllerResult(claimed.records, (True, claimed.response))


def _answer_alone(
    node: Node, watch: LeaseWatch, record: AdminRequestRecord, image: MetadataImage
) -> ControllerResult[bool]:
    """Decide the request of this process in the place of a controller that does not renew."""
    if not watch.is_over(image):
        return ControllerResult([], False)
    return alone(image, answer(image, record, node.ids), node.controller_id, ONE_COMMAND)


def _wait_for_answer(
    node: Node,
    watch: LeaseWatch,
    record: AdminRequestRecord,
    result_of: Callable[[], AdminResultRecord | None],
) -> None:
    """Wait until this process knows a request's result; decide it once nobody renews the lease, and
    withdraw it if that takes too long. A metadata root that is away is waited for."""
    clock = node.clock
    deadline_ms = clock.monotonic_ms() + node.timeout_ms
    pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
    while result_of() is None:
        left_ms = deadline_ms - clock.monotonic_ms()
        image = wait_for_root(node.metadata.catch_up, clock, timeout_ms=left_ms)
        if result_of() is not None:
            break
        if clock.monotonic_ms() >= deadline_ms:
            node.submit(partial(answer, record=record, id_source=node.ids, is_withdrawn=True))
            break
        if watch.is_over(image):
            with suppress(*UNTOLD):
                node.submit(partial(_answer_alone, node, watch, record))
                continue
        clock.sleep_ms(next(pauses))
