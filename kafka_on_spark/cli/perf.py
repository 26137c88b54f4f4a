"""`perf`: measures appends and reads, as kafka-producer-perf-test and kafka-consumer-perf-test do.

By a producer and a consumer as users have them. What is shown was measured, and nothing else.
"""

import random
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import typer

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.cli.process import Interrupts
from kafka_on_spark.cli.verbs import Action, Session, verb
from kafka_on_spark.groups.offsets import EARLIEST
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.deadlines import SystemClock

CLOCK: Final = SystemClock()


class Measured:
    """Records that were acknowledged or read since it was made, and how long that took."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self.began_ms = self.last_ms = CLOCK.precise_ms()
        self.record_count = self.size_bytes = 0
        self.error: BaseException | None = None
        self.more: dict[str, float | None] = {}
        self._latencies = array("d")

    def add(self, count: int, size_bytes: int) -> None:
        self.last_ms = CLOCK.precise_ms()
        self.record_count += count
        self.size_bytes += size_bytes

    def answer(self, sent_ms: float, size_bytes: int, _: object, error: Exception | None) -> None:
        """Take the answer to a record: its callback, of which a producer runs one at a time."""
        if error is not None:
            self.error = self.error or error
            return
        self.add(1, size_bytes)
        self._latencies.append(self.last_ms - sent_ms)

    def figures(self) -> dict[str, float | None]:
        """Return the figures, those of latencies if there are any."""
        seconds = (self.last_ms - self.began_ms) / 1000
        figures: dict[str, float | None] = {"record_count": self.record_count, "seconds": seconds}
        figures["records_per_s"] = self.record_count / seconds if seconds else None
        figures["mb_per_s"] = self.size_bytes / 2**20 / seconds if seconds else None
        if found := sorted(self._latencies):
            self.more["average_ms"] = sum(found) / len(found)
            self.more |= {f"p{each}_ms": found[len(found) * each // 100] for each in (50, 95, 99)}
            self.more["max_ms"] = found[-1]
        return figures | self.more


@contextmanager
def _measuring(session: Session) -> Iterator[Measured]:
    """Show what was measured within, also if an interrupt or an error has ended it."""
    with Interrupts() as interrupts:
        measured = Measured(interrupts)
        try:
            yield measured
        except (KeyboardInterrupt, KafkaOnSparkError) as error:
            measured.error = error
    if measured.record_count or interrupts.code is not None or measured.error is None:
        figures = measured.figures().items()
        session.write_answer({name: each and round(each, 3) for name, each in figures})
    if interrupts.code is not None:
        raise typer.Exit(interrupts.code)
    if measured.error is not None:
        raise measured.error


def produce(
    session: Session,
    topic: str,
    num_records: int,
    record_size: int,
    throughput: int = -1,
    **settings: Any,
) -> None:
    """Append records of random bytes, without keys."""
    session.cluster.image.topic(topic)
    with _measuring(session) as measured, session.cluster.producer(**settings) as producer:
        for number in range(num_records):
            if measured.error is not None:  # of a record that was sent before
                break
            with measured.interrupts.waiting():
                if throughput > 0:
                    due_ms = measured.began_ms + 1000 * number / throughput
                    CLOCK.sleep_ms(max(due_ms - CLOCK.precise_ms(), 0))
            answer = partial(measured.answer, CLOCK.precise_ms(), record_size)
            producer.send(topic, None, random.randbytes(record_size), callback=answer)


def consume(
    session: Session,
    topic: str,
    num_records: int | None = None,
    group: str | None = None,
    timeout_ms: int = 10_000,
) -> None:
    """Read a topic from its first record on, or from the group's offsets."""
    with (
        _measuring(session) as measured,
        session.cluster.consumer(
            topic, group=group, auto_offset_reset=EARLIEST, client_id="perf-consumer-client"
        ) as consumer,
    ):
        numbers = session.cluster.image.topic(topic).partitions
        ends = consumer.end_offsets([(topic, number) for number in numbers])
        while num_records is None or measured.record_count < num_records:
            with measured.interrupts.waiting():
                table = consumer.poll(min(500, timeout_ms))
            if table.num_rows:
                sizes = [pc.sum(pc.binary_length(table[name])) for name in ("key", "value")]
                measured.add(table.num_rows, sum(each.as_py() or 0 for each in sizes))
                first_ms = measured.last_ms - measured.began_ms
                measured.more.setdefault("first_record_ms", first_ms)
            # Also after rows: while others append, no poll is empty.
            mine = consumer.assignment() if num_records is None else []
            is_read = all(consumer.position(each) >= ends.get(each, 0) for each in mine)
            is_late = not table.num_rows and CLOCK.precise_ms() - measured.last_ms >= timeout_ms
            if not consumer.is_waiting and (is_late or (mine and is_read)):
                measured.error = consumer.failure
                break


perf = verb(
    """Measure how fast records are appended to a topic, or read from it; MB are 2^20 bytes.

    Options:
        --topic NAME  The topic.
        --num-records, --messages INTEGER>=1
            Append so many, or end once so many are read. Without it, consume ends with the last
            record that is committed when it begins.
        --record-size INTEGER>=1<=268435455  Bytes of each record.
        --throughput INTEGER>=-1  So many records a second at most; -1, the default: no limit.
        --acks, --request-required-acks all|1
            What acknowledges a record: all replicas in sync, or the leader alone.
        --batch-size INTEGER>=0  The producer's batch.size, in bytes.
        --linger-ms INTEGER>=0  The producer's linger.ms.
        --group NAME  Be a member of the group: begin at its offsets, and commit what was read.
        --timeout-ms, --timeout INTEGER>=0
            End if no record comes within this time; 10000 by default.
    """,
    Action(produce, more="acks batch_size linger_ms"),
    Action(consume),
    by_word=True,
)
