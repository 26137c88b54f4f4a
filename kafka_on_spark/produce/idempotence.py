"""Runs of producers and writers, and where an earlier try of an append may stand. Whether a log has
an append already `log/producer_state.py` decides.

Logs forget what they knew of an id that has expired, so an append from before would stand twice.
The epoch does not show it: a process that comes late from an old checkpoint takes the next epoch,
as each new run does. So an id that comes back has a first sequence in the register, for all
processes: of lower ones nobody knows whether they stand. (Kafka begins again at sequence 0 under
the next epoch, KIP-360: there no sequence means anything to another process.)
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    InvalidRequestError,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import PartitionKey, ProducerEpoch, TopicId, check_whole_number
from kafka_on_spark.controller.expiry import needs_renewal
from kafka_on_spark.log.batch import (
    CLIENT_PREFIX,
    WRITER_PREFIX,
    ProducerStamp,
    StagedBatch,
    WriterFence,
)
from kafka_on_spark.log.producer_state import (
    find_append,
    find_sequence,
    known_producer,
    partition_count_of,
    producer_fenced,
    writer_fenced,
)
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import ControllerResult, Decide, MetadataImage
from kafka_on_spark.metadata.records import ProducerRecord
from kafka_on_spark.node.node import Node
from kafka_on_spark.produce.staging import AppendPlan, ProducerRun

CHECKED_MAX: Final = 10_000
"""Topics by run that a process remembers to have checked: it may live for months."""

GIVEN_EPOCH_MAX: Final = 2**31 - 1
"""The highest epoch that there is: it has 32 bits."""

CHOSEN_EPOCH_MAX: Final = 2**30 - 1
"""The highest epoch that a caller may give at will; above it, only the one after the newest.

