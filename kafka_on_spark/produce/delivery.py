"""A producer's appends, try by try, until each partition has its answer: what is tried again.

What is refused, or of unknown outcome for the time being, is tried again under the same sequence,
so that what an earlier try has appended is found. As long as no try may have appended a partition's
records, those that expire, or that their topic does not allow any more, are left out of the next
one. Afterwards all of them stay in it: a retry must bring the same records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    DuplicateSequenceError,
    KafkaOnSparkError,
    NotEnoughReplicasAfterAppendError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordExpiredError,
    RequestTimedOutError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.produce.accumulator import expired_count
from kafka_on_spark.produce.sent_record import SentRecord, TopicLimits, refused
from kafka_on_spark.produce.stages import AnsweredPart

TRY_MS_MIN: Final = 1_000
"""A try that is cut off says less than one that ends."""

TRY_MS_MAX: Final = 30_000
"""Answers of a try come together. Source: Kafka's default of request.timeout.ms."""

SILENT_MS: Final = 2_000
"""So long something is tried before people are told why it takes longer."""

_UNKNOWN: Final = (
    CommitOutcomeUnknownError,
    NotEnoughReplicasAfterAppendError,
    RequestTimedOutError,
)
_RUN_IS_LOST: Final = (DuplicateSequenceError, OutOfOrderSequenceError, ProducerFencedError)
"""None of them befalls a producer whose id is its own: the next append takes another id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of some of a partition's records, in the order of their sends.

    Attributes:
        topic: The topic's name.
        partition: None if none was chosen.
        records: The records.
        base_offset: Offset of the first; None with an error, or if retention has removed them.
        append_time_ms: Their timestamp, where the time of the append counts.
        error: Why they are not acknowledged, or None.
    """

    topic: str
    partition: int | None
    records: Sequence[SentRecord]
    base_offset: int | None = None
    append_time_ms: int | None = None
    error: Exception | None = None


class AppendNumber(NamedTuple):
    """Which append of a producer it is: all tries of it have the same number.

    Attributes:
        producer_id: The producer's run.
        sequence: The append's place in that run.
    """

    producer_id: str
    sequence: int


Refusals = Mapping[PartitionKey, Sequence[tuple[SentRecord, KafkaOnSparkError]]]
"""Records that their topics do not allow, and why."""


@dataclass(slots=True)
class SlowWord:
    """What people are told, once, of an append that takes longer than two seconds."""

    began_ms: float
    is_said: bool = False

    def until_ms(self, end_ms: float) -> float:
        """Return when a try must end whose error may be said in time; it all ends at `end_ms`."""
        return end_ms if self.is_said else min(end_ms, self.began_ms + SILENT_MS)

    def say(self, now_ms: float, end_ms: float, error: KafkaOnSparkError) -> str | None:
        """Return why it is still tried, and for how long, if that is to be said now."""
        if self.is_said or now_ms - self.began_ms < SILENT_MS:
            return None
        self.is_said = True
        return f"tries for {max(end_ms - now_ms, 0) // 1000:.0f} s more: {error}"


@dataclass(slots=True)
class PendingPart:
    """One partition's records in an append.

    Attributes:
        topic: The topic's name.
        key: The partition.
        number: The append.
        records: What each try brings.
        answered_count: The first ones that have an answer already: they have expired.
        may_be_appended: A try may have appended them.
        last_error: Of the last try.
    """

    topic: str
    key: PartitionKey
    number: AppendNumber
    records: list[SentRecord]
    answered_count: int = 0
    may_be_appended: bool = False
    last_error: KafkaOnSparkError | None = None

    @property
    def unanswered(self) -> list[SentRecord]:
        """The records without an answer."""
        return self.records[self.answered_count :]


