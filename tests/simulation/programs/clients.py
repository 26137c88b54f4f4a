"""The clients of a simulated cluster: they append and read. What one is told goes to the checker at
once.
"""

from dataclasses import dataclass
from typing import Any

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    KafkaOnSparkError,
    NotEnoughReplicasError,
    ProducerFencedError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume.reads import handling_of
from kafka_on_spark.log.read_order import plan_reads
from kafka_on_spark.log.reading import read_pieces
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.produce.append import (
    AppendRequest,
    append_records,
    append_staged,
    plan_append,
)
from kafka_on_spark.produce.staging import StagedSegment, StageOrder
from tests.simulation.checks.checker import Checker
from tests.simulation.checks.expiry import REFUSED
from tests.simulation.checks.ledger import Moment, require
from tests.simulation.programs.cluster import PARTITIONS_MAX, TOPIC
from tests.simulation.programs.program import Program, Stop
from tests.simulation.world.disks import rows_in
from tests.simulation.world.processes import Driver
from tests.simulation.world.scheduler import KilledError

CHANGED = "I11 a changed retry appends nothing"

TRIES_MAX = 50
"""Errors of one run of a producer before it is started again."""


class Reader(Program):
    """Reads everything that is committed, now and then, or what is new."""

    def __init__(self, driver: Driver, checker: Checker, stop: Stop) -> None:
        super().__init__(driver, checker, stop)
        self._positions: dict[PartitionKey, tuple[int, int]] = {}

    def once(self) -> None:
        metadata, checker = self.driver.metadata, self.checker
        begun = {key: checker.position(key) for key in checker.ledger.logs}
        image = metadata.catch_up()
        if TOPIC not in image.topic_ids:
            return
        for key, partition in image.partitions():
            checker.on_end(
                key,
                partition.high_watermark,
                begun=begun.get(key, Moment()),
                generation=partition.unclean_generation,
            )
        is_full = self.rng.random() < 0.3
        start = {}
        for number, partition in image.topic(TOPIC).partitions.items():
            key = PartitionKey(image.topic_ids[TOPIC], number)
            position = 0 if is_full else self._position(key, partition)
            start[key.partition] = max(position, partition.log_start_offset)
        for order in plan_reads(image, TOPIC, start):
            records = read_all(self.driver, order)
            topic = image.topics[order.key.topic_id]
            generation = topic.partitions[order.key.partition].unclean_generation
            checker.on_read(
                order.key,
                order.start_offset,
                records,
                generation=generation,
                end=order.end_offset,
            )
            self._positions[order.key] = (generation, order.end_offset)
        self.driver.second_inspections.inspect_due()

    def _position(self, key: PartitionKey, partition: PartitionRegistration) -> int:
        """Return where to go on: after an unclean election, not above what is left."""
        generation, position = self._positions.get(key, (0, 0))
        if generation == partition.unclean_generation:
            return position
        return min(position, partition.high_watermark)


def read_all(driver: Driver, order: Any) -> list[tuple[int, int]]:
    """Return (offset, value) of the range's records."""

    def read(piece: Any) -> list[tuple[int, int]]:
        driver.worker.segments.read(piece.address, piece.segment)
        rows = rows_in(piece.segment, piece.base_offset)
        first, end = (piece.base_offset + each for each in (piece.first_delta, piece.end_delta))
        return [row for row in rows if first <= row[0] < end]

    note = handling_of(driver.process)["note"]
    finish = driver.finish_compaction
    replicas = driver.worker.replicas
    return list(read_pieces(order, replicas, read, note, finish_compaction=finish))


@dataclass(slots=True)
class Values:
    """Unique values, for ever."""

    next: int = 0

    def take(self, count: int) -> list[int]:
        self.next += count
        return list(range(self.next - count, self.next))


Parts = dict[int, list[list[int]]]
"""Values of each segment, by partition."""


def split(segments: list[list[int]], count: int) -> Parts:
    """Return the values' places in `count` partitions: what a hash of keys decides."""
    parts: Parts = {}
    for values in segments:
        number = values[0] // 3 % count
        parts.setdefault(number, []).append(values)
    return parts


