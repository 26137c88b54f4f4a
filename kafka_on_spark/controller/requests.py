"""Commands through the log: what a request contains, and which records answer it.

While a controller is active, a command is an AdminRequestRecord, and the decision on it and
its AdminResultRecord are one commit: a request with a result is never run again, and a result
stands for what is done. A refusal travels as Kafka's code and a sentence.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    InvalidRequestError,
    KafkaOnSparkError,
    ProtocolError,
    RequestTimedOutError,
)
from kafka_on_spark.base.stored_json import parse_json
from kafka_on_spark.controller.command_json import from_json, to_json
from kafka_on_spark.controller.commands import COMMANDS, CommandOrder
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import AdminRequestRecord, AdminResultRecord, Record
from kafka_on_spark.metadata.result import ControllerResult, IdSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an AdminRequestRecord says.

    Attributes:
        order: The command and its arguments.
        asked_by: The process that asks and waits.
        timeout_ms: How long it waits.
        deadline_at_ms: Until when, by its wall clock.
    """

    order: CommandOrder[Any]
    asked_by: str
    timeout_ms: int
    deadline_at_ms: int


def request_record(request: Request, request_id: str) -> AdminRequestRecord:
    """Return the record that asks for `request`; `request_id` makes it unique."""
    text = json.dumps(
        {
            "id": request_id,
            "command": request.order.command.name,
            "arguments": request.order.arguments,
            "asked_by": request.asked_by,
            "timeout_ms": request.timeout_ms,
            "deadline_at_ms": request.deadline_at_ms,
        }
    )
    cause = f"{request.order.command.name} asked for by {request.asked_by}"
    return AdminRequestRecord(request=text, cause=cause)


def request_of(record: AdminRequestRecord) -> Request:
    """Return the request of a record.

    Raises:
        InvalidRequestError: This version does not know the request.
    """
    try:
        said = parse_json(record.request)
        command = COMMANDS[said["command"]]
        return Request(
            order=CommandOrder(command, dict(said["arguments"])),
            asked_by=str(said["asked_by"]),
            timeout_ms=int(said["timeout_ms"]),
            deadline_at_ms=int(said["deadline_at_ms"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"a request in the metadata log is none that this version knows: {record.request[:200]}"
        ) from error


def is_past_deadline(request: Request, *, now_ms: int, unseen_ms: int | None) -> bool:
    """Return whether the process that asked has stopped waiting for a request.

    `unseen_ms`: how long ago the deciding process last read requests before now, by its own clock;
    None: never. If that is less than the request's timeout, the request is not late, whatever two
    wall clocks say; only an older one is held against its deadline.
    """
    if unseen_ms is not None and unseen_ms < request.timeout_ms:
        return False
    return now_ms > request.deadline_at_ms


def answer(
    image: MetadataImage,
    record: AdminRequestRecord,
    id_source: IdSource,
    *,
    now_ms: int,
    unseen_ms: int | None,
) -> ControllerResult[bool]:
    """Decide a pending request: its records and its result, in one commit.

    Nothing, and False, if it has a result already.
    """
    if record not in image.requests:
        return ControllerResult([], False)
    decided: list[Record] = []
    cause = "a request that is none"
    try:
        request = request_of(record)
        cause = f"{request.order.command.name} asked for by {request.asked_by}"
        if is_past_deadline(request, now_ms=now_ms, unseen_ms=unseen_ms):
            raise RequestTimedOutError(
                f"nobody has decided on {request.order.command.name} in the"
                f" {request.timeout_ms} ms given: it was not run, ask again"
            )
        result = request.order.decide(image, id_source)
        decided.extend(result.records)
        text = _result_text({"code": NO_ERROR, "response": to_json(result.response)})
    except KafkaOnSparkError as error:
        text = refusal_text(error)
    # A request that can't be decided must not end one controller after the other.
    except Exception as error:
        decided.clear()
        text = _result_text(
            {"code": UNKNOWN_SERVER_ERROR, "error": f"{type(error).__name__}: {error}"}
        )
    answered = AdminResultRecord(request=record.request, result=text, cause=cause)
    return ControllerResult([*decided, answered], True)


def withdraw(
    image: MetadataImage, record: AdminRequestRecord, *, timeout_ms: int
) -> ControllerResult[None]:
    """Decide that a request is not run, since the process that asked stops waiting; nothing if it
    has a result."""
    if record not in image.requests:
        return ControllerResult([], None)
    controller = None if image.controller is None else image.controller.controller_id
    error = RequestTimedOutError(
        f"controller {controller} has not answered in {timeout_ms} ms, and the request was"
        " withdrawn: nothing was done, ask again"
    )
    withdrawn = AdminResultRecord(
        request=record.request, result=refusal_text(error), cause="withdrawn by who asked"
    )
    return ControllerResult([withdrawn], None)


def refusal_text(error: KafkaOnSparkError) -> str:
    """Return the result that raises `error` in the process that asked."""
    code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
    context = {name: str(value) for name, value in error.context.items()}
    return _result_text({"code": code, "error": error.message, "context": context})


def _result_text(result: Mapping[str, Any]) -> str:
    return json.dumps(result)


def response_of(result: AdminResultRecord) -> Any:
    """Return the response that a result carries.

    Raises:
        ProtocolError: What the decider raised: the same class, sentence and context.
        KafkaOnSparkError: It raised what has no code.
    """
    said = parse_json(result.result)
    code = said["code"]
    if code == NO_ERROR:
        return from_json(said["response"])
    kind = ERROR_BY_CODE.get(code)
    if kind is None:
        raise KafkaOnSparkError(f"the controller could not decide: {said['error']}")
    raise kind(said["error"], **said.get("context", {}))