Each id that is new or comes back begins above the highest epoch with which any has expired: one
given epoch is a floor for all ids. Above this one a billion runs are left to those that count, a
thousand years of a run every half minute.
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NextAppend:
    """An append that a process begins.

    Attributes:
        producer_epoch: The epoch of the caller's choice; None: that of the process's own run.
        is_untried: The caller knows that no try of it was made.
        expired_below: As a chosen epoch, it vouches for the append if it is above all epochs that
            the id has had; the run takes the next epoch all the same.
    """

    producer_id: str
    sequence: int
    producer_epoch: int | None = None
    is_untried: bool = False
    expired_below: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A run that a process has begun.

    Attributes:
        last: The highest sequence that it has begun to append.
        is_only: No other run had the id since it was new, or came back: so what was appended under
            it since is up to `last`.
    """

    producer_epoch: ProducerEpoch
    last: int
    is_only: bool


class ProducerRuns:
    """The runs that one process has begun: a part of its node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._mine: dict[str, OwnRun] = {}
        # Taken twice by one thread if a collection of garbage has it forget runs there.
        self._lock = threading.RLock()
        # A lock goes with the last thread that holds it or waits for it: ids are without number.
        self._begins: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def begin(self, append: NextAppend) -> ProducerRun:
        """Return the run to append under.

        Without an epoch it is this process's own run, whose first append takes the next epoch. An
        epoch that is given is committed, too, if it is new: so it fences lower epochs on every
        partition, and not only on those that it has appended to.

        A run renews its id when half of the time is over after which it would expire. If it has
        expired, what may be a retry is refused, here and in every other process. This run goes on
        with a sequence above those that it has begun to append, if no other run had the id; with an
        append that `is_untried`, as the caller knows; and with any if the caller vouches for it and
        for all later ones: by an epoch, or by `expired_below`, above all that the id has had.

        Raises:
            ProducerFencedError: A newer run has begun elsewhere.
            RootAccessDeniedError: This process may not write to the metadata.
            UnknownProducerIdError: The id has expired, and a try of this append may stand.
        """
        run = self._run_of(append)
        image = self._metadata.image
        check_not_fenced(image.producers, run.producer_id, run.producer_epoch)
        if needs_renewal(image, run.producer_id, self._node.clock.now_ms()):
            self._renew(run.producer_id)
        return run

    def _run_of(self, append: NextAppend) -> ProducerRun:
        producer_id, sequence = append.producer_id, append.sequence
        if append.producer_epoch is not None:
            epoch = self._committed_run(append, None).producer_epoch
            return ProducerRun(producer_id=producer_id, producer_epoch=epoch, sequence=sequence)
        with self._lock:
            begins = self._begins.setdefault(producer_id, threading.Lock())
        # Of threads that use an id first, one begins the run, and the others go on under it: two
        # runs of a process would fence each other.
        with begins:
            before = self._mine.get(producer_id)
            run = self._committed_run(append, before)
            self._remember(producer_id, run)
        return ProducerRun(
            producer_id=producer_id,
            producer_epoch=run.producer_epoch,
            sequence=sequence,
            is_next=before is None or sequence > before.last,
            is_only=run.is_only,
        )

    def _committed_run(self, append: NextAppend, mine: OwnRun | None) -> OwnRun:
        decided = begin_append(self._metadata.image, append, mine)
        if not decided.records:
            return decided.response
        return self._submit(lambda image: begin_append(image, append, mine))

    def _remember(self, producer_id: str, run: OwnRun) -> None:
        """Take what a thread has begun; another one may have begun a later append, or run."""
        with self._lock:
            newest = self._mine.get(producer_id, run)
            if newest.producer_epoch == run.producer_epoch:
                run = replace(run, last=max(run.last, newest.last))
            if newest.producer_epoch <= run.producer_epoch:
                self._mine[producer_id] = run

    @property
    def own(self) -> Mapping[str, OwnRun]:
        """The runs as they are now, by producer id; writers by their keys."""
        with self._lock:
            return dict(self._mine)

    def forget(self, producer_id: str) -> None:
        """Forget the run of an id under which nobody will append any more.

        Of any other id what this process has appended is remembered as long as the process lives:
        the register forgets an id that has expired, and what is tried again then is refused.
        """
        with self._lock:
            self._mine.pop(producer_id, None)

    def adopt(self, runs: Mapping[str, OwnRun]) -> None:
        """Go on with `runs` that another process has begun for the same writer."""
        for producer_id, run in runs.items():
            self._remember(producer_id, run)

    def take_over(self, transactional_id: str | None) -> WriterFence | None:
        """Return the writer to append as: this process is one, whose first append takes the next
        epoch. None without a transactional id."""
        if transactional_id is None:
            return None
        check_transactional_id(transactional_id)
        key = WriterFence(transactional_id=transactional_id, epoch=ProducerEpoch(0)).key
        mine = self._mine.get(key)
        # Writers have no sequences, and their ids do not expire.
        begins = NextAppend(producer_id=key, sequence=0)
        epoch = self._run_of(begins).producer_epoch if mine is None else mine.producer_epoch
        writer = WriterFence(transactional_id=transactional_id, epoch=epoch)
        check_writer_not_fenced(self._metadata.image.producers, writer)
        return writer

    def _renew(self, producer_id: str) -> None:
        def decide(image: MetadataImage) -> ControllerResult[None]:
            now_ms = self._node.clock.now_ms()  # an older one would take the time back
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

        self._submit(decide)

    def _submit(self, decide: Decide[T]) -> T:
        # A process that may not commit is told so: a read-only root would read as one that is away.
        self._metadata.log.check_writable()
        return self._metadata.submit(decide, timeout_ms=self._node.timeout_ms)


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
    highest = max(CHOSEN_EPOCH_MAX, newest + 1)  # the next one, since errors ask for it
    if given is not None and given > highest:
        raise InvalidRequestError(
            f"producer_epoch {given} is not allowed: give a number from 0 to {highest}, or none"
        )
    vouched = append.expired_below if given is None else given
    is_vouched_for = vouched is not None and vouched > newest
    may_stand = _may_stand_forgotten(image, append, mine)
    is_refused = may_stand and not is_vouched_for and not append.is_untried
    if is_refused or (known is None and given is not None and given <= newest):
        is_new = known is None and mine is None and producer_id not in image.expired_producers
        raise _unknown(append, newest, is_new=is_new)
    last = append.sequence if mine is None else max(mine.last, append.sequence)
    if known is not None and own == known and not (may_stand and is_vouched_for):
        is_only = mine is not None and mine.is_only
        return ControllerResult([], OwnRun(producer_epoch=known, last=last, is_only=is_only))
    taken = ProducerEpoch(newest + 1 if given is None else given)
    comes_back = known is None and (mine is not None or producer_id in image.expired_producers)
    record = ProducerRecord(
        producer_id=producer_id,
        producer_epoch=taken,
        first_sequence=append.sequence if comes_back or may_stand else None,
        cause="a run begins",
    )
    run = OwnRun(producer_epoch=taken, last=last, is_only=known is None)
    return ControllerResult([record], run)


