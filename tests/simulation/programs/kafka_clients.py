"""Producers of Kafka's protocol, whose sequences count the records of a partition.

Each has up to some batches under way in a partition, which may come to it in any order and again,
by any process: a gateway that is killed has told its client nothing.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from kafka_on_spark.base.errors import (
    OutOfOrderSequenceError,
    ProducerFencedError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import PartitionKey, ProducerEpoch
from kafka_on_spark.gateway.producers import run_of
from kafka_on_spark.log.batch import CLIENT_PREFIX
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.records import ProducerRecord
from kafka_on_spark.produce.append import answer_staged
from kafka_on_spark.produce.leader_log import PartitionBatch
from kafka_on_spark.produce.staging import AppendPlan, plan_stage
from tests.simulation.checks.checker import Checker
from tests.simulation.programs.clients import Values
from tests.simulation.programs.cluster import TOPIC
from tests.simulation.programs.program import Program, Stop
from tests.simulation.world.processes import Driver

UNDER_WAY_MAX = 3


@dataclass(slots=True)
class Sending:
    """What a client sends, whichever process it sends it to.

    Attributes:
        producer_id: As the log names it.
        epoch: The client's own.
        ends: The next sequence of each partition.
        under_way: Sequence and values of each batch that has no answer, by partition, in order.
    """

    producer_id: str
    epoch: int = 0
    ends: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    under_way: defaultdict[int, list[tuple[int, list[int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @property
    def number(self) -> int:
        return int(self.producer_id.removeprefix(CLIENT_PREFIX), 16)

    def begin_again(self) -> None:
        """Take the next epoch; of what is under way nobody says what has become of it."""
        self.epoch += 1
        self.ends.clear()
        self.under_way.clear()


class KafkaClient(Program):
    """Sends batches until each is acknowledged."""

    def __init__(
        self, driver: Driver, checker: Checker, stop: Stop, values: Values, state: Sending
    ) -> None:
        super().__init__(driver, checker, stop)
        self._values = values
        self._state = state

    def once(self) -> None:
        state, image = self._state, self.driver.metadata.catch_up()
        if state.producer_id not in image.producers:
            self._register()
            return
        number = self.rng.choice(sorted(image.topic(TOPIC).partitions))
        waiting = state.under_way[number]
        if not waiting or (len(waiting) < UNDER_WAY_MAX and self.rng.random() < 0.6):
            values = self._new_values()
            waiting.append((state.ends[number], values))
            state.ends[number] += len(values)
        batch = waiting[0 if self.rng.random() < 0.7 else self.rng.randrange(len(waiting))]
        is_first, epoch = batch is waiting[0], state.epoch
        try:
            self._send(image, number, epoch, *batch)
        except (OutOfOrderSequenceError, UnknownProducerIdError):
            # Of the first one: its header has gone, or nobody knows whether it stands.
            if is_first and epoch == state.epoch:
                state.begin_again()
            raise
        except ProducerFencedError:
            if epoch == state.epoch:
                state.begin_again()
            raise
        if batch in waiting:
            waiting.remove(batch)

    def _register(self) -> None:
        def decide(image: MetadataImage) -> ControllerResult[None]:
            if self._state.producer_id in image.producers:
                return ControllerResult([], None)
            record = ProducerRecord(
                producer_id=self._state.producer_id,
                producer_epoch=ProducerEpoch(0),
                cause="a client begins",
            )
            return ControllerResult([record], None)

        self.driver.metadata.submit(decide, timeout_ms=self.driver.process.timeout_ms)

    def _new_values(self) -> list[int]:
        values, ledger = self._values.take(1 + self.rng.randrange(3)), self.checker.ledger
        ledger.invoked.update(values)
        ledger.idempotent.update(values)
        ledger.producer_of.update(dict.fromkeys(values, self._state.producer_id))
        return values

    def _send(
        self, image: MetadataImage, number: int, epoch: int, sequence: int, values: list[int]
    ) -> None:
        process, topic = self.driver.process, image.topic(TOPIC)
        key = PartitionKey(topic.topic_id, number)
        self.driver.node.waits_for = {(key.topic_id, number)}
        begun = self.checker.position(key)
        plan = AppendPlan(
            topic_id=topic.topic_id,
            topic=topic.name,
            order=plan_stage(
                image,
                topic,
                acks="all",
                has_producer=True,
                now_ms=process.clock.now_ms(),
                needs_min_isr=False,
            ),
            acks="all",
            producer=run_of(process, self._state.number, epoch, sequence),
            timeout_ms=process.timeout_ms,
            is_by_partition=True,
        )
        self.checker.ledger.alive_at_ms[self._state.producer_id] = self.checker.true_now_ms()
        found: list[PartitionBatch] = []
        rows = self.driver.stage(plan.order, {number: [values]})
        answer_staged(process, [(plan, rows)], found.append)
        [batch] = found
        if batch.error is not None:
            raise batch.error
        stands = batch.appended
        assert stands is not None
        stamp = stands.last if stands.batch is None else stands.batch.producer
        if batch.base_offset is not None and stamp is not None:
            wanted = (epoch << 40) + sequence
            self.checker.on_ack(
                key,
                batch.base_offset + wanted - stamp.sequence,
                values,
                begun=begun,
                is_duplicate=True,
            )
