"""`produce`: appends lines or JSON to a topic, as kafka-console-producer does.

Input is read by chunks of whole lines, each of which is one append, so memory is bounded: while a
chunk is appended nothing is read, a pipe fills up, and its writer waits. An append whose outcome is
unknown is made again under the same sequence, so what stands already is found and not doubled.
"""

import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import typer

from kafka_on_spark.base.config import INT_MAX, check_acks
from kafka_on_spark.base.errors import (
    ClusterClosedError,
    CommitOutcomeUnknownError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    KafkaOnSparkError,
    MessageTooLargeError,
)
from kafka_on_spark.base.ids import Clock, whole_number
from kafka_on_spark.cli.lines import READER_PROPERTIES, Parse, line_parser, parsed_json
from kafka_on_spark.cli.options import INTERRUPTED, properties_of
from kafka_on_spark.cli.output import note, plural, say, write_json
from kafka_on_spark.cli.process import Interrupts
from kafka_on_spark.cli.verbs import Session, alone
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.metadata.image import id_of_one_run
from kafka_on_spark.node.node import ID_SOURCE
from kafka_on_spark.produce.accumulator import LINGER_MS, TRY_MS_MIN, is_passing, may_stand
from kafka_on_spark.produce.append import AppendResult
from kafka_on_spark.produce.records import INPUT_SCHEMA
from kafka_on_spark.store.deadlines import SystemClock, pauses_ms

CHUNK_BYTES: Final = 8 * 2**20
"""Of input in one append: 80,000 lines of 100 bytes. An append's own cost is small beside theirs,
and they take a hundred megabytes of memory at most."""

READ_BYTES: Final = 2**20
WIDENING: Final = 8
"""A line of JSON has at most six bytes for one of the record's, and names of fields beside it."""

PAUSE_MS_MIN = 100
PAUSE_MS_MAX = 1_000
"""Between tries. Source: retry.backoff.ms, retry.backoff.max.ms."""

FIRST_TRY_MS: Final = 2_000
"""An append may take as long before a warning says what it waits for."""

STANDARD_INPUT: Final = "standard input"

PROPERTIES: Final = ("acks", "batch.size", "linger.ms")
"""Kafka's settings of a producer that are obeyed."""


@alone(
    """Append lines of standard input or of files to a topic, each as one record.

    The exit code is 0 if all is acknowledged; 2 if not: the records before the one that standard
    error names are; 3 if it is unknown whether some of them are. Records are appended in their
    order, and once: an append that has to be tried again is not doubled.

    Options:
        --topic NAME  The topic.
        [FILE]...
            Files whose lines are appended; - is standard input, which is read if none is named.
        --acks, --request-required-acks all|1
            What acknowledges a record: all replicas in sync, or the leader alone.
        --producer-property NAME=VALUE...
            Of Kafka's settings of a producer: acks, batch.size, linger.ms.
        --json
            Each line is a record: {"key": "a", "value": "b", "headers": {"h": "c"}, "timestamp":
            "2026-01-31T12:00:00Z", "partition": 0}; only value is needed. Bytes are
            {"base64": "…"}. What consume --json prints can be appended again.
        --property, --reader-property NAME=VALUE...
            How a line is read: parse.key, key.separator (a tab), null.marker; may be given more
            than once.
        --partition, -p INTEGER>=-1<=2147483647
            The partition of all records; -1: by key, whatever their JSON says.
    """,
    at_most_one_of=("json property",),
)
def produce(
    session: Session,
    topic: str,
    file: list[str] | None = None,
    acks: str | None = None,
    producer_property: list[str] | None = None,
    quiet: bool = False,
    json: bool = False,
    property: list[str] | None = None,
    partition: int | None = None,
) -> None:
    reader = properties_of(property, "--property", READER_PROPERTIES)
    client = properties_of(producer_property, "--producer-property", PROPERTIES)
    acks = check_acks(acks or client.get("acks", "all"))
    if acks == "0":
        raise InvalidRequiredAcksError(
            "acks can't be 0, which waits for no answer, and produce says what was acknowledged:"
            " give all or 1"
        )
    image = session.cluster.image
    settings = image.settings(image.topic(topic).topic_id)
    appends = Appends(
        session.cluster,
        topic,
        parse=parsed_json if json else line_parser(reader),
        partition=partition,
        acks=acks,
        delivery_timeout_ms=settings.integer("delivery.timeout.ms"),
    )
    bytes_max = settings.integer("max.message.bytes") * (WIDENING if json else 1) + 2**16
    with Interrupts() as interrupts, _answering(session, appends, is_quiet=quiet):
        source = Input(
            interrupts,
            bytes_max,
            linger_ms=_number(client, "linger.ms", LINGER_MS),
            chunk_bytes=_number(client, "batch.size", CHUNK_BYTES),
        )
        try:
            for chunk in source.lines(file or ["-"]):
                appends.append_chunk(chunk)
        except KeyboardInterrupt:
            raise typer.Exit(interrupts.code or INTERRUPTED) from None