def _may_stand_forgotten(image: MetadataImage, append: NextAppend, mine: OwnRun | None) -> bool:
    """Return whether an earlier try of an append may stand in logs that have forgotten it.

    If the id is registered, those below its first sequence may: it has come back. If it is not,
    any may of an id that has expired or that others may have had, and of an id that this process
    alone has had, those that it has begun.
    """
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
    """Raise ProducerFencedError if a newer run has begun, by the metadata's `producers`, and
    UnknownProducerIdError if the id has expired."""
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


def check_producer(producer_id: object, producer_epoch: int | None, sequence: int | None) -> None:
    """Check that a producer and its append's number are given together, or neither, and are whole
    numbers from 0 on."""
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
    if producer_epoch is not None and not 0 <= producer_epoch <= GIVEN_EPOCH_MAX:
        raise InvalidRequestError(
            f"producer_epoch {producer_epoch} is not allowed: give a number from 0 to"
            f" {GIVEN_EPOCH_MAX}, or none"
        )
    if sequence is None or sequence < 0:
        raise InvalidRequestError(
            f"producer_id {producer_id!r} needs a sequence from 0 on (given: {sequence}):"
            " number the producer's appends, and repeat the number to retry one"
        )


def _check_producer_id(producer_id: object) -> None:
    if not isinstance(producer_id, str) or not producer_id:
        raise InvalidRequestError(f"producer_id can't be {producer_id!r}: give a text of your own")
    if producer_id.startswith((WRITER_PREFIX, CLIENT_PREFIX)):
        raise InvalidRequestError(
            f"producer_id can't be {producer_id!r}: names that begin with {WRITER_PREFIX!r} or"
            f" {CLIENT_PREFIX!r} are those of transactional ids and of Kafka's clients; give"
            " another one"
        )


def producer_of(
    producer_id: str | None, sequence: int | None, transactional_id: str | None
) -> str | None:
    """Return the producer of an append: the transactional id, if a sequence comes without one."""
    if sequence is not None and producer_id is None:
        return transactional_id
    return producer_id


def check_transactional_id(transactional_id: object) -> None:
    if not isinstance(transactional_id, str) or not transactional_id:
        raise InvalidRequestError(
            f"transactional_id can't be {transactional_id!r}: give a text that only this writer"
            " and those that replace it have"
        )


def check_writer_not_fenced(producers: Mapping[str, ProducerEpoch], writer: WriterFence) -> None:
    """Check by the metadata's `producers` that no newer writer has a transactional id."""
    newest = producers.get(writer.key)
    if newest is not None and newest > writer.epoch:
        raise writer_fenced(writer, newest)