@dataclass(slots=True)
class Producing:
    """What a client appends, which outlives its process: a replayable source, say.

    Attributes:
        producer_id: None: a client without a producer, which never retries.
        inputs: By sequence; a client that appends a sequence again appends the same.
        done: Sequences below it are acknowledged, as the client's checkpoint says.
        vouched: The sequence and the epoch of the last process that vouched, and the process.
    """

    producer_id: str | None
    inputs: dict[int, list[list[int]]]
    done: int = 0
    vouched: tuple[int, int, object] = (0, -1, None)


class Appending(Program):
    """Appends; with a producer, it retries under the same sequence until it is told."""

    def __init__(
        self, driver: Driver, checker: Checker, stop: Stop, values: Values, state: Producing
    ) -> None:
        super().__init__(driver, checker, stop)
        self._values = values
        self._state = state
        self._sequence = state.done
        self._inputs = {} if state.producer_id is None else state.inputs
        self._tries = 0
        self._is_untried = False  # as this process vouches: nobody has tried what is next
        self._epoch: int | None = (
            None  # of its own choice, with which it vouches for what it appends
        )

    def once(self) -> None:
        state = self._state
        image = self.driver.metadata.catch_up()
        if self._is_untried and self._sequence in self._inputs:
            self._vouch()  # another process has tried it since
        elif self._is_left_to_another(image):
            self._vouch()
        self._is_untried = False
        segments = self._inputs.get(self._sequence)
        is_retry = segments is not None
        if segments is None:
            segments = self._inputs[self._sequence] = self._new_segments()
        if is_retry and self.driver.world.changes_retries and self._stands(segments):
            self._retry_changed(image, segments)
        acks = "all" if state.producer_id else self.rng.choice(["all", "all", "1", "1", "0"])
        try:
            self._append(image, segments, acks, is_retry)
        except KafkaOnSparkError as error:
            self._refused(error, segments)
            raise
        self._next()

    def _stands(self, segments: list[list[int]]) -> bool:
        """Return whether a part of an append is committed, and was not lost since."""
        standing = {
            value for log in self.checker.ledger.logs.values() for value, _ in log.committed
        }
        return not standing.isdisjoint(_flat(segments))

    def _retry_changed(self, image: MetadataImage, segments: list[list[int]]) -> None:
        """Retry with more records than those of the try that stands: none of them may stand."""
        more = self._new_segments()
        error: KafkaOnSparkError | None = None
        try:
            self._append(image, [*segments, *more], "all", is_retry=True)
        except KafkaOnSparkError as refusal:
            error = refusal
        if not self._stands(segments):
            return  # an unclean election has lost it meanwhile
        require(error is not None, CHANGED, f"{more} was appended with {segments}")
        self.checker.on_refused(_flat(more))
        if isinstance(error, ProducerFencedError):
            raise KilledError  # this run must stop; the other one goes on

    def _next(self) -> None:
        self._sequence += 1
        self._state.done = max(self._state.done, self._sequence)

    def _new_segments(self) -> list[list[int]]:
        segments = [
            self._values.take(1 + self.rng.randrange(2))
            for _ in range(self.rng.choice([1, 1, 1, 2, 4]))
        ]
        self.checker.ledger.invoked.update(_flat(segments))
        if self._state.producer_id is not None:
            self.checker.ledger.idempotent.update(_flat(segments))
            for value in _flat(segments):
                self.checker.ledger.producer_of[value] = self._state.producer_id
        return segments

    def run(self) -> None:
        """Work until told to stop; where ids expire, a process may come long after the one before."""
        if self.driver.world.silent_ms is not None:
            self.driver.clock.sleep_ms(self._silence_ms(0.5))
        super().run()

    def pause_ms(self) -> float:
        return self._silence_ms(0.1) or super().pause_ms()

    def _silence_ms(self, chance: float) -> float:
        """Return how long to do nothing: with a chance, longer than what is known of it may last."""
        silent_ms = self.driver.world.silent_ms
        if silent_ms is None or self.rng.random() >= chance:
            return 0.0
        return self.rng.random() * silent_ms

    def _append(
        self, image: MetadataImage, segments: list[list[int]], acks: str, is_retry: bool
    ) -> None:
        topic_id = image.topic(TOPIC).topic_id
        keys = [PartitionKey(topic_id, number) for number in range(PARTITIONS_MAX)]
        begun = {key.partition: self.checker.position(key) for key in keys}
        with_producer = self._state.producer_id is not None
        # To know of earlier tries, and how they were split, all partitions are asked.
        self.driver.node.waits_for = {(topic_id, number) for number in range(PARTITIONS_MAX)}
        began_ms, expired = self.checker.true_now_ms(), self._expired_epoch()
        request = AppendRequest(
            topic=TOPIC,
            acks=acks,
            producer_id=self._state.producer_id,
            producer_epoch=self._epoch,
            sequence=self._sequence if with_producer else None,
        )
        parts: Parts = {}

        def stage(order: StageOrder) -> list[StagedSegment]:
            parts.clear()
            parts.update(split(segments, len(order.targets)))
            if not with_producer:  # else all partitions may have an earlier try of it
                self.driver.node.waits_for = {(topic_id, number) for number in parts}
            return self.driver.stage(order, parts)

        if self._state.producer_id is None:
            result = append_records(self.driver.process, request, stage)
        else:
            self.driver.process.metadata.catch_up()
            plan = plan_append(self.driver.process, request)
            assert plan.producer is not None
            self.checker.ledger.alive_at_ms[plan.producer.producer_id] = began_ms
            [result] = append_staged(self.driver.process, [(plan, stage(plan.order))])
            is_alive = plan.producer.producer_epoch > expired
            require(is_alive, REFUSED, f"{plan.producer} appended {segments}, expired is {expired}")
        if acks != "all":
            return
        for number in parts:
            found = result.partitions[number]
            if found.base_offset is not None:
                self.checker.on_ack(
                    PartitionKey(topic_id, number),
                    found.base_offset,
                    [value for segment in parts[number] for value in segment],
                    begun=begun[number],
                    is_duplicate=found.is_duplicate or is_retry,
                )

    def _expired_epoch(self) -> int:
        """Return the epoch with which the producer id has expired last; -1: it never has."""
        return self.checker.ledger.expired_epochs.get(self._state.producer_id or "", -1)

    def _refused(self, error: KafkaOnSparkError, segments: list[list[int]]) -> None:
        if isinstance(error, InvalidRecordError):
            self._next()
        elif self._state.producer_id is None:
            if isinstance(error, NotEnoughReplicasError) and len(segments) == 1:
                self.checker.on_refused(_flat(segments))
            self._next()
        elif isinstance(error, ProducerFencedError):
            raise KilledError  # this run must stop; the other one goes on
        elif (
            isinstance(error, UnknownProducerIdError)
            and self.driver.world.silent_ms is not None
            and self.rng.random() < 0.5  # others try the same again
        ):
            self._vouch()

    def _vouch(self) -> None:
        """Go on with an append that no process has tried, under an epoch of one's own choice."""
        state, image = self._state, self.driver.metadata.image
        known = image.producers.get(state.producer_id or "", image.expired_epoch)
        self._sequence = max(state.inputs) + 1
        self._epoch = max(known, state.vouched[1]) + 1
        state.vouched = (self._sequence, self._epoch, self)
        self._is_untried = True

    def _is_left_to_another(self, image: MetadataImage) -> bool:
        """Return whether another process vouches that nobody tries what is next before its epoch.

        Without it an older run that lives could append a sequence, be acknowledged and expire
        before the new epoch begins, below what stands: a broken promise of the caller's.
        """
        sequence, epoch, process = self._state.vouched
        known = image.producers.get(self._state.producer_id or "", image.expired_epoch)
        return process not in (None, self) and self._sequence >= sequence and known < epoch

    def failed(self) -> None:
        """An acknowledged run of the same producer may be ahead."""
        if self._state.producer_id is not None:
            self._tries += 1
            if self._tries > TRIES_MAX:
                raise KilledError


def _flat(segments: list[list[int]]) -> list[int]:
    return [value for segment in segments for value in segment]