class Delivery:
    """Partitions that are tried together and have no answer yet.

    Attributes:
        lost_runs: The producer ids under which nothing more can be appended.
        slow: What is said of it, from the first retry on.
    """

    def __init__(self, parts: Iterable[PendingPart] = ()) -> None:
        self.lost_runs: set[str] = set()
        self._parts = {each.key: each for each in parts}
        self._taken = set(self._parts)
        self.slow: SlowWord | None = None

    def take_answered(self) -> set[PartitionKey]:
        """Return the partitions that have had their answers since this was last asked."""
        answered = self._taken - self._parts.keys()
        self._taken -= answered
        return answered

    @property
    def parts(self) -> list[PendingPart]:
        """The partitions without an answer, in the order in which they came."""
        return list(self._parts.values())

    @property
    def keys(self) -> frozenset[PartitionKey]:
        """Which partitions these are."""
        return frozenset(self._parts)

    def left_ms(self, now_ms: float) -> float:
        """Return how long it is until the next record expires; there is one."""
        first = min(each.records[each.answered_count].deadline_ms for each in self.parts)
        return max(first - now_ms, 0)

    def try_ms(self, now_ms: float) -> int:
        """Return how long the next try may take: until the next record expires, within bounds.

        Not only until it is to be said why it takes long, which counts from the first call: a try
        that is cut short while a root hangs begins the next one at nothing.
        """
        self.slow = self.slow or SlowWord(now_ms)
        return int(min(max(self.left_ms(now_ms), TRY_MS_MIN), TRY_MS_MAX))

    def slow_word(self, now_ms: float) -> str | None:
        """Return why these partitions have no answer yet, if that is to be said now."""
        for part in self.parts:
            if part.last_error is not None and self.slow is not None:
                end_ms = max(each.records[-1].deadline_ms for each in self.parts)
                word = self.slow.say(now_ms, end_ms, part.last_error)
                more = f" (and {len(self._parts) - 1} more)" if len(self._parts) > 1 else ""
                return word and f"{part.topic}-{part.key.partition}{more}: {word}"
        return None

    def expire(self, now_ms: float) -> list[Outcome]:
        """Return the outcomes of records beyond their deadlines."""
        outcomes = []
        for part in self.parts:
            start = part.answered_count
            end = start + expired_count(part.records, now_ms, start)
            if end == start:
                continue
            outcomes.append(_expired(part, part.records[start:end]))
            if end == len(part.records):
                del self._parts[part.key]
            elif part.may_be_appended:
                part.answered_count = end
            else:
                part.records = part.records[end:]
        return outcomes

    def refusals(self, limits: Mapping[TopicId, TopicLimits], now_ms: int) -> Refusals:
        """Return the records that `limits` do not allow, and that no try may have appended."""
        return {
            part.key: found
            for part in self.parts
            if part.key.topic_id in limits
            and not part.may_be_appended
            and (found := refused(limits[part.key.topic_id], part.records, now_ms))
        }

    def leave_out(self, refusals: Refusals) -> list[Outcome]:
        """Leave records out of the next try; return their outcomes."""
        outcomes = []
        for key, found in refusals.items():
            part, wrong = self._parts[key], {record for record, _ in found}
            outcomes += [
                Outcome(topic=part.topic, partition=key.partition, records=[record], error=error)
                for record, error in found
            ]
            part.records = [each for each in part.records if each not in wrong]
            if not part.records:
                del self._parts[key]
        return outcomes

    def answer(self, answers: Iterable[AnsweredPart]) -> list[Outcome]:
        """Take the answers of a try; return what is settled by them."""
        outcomes = []
        for each in answers:
            part = self._parts[each.key]
            if each.error is None:
                outcomes.append(_stands(part, each))
                del self._parts[each.key]
            else:
                outcomes += self.fail([part], each.error, may_be_appended=may_stand(each.error))
        return outcomes

    def fail(
        self, parts: Iterable[PendingPart], error: KafkaOnSparkError, *, may_be_appended: bool
    ) -> list[Outcome]:
        """Take a try's error for `parts`; return what is settled by it.

        `may_be_appended`: this try may have appended their records.
        """
        outcomes = []
        for part in parts:
            if part.key not in self._parts:
                continue  # settled by another error of the same try
            part.last_error = error
            part.may_be_appended = part.may_be_appended or may_be_appended
            if not is_passing(error):
                del self._parts[part.key]
                outcomes.append(_refused(part, error))
            if isinstance(error, _RUN_IS_LOST):
                self.lost_runs.add(part.number.producer_id)
        return outcomes

    def give_up(self, error: Exception) -> list[Outcome]:
        """Return the outcomes of all records if no more tries are made, because of `error`."""
        outcomes = [_failed(each, error) for each in self.parts]
        self._parts.clear()
        return outcomes


def is_passing(error: KafkaOnSparkError) -> bool:
    """Return whether another try of the same append may succeed. So it may where a root denies: it
    may be mounted for writing again, and records that were sent are not to be dropped."""
    return error.is_retriable or isinstance(error, (*_UNKNOWN, RootAccessDeniedError))


def may_stand(error: KafkaOnSparkError) -> bool:
    """Return whether what failed with an error of the append itself may be in the log."""
    return isinstance(error, _UNKNOWN) or bool(error.context.get("may_be_committed"))


def _refused(part: PendingPart, error: KafkaOnSparkError) -> Outcome:
    if part.may_be_appended and not error.context.get("may_be_committed"):
        words = f"{error.message}; a try of this append may be committed"
        error = type(error)(words, **{**error.context, "may_be_committed": True})
    return _failed(part, error)


def _failed(part: PendingPart, error: Exception) -> Outcome:
    return Outcome(
        topic=part.topic, partition=part.key.partition, records=part.unanswered, error=error
    )


def _stands(part: PendingPart, answer: AnsweredPart) -> Outcome:
    base = answer.base_offset
    return Outcome(
        topic=part.topic,
        partition=part.key.partition,
        records=part.unanswered,
        base_offset=None if base is None else base + part.answered_count,
        append_time_ms=answer.append_time_ms,
    )


def _expired(part: PendingPart, records: Sequence[SentRecord]) -> Outcome:
    why = "" if part.last_error is None else f" ({part.last_error})"
    error: KafkaOnSparkError
    if part.may_be_appended:
        error = RequestTimedOutError(
            f"a record for {part.topic}-{part.key.partition} was not acknowledged within"
            f" delivery.timeout.ms{why}; whether it will be committed is unknown: read the topic"
            " before you send it again"
        )
    else:
        error = expired_error(f"{part.topic}-{part.key.partition}", why)
    return Outcome(topic=part.topic, partition=part.key.partition, records=records, error=error)


def expired_error(where: str, why: str = "") -> RecordExpiredError:
    """Return the error of a record that no try has appended in time."""
    return RecordExpiredError(
        f"a record for {where} was not appended within delivery.timeout.ms{why}: send it again, or"
        " give more time"
    )
