"""One-shot commands: decided here if no controller holds the lease, else requested in the log.

Without a controller, claim, decision and resignation are one commit. While a controller holds the
lease, the command is a request in the log, and this process waits for its result. If the lease is
not renewed for as long as it lasts, by this process's own clock, this process claims, and decides
all pending requests in order. A request without an answer in time is withdrawn, so that it is
certain what was done. A metadata root that goes away once the request is in the log is waited for;
if it stays away, the outcome is unknown: the request may be run yet.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    CommitError,
    CommitOutcomeUnknownError,
    NotControllerError,
    RequestTimedOutError,
)
from kafka_on_spark.base.process import Clock, pauses_ms
from kafka_on_spark.controller.commands import (
    Command,
    CommandOrder,
    Request,
    request_record,
    response_of,
    withdraw,
)
from kafka_on_spark.controller.lease import LeaseWatch, Term, alone, is_held
from kafka_on_spark.metadata.commit_wait import ROOTS_AWAY, wait_for_root
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import AdminRequestRecord, AdminResultRecord, Record
from kafka_on_spark.metadata.result import ControllerResult, IdSource
from kafka_on_spark.node.node import Node

T = TypeVar("T")

UNTOLD: Final = (RequestTimedOutError, CommitError, *ROOTS_AWAY)
"""Errors of reads and commits after which the log alone says what came of a request."""

PAUSE_MS_MIN: Final = 5.0
PAUSE_MS_MAX: Final = 250.0
"""Pauses between two reads for a result: short at first, since the controller may be quick."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The response of a decision that the controller is asked for."""


class CommandRunner:
    """Runs one-shot commands of one process. Threads may share it.

    `new_uuid` of `id_source` also names requests.
    """

    def __init__(
        self, metadata: MetadataService, clock: Clock, *, controller_id: str, id_source: IdSource
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._controller_id = controller_id
        self._id_source = id_source

    def run(self, order: CommandOrder[T], *, timeout_ms: int) -> T:
        """Have a command decided and committed; return its response.

        If the newest image refuses the command, or it changes nothing, the answer comes at once and
        nothing is written.

        Raises:
            RequestTimedOutError: Commits kept conflicting, or no controller answered: nothing of
                it is committed.
            CommitOutcomeUnknownError: The store failed, or it is not known what came of the
                request; look whether it took effect.
            And what the command's decision raises, here or at the controller.
        """
        if not is_held(self._metadata.catch_up()):
            response = self._metadata.submit(
                partial(self._decide, order, otherwise=()), timeout_ms=timeout_ms
            )
            if not isinstance(response, _Asked):
                return response
        return self._ask(order, timeout_ms)

    def _decide(
        self, order: CommandOrder[T], image: MetadataImage, *, otherwise: Sequence[Record]
    ) -> ControllerResult[T | _Asked]:
        """Decide a command if the lease is free, or if there is nothing to commit; else commit
        `otherwise`."""
        result = order.decide(image, self._id_source)
        if result.records and is_held(image):
            return ControllerResult(otherwise, _Asked())
        claimed = alone(image, result, self._controller_id, "one command")
        return ControllerResult(claimed.records, claimed.response)

    def _ask(self, order: CommandOrder[T], timeout_ms: int) -> T:
        request = Request(
            order=order,
            asked_by=self._controller_id,
            timeout_ms=timeout_ms,
            deadline_at_ms=self._clock.now_ms() + timeout_ms,
        )
        record = request_record(request, self._id_source.new_uuid())
        with self._metadata.watching(record) as result_of:
            response = self._metadata.submit(
                partial(self._decide, order, otherwise=[record]), timeout_ms=timeout_ms
            )
            if not isinstance(response, _Asked):
                return response
            answered: T = response_of(self._await(record, result_of, timeout_ms))
            return answered

    def run_alone(
        self, decide: Callable[[MetadataImage], ControllerResult[T]], *, timeout_ms: int
    ) -> T:
        """Commit what `decide` says in a log without a cluster, which has no controller yet.

        Raises:
            As `run`, and what `decide` raises.
        """
        self._metadata.catch_up()
        return self._metadata.submit(
            lambda image: alone(image, decide(image), self._controller_id, "one command"),
            timeout_ms=timeout_ms,
        )

    def _await(
        self,
        record: AdminRequestRecord,
        result_of: Callable[[], AdminResultRecord | None],
        timeout_ms: int,
    ) -> AdminResultRecord:
        """Return the result of a request that stands in the log.

        Raises:
            CommitOutcomeUnknownError: It may have none as yet: a controller may run it.
        """
        try:
            self._wait_or_withdraw(record, result_of, timeout_ms)
        except UNTOLD as error:
            if result_of() is None:  # else a withdrawal has lost against it
                raise CommitOutcomeUnknownError(
                    f"what came of a request is not known ({error.message}), so it may be run yet:"
                    " look whether it took effect before you ask again"
                ) from error
        result = result_of()
        assert result is not None, "a request is pending or has a result"
        return result

    def _wait_or_withdraw(
        self,
        record: AdminRequestRecord,
        result_of: Callable[[], AdminResultRecord | None],
        timeout_ms: int,
    ) -> None:
        """Wait until this process knows a request's result; withdraw the request if that takes too
        long. A metadata root that is away is waited for.

        Raises:
            Those of UNTOLD.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        watch = LeaseWatch(self._clock)
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        while result_of() is None:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            image = wait_for_root(self._metadata.catch_up, self._clock, timeout_ms=left_ms)
            if result_of() is not None:
                break
            if self._clock.monotonic_ms() >= deadline_ms:
                self._metadata.submit(
                    partial(withdraw, record=record, timeout_ms=timeout_ms), timeout_ms=timeout_ms
                )
                break
            if watch.is_over(image):
                with suppress(*UNTOLD):
                    self._answer_all(watch.seen, timeout_ms)
                    continue
            self._clock.sleep_ms(next(pauses))

    def _answer_all(self, seen: ControllerLease | None, timeout_ms: int) -> None:
        """Control the cluster for as long as it takes to answer all requests."""
        term = Term.claim(
            self._metadata,
            self._clock,
            controller_id=self._controller_id,
            seen=seen,
            timeout_ms=timeout_ms,
        )
        if term is None:
            return
        try:
            term.answer_requests(self._id_source)
        except NotControllerError:
            return  # the controller that has claimed since answers the rest
        finally:
            term.resign()


def run_command(node: Node, command: Command[T], **arguments: object) -> T:
    """Have a command decided and committed, here or by the controller of the cluster.

    Raises: as `CommandRunner.run`.
    """
    return command_runner(node).run(command.order(**arguments), timeout_ms=node.timeout_ms)


def command_runner(node: Node) -> CommandRunner:
    """Return what runs one-shot commands of a process."""
    return CommandRunner(
        node.metadata, node.clock, controller_id=node.controller_id, id_source=node.ids
    )
