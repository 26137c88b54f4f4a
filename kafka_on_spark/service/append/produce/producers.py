"""Runs of idempotent producers and writers: each takes the next epoch, and fences earlier runs.

What logs knew of an id that has expired, they forget. So an append under it is refused before
anything is looked up, since a retry would stand twice: unless it is certain that no try of this
very append was made, or the caller says, with an epoch, that he knows what stands.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kafka_on_spark.controller.commands.expiry import needs_renewal
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import InvalidRequestError, UnknownProducerIdError
from kafka_on_spark.ids import ProducerEpoch, check_whole_number
from kafka_on_spark.log.batch import WRITER_PREFIX, WriterFence
from kafka_on_spark.log.producer_state import producer_fenced, writer_fenced
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ProducerRecord
from kafka_on_spark.ports import Clock
from kafka_on_spark.service.append.plan.stage_plan import ProducerRun
from kafka_on_spark.service.metadata.metadata_roles import MetadataDecider


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of this process.

    Attributes:
        producer_epoch: Its epoch.
        last: The highest sequence that it has begun to append; -1: none.
        first: Lower ones may stand in logs that have forgotten them: the id had expired.
    """

    producer_epoch: ProducerEpoch
    last: int = -1
    first: int = 0


class ProducerRuns:
    """The runs that one process has begun."""

    def __init__(self, metadata: MetadataDecider, clock: Clock, *, timeout_ms: int) -> None:
        self._metadata = metadata
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._mine: dict[str, _Run] = {}

    def begin(
        self,
        producer_id: str | None,
        producer_epoch: int | None,
        sequence: int | None,
        *,
        is_untried: bool = False,
        expired_below: int | None = None,
    ) -> ProducerRun | None:
        """Return the run to append under; None without a producer.

        Without an epoch it is this process's own run, whose first append takes the next epoch. An
        epoch that is given is committed, too, if it is new: so it fences lower epochs on every
        partition, and not only on those that it has appended to.

        A run renews its id when half of the time is over after which it would expire. If it has
        expired, another run goes on with a sequence above those that this one has begun to append,
        with an append that `is_untried`, as the caller knows, and with any if the caller vouches
        for it: by `expired_below`, which must be above all epochs that have expired.

        Raises:
            InvalidRequestError: Producer id and sequence are not given together.
            ProducerFencedError: A newer run has begun elsewhere.
            UnknownProducerIdError: The id has expired, and a try of this append may stand.
        """
        check_producer(producer_id, producer_epoch, sequence)
        if producer_id is None or sequence is None:
            return None
        if producer_epoch is not None:
            self._take_epoch(producer_id, ProducerEpoch(producer_epoch))
        else:
            producer_epoch = self._own_epoch(producer_id, sequence, is_untried, expired_below)
        run = ProducerRun(
            producer_id=producer_id,
            producer_epoch=ProducerEpoch(producer_epoch),
            sequence=sequence,
        )
        image = self._metadata.image
        check_not_fenced(image.producers, producer_id, producer_epoch)
        if needs_renewal(image, producer_id, self._clock.now_ms()):
            self._renew(producer_id)
        return run

    def _own_epoch(
        self, producer_id: str, sequence: int, is_untried: bool, expired_below: int | None
    ) -> ProducerEpoch:
        """Return the epoch of this process's run, which may begin with this append."""
        mine, known = self._mine.get(producer_id), self._metadata.image
        if mine is not None and producer_id in known.producers:
            if sequence < mine.first and not is_untried:
                raise _unknown(producer_id, known.expired_epoch)
            self._mine[producer_id] = replace(mine, last=max(mine.last, sequence))
            return mine.producer_epoch

        def check(image: MetadataImage) -> None:
            if producer_id in image.producers:
                if mine is not None:  # it expired, and another process has begun a run since
                    check_not_fenced(image.producers, producer_id, mine.producer_epoch)
                return
            expired = image.expired_producers.get(producer_id)
            if mine is not None and expired in (None, mine.producer_epoch):
                may_stand = sequence <= mine.last  # no other run has begun since
            else:
                may_stand = expired is not None
            is_vouched_for = expired_below is not None and expired_below > image.expired_epoch
            if may_stand and not is_untried and not is_vouched_for:
                raise _unknown(producer_id, image.expired_epoch)

        epoch = self._take_epoch(producer_id, check=check)
        self._mine[producer_id] = _Run(epoch, sequence, 0 if mine is None else sequence)
        return epoch

    def take_over(self, transactional_id: str | None) -> WriterFence | None:
        """Return the writer to append as; None without a transactional id.

        This process is one writer: its first append takes the next epoch.

        Raises:
            InvalidRequestError: The id is not a text.
            ProducerFencedError: A newer writer has begun.
        """
        if transactional_id is None:
            return None
        check_transactional_id(transactional_id)
        key = WriterFence(transactional_id=transactional_id, epoch=ProducerEpoch(0)).key
        if key not in self._mine:
            self._mine[key] = _Run(self._take_epoch(key))
        epoch = self._mine[key].producer_epoch
        writer = WriterFence(transactional_id=transactional_id, epoch=epoch)
        check_writer_not_fenced(self._metadata.image.producers, writer)
        return writer

    def _take_epoch(
        self,
        producer_id: str,
        given: ProducerEpoch | None = None,
        *,
        check: Callable[[MetadataImage], None] = lambda image: None,
    ) -> ProducerEpoch:
        """Begin a run under the next epoch, or under a `given` one, if `check` lets it."""

        def decide(image: MetadataImage) -> ControllerResult[ProducerEpoch]:
            check(image)
            # An id that has expired may have older runs: it goes on above all that have.
            newest = image.producers.get(producer_id, image.expired_epoch)
            taken = ProducerEpoch(newest + 1) if given is None else given
            if taken <= newest:
                if producer_id not in image.producers:
                    raise _unknown(producer_id, image.expired_epoch)
                return ControllerResult([], taken)
            record = ProducerRecord(
                producer_id=producer_id, producer_epoch=taken, cause="a run begins"
            )
            return ControllerResult([record], taken)

        return self._metadata.submit(decide, timeout_ms=self._timeout_ms)

    def _renew(self, producer_id: str) -> None:
        now_ms = self._clock.now_ms()

        def decide(image: MetadataImage) -> ControllerResult[None]:
            epoch = image.producers.get(producer_id)
            if epoch is None or not needs_renewal(image, producer_id, now_ms):
                return ControllerResult([], None)
            record = ProducerRecord(
                producer_id=producer_id,
                producer_epoch=epoch,
                renewed_at_ms=now_ms,
                cause="the run goes on",
            )
            return ControllerResult([record], None)

        self._metadata.submit(decide, timeout_ms=self._timeout_ms)