@contextmanager
def _answering(session: Session, appends: "Appends", *, is_quiet: bool) -> Iterator[None]:
    """Say what stands, in spite of an error, too."""
    try:
        yield
    except KafkaOnSparkError as error:
        is_quiet = True
        done = plural(appends.record_count, "record")
        before = f"appended before: {done}" if appends.record_count else "nothing was appended"
        is_unknown = isinstance(error, CommitOutcomeUnknownError)
        kind = CommitOutcomeUnknownError if is_unknown else InvalidRequestError
        raise kind(f"{error}; {before}") from None
    finally:
        if session.is_json:
            rows = [row for _, row in sorted(appends.acknowledged.items())]
            count = appends.record_count
            write_json({"topic": appends.topic, "record_count": count, "partitions": rows})
        elif not is_quiet:
            say(f"Appended {plural(appends.record_count, 'record')} to {appends.topic}.")


def _number(client: Mapping[str, str], name: str, default: int) -> int:
    given = client.get(name, str(default))
    with suppress(ValueError):
        if 0 <= (number := whole_number(given)) <= INT_MAX:
            return number
    raise InvalidRequestError(f"{name} can't be {given!r}: give a number from 0 to {INT_MAX}")


# Input


class Chunk(NamedTuple):
    """Some lines of a source, whose first one has the number `first`."""

    lines: list[bytes]
    source: str = STANDARD_INPUT
    first: int = 1

    def name(self, low: int, high: int) -> str:
        """Return what people call the lines from one place to another (inclusive)."""
        if low == high:
            return f"line {self.first + low:,} of {self.source}"
        return f"lines {self.first + low:,} to {self.first + high:,} of {self.source}"


class Input(NamedTuple):
    """Reads chunks. One ends at `chunk_bytes`, or `linger_ms` after its first byte if no more is
    there. A line of more than `bytes_max` can't be a record, and is not read to its end."""

    interrupts: Interrupts
    bytes_max: int
    linger_ms: int
    chunk_bytes: int

    def lines(self, paths: Sequence[str]) -> Iterator[Chunk]:
        r"""Yield the lines of files, one file after the other; "-" is standard input. Lines end in
        \n or \r\n; the last one of a file need not end."""
        for path in paths:
            name, count = STANDARD_INPUT if path == "-" else path, 1
            with _opened(path, name) as descriptor:
                rest, is_end = bytearray(), False
                while not is_end:
                    if os.isatty(descriptor) and sys.stderr.isatty():
                        sys.stderr.write(">")
                        sys.stderr.flush()
                    with self.interrupts.waiting():
                        is_end = self._gather(descriptor, rest)
                    lines = _whole_lines(rest)
                    is_too_long = len(rest) > self.bytes_max
                    if is_end and rest and not is_too_long:
                        lines.append(bytes(rest).removesuffix(b"\r"))
                    if lines:
                        yield Chunk(lines, name, count)
                        count += len(lines)
                    if is_too_long:
                        raise MessageTooLargeError(
                            f"line {count:,} of {name} has more than {self.bytes_max:,} bytes,"
                            " which no record of the topic may have: make it smaller, or raise the"
                            " topic's max.message.bytes"
                        )

    def _gather(self, descriptor: int, rest: bytearray) -> bool:
        """Read a chunk's bytes into `rest`; return whether the input is at its end."""
        clock = SystemClock()
        more = select.poll()
        more.register(descriptor, select.POLLIN)
        read_bytes, end_ms = 0, None
        while read_bytes < max(self.chunk_bytes, 1):
            part = os.read(descriptor, READ_BYTES)
            if not part:
                return True
            rest += part
            read_bytes += len(part)
            end_ms = clock.monotonic_ms() + self.linger_ms if end_ms is None else end_ms
            if not more.poll(max(end_ms - clock.monotonic_ms(), 0)):
                break
        return False


def _whole_lines(rest: bytearray) -> list[bytes]:
    """Take the whole lines from the front of `rest`, which keeps the last one's beginning."""
    end = rest.rfind(b"\n")
    if end < 0:
        return []
    with memoryview(rest) as view:
        lines = bytes(view[:end]).split(b"\n")
    del rest[: end + 1]
    return [each.removesuffix(b"\r") for each in lines]


@contextmanager
def _opened(path: str, name: str) -> Iterator[int]:
    """Open a file for reading; "-" is standard input."""
    if path == "-" and sys.stdin is None:
        raise InvalidRequestError(f"{name} can't be read: it is closed")
    try:
        source = sys.stdin.fileno() if path == "-" else path
        with open(source, "rb", buffering=0, closefd=path != "-") as opened:
            yield opened.fileno()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidRequestError(f"{name} can't be read: {why}") from None


# Appends

_OF_A_RECORD = (InvalidRecordError, InvalidTimestampError, MessageTooLargeError)
"""What refuses a whole append before its first commit, for one of its records."""


