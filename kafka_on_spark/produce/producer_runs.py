"""Runs of producers: which epoch the next append of one gets, and which append is refused.

Logs forget what they knew of an id that has expired, so an append from before would stand twice.
The epoch does not show it: a process that comes late from an old checkpoint takes the next epoch,
as each new run does. So an id that comes back has a first sequence in the register, for all
processes: of lower ones nobody knows whether they stand. (Kafka begins again at sequence 0 under
the next epoch, KIP-360: there no sequence means anything to another process.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError, UnknownProducerIdError
from kafka_on_spark.base.ids import ProducerEpoch
from kafka_on_spark.log.producer_state import producer_fenced
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.records import ProducerRecord

GIVEN_EPOCH_MAX: Final = 2**31 - 1
"""The highest epoch that there is: it has 32 bits."""

CHOSEN_EPOCH_MAX: Final = 2**30 - 1
"""The highest epoch that a caller may give at will; above it, only the one after the newest.

Each id that is new or comes back begins above the highest epoch with which any has expired: one
given epoch is a floor for all ids. Above this one a billion runs are left to those that count, a
thousand years of a run every half minute.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextAppend:
    """An append that a process begins.

    Attributes:
        producer_id: Its producer.
        sequence: Its number.
        producer_epoch: The epoch of the caller's choice; None: that of the process's own run.
        is_untried: The caller knows that no try of it was made.
        expired_below: As a chosen epoch, it vouches for the append if it is above all epochs that
            the id has had; the run takes the next epoch all the same.
    """

    producer_id: str
    sequence: int
    producer_epoch: ProducerEpoch | None = None
    is_untried: bool = False
    expired_below: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A run that a process has begun.

    Attributes:
        producer_epoch: Its epoch.
        last: The highest sequence that it has begun to append.
        is_only: No other run had the id since it was new, or came back: so what was appended under
            it since is up to `last`.
    """

    producer_epoch: ProducerEpoch
    last: int
    is_only: bool


def begin_append(
    image: MetadataImage, append: NextAppend, mine: OwnRun | None
) -> ControllerResult[OwnRun]:
    """Decide the epoch of `append`: that of `mine`, the process's run, or a new run's.

    Raises:
        ProducerFencedError: A newer run has begun elsewhere.
        UnknownProducerIdError: The id has expired, and a try of this append may stand.
        InvalidRequestError: The chosen epoch leaves too few above it.
    """
    producer_id, given = append.producer_id, append.producer_epoch
    known = image.producers.get(producer_id)
    own = given if mine is None else mine.producer_epoch
    if known is not None and own is not None:
        check_not_fenced(image.producers, producer_id, own)
    # An id that is new, or comes back, begins above all that have expired: it may have older runs.
    newest = image.expired_epoch if known is None else known
    _check_leaves_room(given, newest)
    vouched = append.expired_below if given is None else given
    is_vouched_for = vouched is not None and vouched > newest
    may_stand = _may_stand_forgotten(image, append, mine)
    is_refused = may_stand and not is_vouched_for and not append.is_untried
    if is_refused or (known is None and given is not None and given <= newest):
        is_new = known is None and mine is None and producer_id not in image.expired_producers
        raise _unknown(append, newest, is_new=is_new)
    if known is not None and own == known and not (may_stand and is_vouched_for):
        return ControllerResult([], _run(known, append, mine, is_only=_is_only(mine)))
    taken = ProducerEpoch(newest + 1) if given is None else given
    comes_back = known is None and (mine is not None or producer_id in image.expired_producers)
    record = ProducerRecord(
        producer_id=producer_id,
        producer_epoch=taken,
        first_sequence=append.sequence if comes_back or may_stand else None,
        cause="a run begins",
    )
    return ControllerResult([record], _run(taken, append, mine, is_only=known is None))


def _check_leaves_room(given: int | None, newest: int) -> None:
    """Check an epoch that is given to an id that has had epochs up to `newest`: the next one may be
    given always, since errors ask for it."""
    highest = max(CHOSEN_EPOCH_MAX, newest + 1)
    if given is not None and given > highest:
        raise InvalidRequestError(
            f"producer_epoch {given} is not allowed: give a number from 0 to {highest}, or none"
        )


def _is_only(mine: OwnRun | None) -> bool:
    return mine is not None and mine.is_only


def _run(
    producer_epoch: ProducerEpoch, append: NextAppend, mine: OwnRun | None, *, is_only: bool
) -> OwnRun:
    last = append.sequence if mine is None else max(mine.last, append.sequence)
    return OwnRun(producer_epoch=producer_epoch, last=last, is_only=is_only)


def _may_stand_forgotten(image: MetadataImage, append: NextAppend, mine: OwnRun | None) -> bool:
    """Return whether an earlier try of an append may stand in logs that have forgotten it."""
    producer_id = append.producer_id
    if producer_id in image.producers:
        return append.sequence < image.first_sequences.get(producer_id, 0)
    expired = image.expired_producers.get(producer_id)
    if mine is None:
        return expired is not None
    # Of an id that nobody else can have, it is not remembered with which epoch it has expired.
    is_known = mine.is_only and expired in (None, mine.producer_epoch)
    return not is_known or append.sequence <= mine.last


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
        raise UnknownProducerIdError(_HAS_EXPIRED.format(producer_id, "above those it has had"))
    if newest > producer_epoch:
        raise producer_fenced(producer_id, producer_epoch, newest)


def _unknown(append: NextAppend, newest: int, *, is_new: bool) -> UnknownProducerIdError:
    """Return the error of an append that may stand, of an id that has had epochs up to `newest`, or
    of one that `is_new` and is given an epoch that others have expired with."""
    words = _IS_LOW if is_new else _HAS_EXPIRED
    return UnknownProducerIdError(
        words.format(append.producer_id, newest + 1, given=append.producer_epoch),
        sequence=append.sequence,
    )


_IS_LOW = (
    "producer_epoch {given} is not allowed for producer {!r}, which is not known: other producers"
    " have expired with epochs that are as high or higher; give producer_epoch {}, or none"
)


_HAS_EXPIRED = (
    "producer {!r} has expired (nothing was appended under it for producer.id.expiration.ms), so"
    " whether an earlier try of this append stands is not known: read the topic, then give"
    " producer_epoch {} and append what is missing; if it pauses for so long as a rule, raise the"
    " setting"
)