def check_producer(producer_id: object, producer_epoch: int | None, sequence: int | None) -> None:
    """Check that a producer and its append's number are given together, or neither.

    Raises:
        InvalidRequestError: They are not, or a number is not a whole number or below 0.
    """
    if producer_id is None:
        if producer_epoch is not None or sequence is not None:
            raise InvalidRequestError(
                "sequence and producer_epoch belong to a producer: give producer_id too"
            )
        return
    _check_producer_id(producer_id)
    for name, number in (("sequence", sequence), ("producer_epoch", producer_epoch)):
        if number is not None:
            check_whole_number(number, name)
    if producer_epoch is not None and producer_epoch < 0:
        raise InvalidRequestError(
            f"producer_epoch {producer_epoch} is not allowed: give a number from 0 on, or none"
        )
    if sequence is None or sequence < 0:
        raise InvalidRequestError(
            f"producer_id {producer_id!r} needs a sequence from 0 on (given: {sequence}):"
            " number the producer's appends, and repeat the number to retry one"
        )


def _check_producer_id(producer_id: object) -> None:
    if not isinstance(producer_id, str) or not producer_id:
        raise InvalidRequestError(f"producer_id can't be {producer_id!r}: give a text of your own")
    if producer_id.startswith(WRITER_PREFIX):
        raise InvalidRequestError(
            f"producer_id can't be {producer_id!r}: names that begin with {WRITER_PREFIX!r} are"
            " those of transactional ids; give another one"
        )


def producer_of(
    producer_id: str | None, sequence: int | None, transactional_id: str | None
) -> str | None:
    """Return the producer of an append: the transactional id, if a sequence comes without one."""
    if sequence is not None and producer_id is None:
        return transactional_id
    return producer_id


def check_transactional_id(transactional_id: object) -> None:
    """Check that a transactional id is one.

    Raises:
        InvalidRequestError: It is not a text, or empty.
    """
    if not isinstance(transactional_id, str) or not transactional_id:
        raise InvalidRequestError(
            f"transactional_id can't be {transactional_id!r}: give a text that only this writer"
            " and those that replace it have"
        )


def check_not_fenced(
    producers: Mapping[str, ProducerEpoch], producer_id: str, producer_epoch: int
) -> None:
    """Check that a producer is known and no newer run has begun, by the metadata's `producers`.

    Raises:
        ProducerFencedError: One has.
        UnknownProducerIdError: The id has expired.
    """
    newest = producers.get(producer_id)
    if newest is None:
        raise _unknown(producer_id)
    if newest > producer_epoch:
        raise producer_fenced(producer_id, producer_epoch, newest)


def _unknown(producer_id: str, expired_epoch: int | None = None) -> UnknownProducerIdError:
    """Return the error of an append under an id that has expired; `expired_epoch`: the highest that
    has, None: it is not at hand."""
    number = "above those that have expired" if expired_epoch is None else expired_epoch + 1
    return UnknownProducerIdError(
        f"producer {producer_id!r} has expired (nothing was appended under it for"
        " producer.id.expiration.ms), so whether an earlier try of this append stands is not known:"
        f" read the topic, then give producer_epoch {number} and append what is missing; if it"
        " pauses for so long as a rule, raise the setting"
    )


def check_writer_not_fenced(
    producers: Mapping[str, ProducerEpoch], writer: WriterFence | None
) -> None:
    """Check that no newer writer has taken over a transactional id, by the metadata's `producers`.

    Raises:
        ProducerFencedError: One has.
    """
    if writer is None:
        return
    newest = producers.get(writer.key)
    if newest is not None and newest > writer.epoch:
        raise writer_fenced(writer, newest)