class EarlierTries:
    """Tells where earlier tries of appends may stand. One a process; threads may share it.

    A run that this process has begun fences those before it. So once it has checked a topic, only
    the appends that stood there then, and those that it has begun itself, can be tried again.
    """

    def __init__(self, _: Node | None = None) -> None:
        self._checked: dict[tuple[TopicId, str, int, int], int] = {}  # above which none stood

    def partitions(self, image: MetadataImage, plans: Iterable[AppendPlan]) -> list[PartitionKey]:
        """Return the partitions to check before the first commit of an append: all of its topics,
        also those that get no record; none, if no earlier try can stand there."""
        return [
            PartitionKey(plan.topic_id, number)
            for plan in plans
            if plan.topic_id in image.topics and self._may_stand(plan)
            for number in sorted(image.topics[plan.topic_id].partitions)
        ]

    def note_checked(self, plans: Iterable[AppendPlan], last: int) -> None:
        """Remember that the topics of an append were checked, where sequence `last` stood last."""
        if len(self._checked) >= CHECKED_MAX:
            self._checked.clear()  # each run that goes on checks once more
        for key in filter(None, map(_run_at, plans)):
            self._checked[key] = max(last, self._checked.get(key, -1))

    def has_checked(self, plan: AppendPlan) -> bool:
        """Return whether an append of the run was checked that is split as the plan is."""
        return _run_at(plan) in self._checked

    def _may_stand(self, plan: AppendPlan) -> bool:
        run, key = plan.producer, _run_at(plan)
        if run is None or key is None:
            return False
        is_above = key in self._checked and run.sequence > self._checked[key]
        return not (run.is_next and (run.is_only or is_above))


def _run_at(plan: AppendPlan) -> tuple[TopicId, str, int, int] | None:
    run = plan.producer
    if run is None or plan.is_by_partition:
        return None
    return plan.topic_id, run.producer_id, int(run.producer_epoch), len(plan.order.targets)


def partition_count_of_first_try(logs: Sequence[ReplicaState], run: ProducerRun) -> int | None:
    """Return into how many partitions an append was split that stands in one of the logs of its
    topic; None: it is new.
    """
    for log in logs:
        count = partition_count_of(log, run.producer_id, run.sequence)
        if count is not None:
            return count
    last = max((known_producer(log, run.producer_id).sequence for log in logs), default=-1)
    if run.sequence <= last:
        raise OutOfOrderSequenceError(
            f"producer {run.producer_id!r} sent sequence {run.sequence} after {last}: it stands"
            " nowhere, or retention has taken it, and the topic has more partitions since; give"
            " each append the next number"
        )
    return None


def check_tries(
    image: MetadataImage,
    logs: Mapping[PartitionKey, ReplicaState | None],
    batches: Mapping[PartitionKey, StagedBatch],
    keys: Iterable[PartitionKey],
) -> int:
    """Check that what stands of an earlier try, in any partition of `keys`, is of the same append:
    of a retry with other records nothing is appended. Return the last sequence that stands there.

    `logs`: of leaders, as they were read; None: nothing was ever appended to the partition.
    `batches`: what the append brings. It is no fence: of two tries at once, each may look before
    the other commits.
    """
    last, others = -1, []
    stamp = next((each.producer for each in batches.values() if each.producer is not None), None)
    if stamp is None:
        return last
    for key in keys:
        if (state := logs[key]) is None:
            continue
        last = max(last, known_producer(state, stamp.producer_id).sequence)
        if (text := _other_records(state, stamp, batches.get(key))) is not None:
            others.append(f"{image.name_of(key)} {text}")
    if others:
        raise DuplicateSequenceError(
            f"producer {stamp.producer_id!r} appended sequence {stamp.sequence} before, with other"
            f" records, which stand in {', '.join(others)}: nothing was appended now; append the"
            " records of that try again to finish it, or these under a later sequence"
        )
    return last


def _other_records(
    state: ReplicaState, stamp: ProducerStamp, batch: StagedBatch | None
) -> str | None:
    """Return which other records stand in a log under an append's number, or None. `batch`: what
    the append brings to the log's partition, if anything."""
    try:
        if batch is None:
            find_sequence(state, stamp)
        else:
            find_append(state, batch)
    except DuplicateSequenceError as error:
        return "({record_count} from offset {base_offset})".format(**error.context)
    except OutOfOrderSequenceError:
        if batch is not None:
            raise
        # of a partition that gets no record, it says that nothing stands there
    return None