@dataclass
class Appends:
    """The appends of one call, each of an idempotent producer, and what became of them.

    Not those of `Cluster.producer`, which go on with the other partitions where one fails: after
    the line that an error names nothing is to stand.

    Attributes:
        partition: Of all records; -1: the key decides, whatever a line says.
        acknowledged: By partition, how many records, and their first and last offset if known.
    """

    cluster: Cluster
    topic: str
    _: KW_ONLY
    delivery_timeout_ms: int
    parse: Parse
    partition: int | None = None
    acks: str = "all"
    clock: Clock = field(default_factory=SystemClock)
    record_count: int = 0
    acknowledged: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        uuid = ID_SOURCE.new_uuid()
        self._producer_id = id_of_one_run(uuid)
        self._turn = int(uuid.replace("-", ""), 16)
        self._sequence = 0

    def append_chunk(self, chunk: Chunk) -> None:
        """Append the records of a chunk, once, up to the first that can't be: those before it
        stand, and none after it."""
        columns, places, bad = self.parse(chunk.lines)
        batch = self._batch(columns)
        first, end = 0, batch.num_rows
        while first < batch.num_rows:
            name = chunk.name(places[first], places[end - 1])
            try:
                self._append(batch.slice(first, end - first))
                first, end = end, batch.num_rows
            except KeyboardInterrupt:
                note(f"{name}: whether it was appended is unknown.")
                raise
            except CommitOutcomeUnknownError as error:
                raise CommitOutcomeUnknownError(
                    f"{name}: whether it was appended is unknown ({error}); read the topic before"
                    " you append it again"
                ) from None
            except KafkaOnSparkError as error:
                if not isinstance(error, _OF_A_RECORD) or end - first == 1:
                    raise InvalidRequestError(f"{name}: {error}") from None
                end = first + (end - first) // 2
        if bad is not None:
            place, why = bad
            raise InvalidRequestError(f"{chunk.name(place, place)} {why}")

    def _batch(self, columns: Mapping[str, list[Any]]) -> pa.RecordBatch:
        """Return records as an append takes them; those that nothing gives a partition go to the
        sticky one."""
        count = len(columns["value"])
        nothing = [None] * count
        given = columns.get("partition", nothing)
        if self.partition is not None:
            given = nothing if self.partition < 0 else [self.partition] * count
        sticky = self.sticky()
        chosen = {
            **columns,
            "partition": [
                sticky if key is None and number is None else number
                for key, number in zip(columns.get("key", nothing), given, strict=True)
            ],
        }
        return pa.RecordBatch.from_arrays(
            [pa.array(chosen.get(each.name, nothing), each.type) for each in INPUT_SCHEMA],
            schema=INPUT_SCHEMA,
        )

    def sticky(self) -> int:
        """Return the partition of the next append's keyless records: each in turn that has a
        leader, the first one by chance. By the metadata that this process knows: each append reads
        them anew, and may wait for their root."""
        partitions = self.cluster._node.metadata.image.topic(self.topic).partitions
        numbers = sorted(partitions)
        led = [each for each in numbers if partitions[each].leader is not None] or numbers
        return led[(self._turn + self._sequence) % len(led)]

    def _append(self, batch: pa.RecordBatch) -> None:
        """Append a batch, tried for delivery.timeout.ms at most. If it fails, none of it stands,
        unless the error is a CommitOutcomeUnknownError."""
        end_ms = self.clock.monotonic_ms() + self.delivery_timeout_ms
        sequence, self._sequence = self._sequence, self._sequence + 1
        is_unknown = False
        for tries, pause_ms in enumerate(pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)):
            left_ms = end_ms - self.clock.monotonic_ms()
            try:
                result = self.cluster.append(
                    self.topic,
                    batch,
                    acks=self.acks,
                    producer_id=self._producer_id,
                    sequence=sequence,
                    timeout_ms=max(left_ms if tries else min(left_ms, FIRST_TRY_MS), TRY_MS_MIN),
                )
            except KafkaOnSparkError as error:
                is_unknown = is_unknown or _may_stand(error)
                left_ms = end_ms - self.clock.monotonic_ms()
                if not is_passing(error) or left_ms <= pause_ms:
                    if is_unknown:
                        raise CommitOutcomeUnknownError(str(error)) from None
                    raise
                if not tries:
                    note(f"{self.topic}: tries for {left_ms // 1000} s more: {error}")
                self.clock.sleep_ms(pause_ms)
            else:
                self._count(result)
                return

    def _count(self, result: AppendResult) -> None:
        for number, part in result.partitions.items():
            self.record_count += part.record_count
            begun = {"partition": number, "record_count": 0, "first_offset": part.base_offset}
            row = self.acknowledged.setdefault(number, begun | {"last_offset": None})
            row["record_count"] += part.record_count
            if part.base_offset is not None:
                row["last_offset"] = part.base_offset + part.record_count - 1


def _may_stand(error: KafkaOnSparkError) -> bool:
    """Return whether a part of an append that failed may be in the log."""
    is_partly = bool(error.context.get("acknowledged")) or "errors" in error.context
    return may_stand(error) or is_partly or isinstance(error, ClusterClosedError)
