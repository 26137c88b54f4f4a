"""`consume`: prints records as they come, or up to an end, as kafka-console-consumer does.

A group's offsets are committed by the consumer, which takes what it handed out as processed once it
is asked for more. So what is handed out and not printed is sought back to.
"""

import re
import select
import sys
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from math import inf
from typing import Any, Final

import pyarrow as pa
import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import TopicPartition
from kafka_on_spark.base.text import visible
from kafka_on_spark.cli.lines import FLAGS, NULL, SEPARATORS, Form, form_of, json_form
from kafka_on_spark.cli.options import INTERRUPTED, parsed_flag, properties_of
from kafka_on_spark.cli.output import note, plural
from kafka_on_spark.cli.process import Interrupts
from kafka_on_spark.cli.verbs import Session, alone
from kafka_on_spark.consume.consumer import Consumer
from kafka_on_spark.consume.consuming import records_of
from kafka_on_spark.consume.subscription import Subscribe, SubscribePattern, partitions_of
from kafka_on_spark.groups.offsets import EARLIEST, LATEST
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.store.deadlines import SystemClock

SLICE_MS: Final = 500
"""So often a wait sees that the reader of the output has gone away."""

UNREADABLE_MS: Final = 3_000
"""A call that is to end does so after this time if it can read no replica of what is left."""

PROPERTIES: Final = ("auto.offset.reset", "client.id", "client.rack", "enable.auto.commit")
"""Kafka's settings of a consumer that are obeyed."""


@alone(
    """Print committed records as they come, until ^C or an end that is asked for.

    Without an option that says where to begin, it prints what comes from now on. Keys and values
    are printed as the bytes they are; at a terminal, control characters as escapes.

    Options:
        --topic NAME  The topic.
        --include EXPRESSION  All topics of such names.
        --partition, -p N>=0...  Only this partition; may be given more than once.
        --group NAME
            Be a member of the group: print a share of the partitions, go on from the group's
            offsets, and commit what was printed.
        --consumer-property, --command-property NAME=VALUE...
            Of Kafka's settings of a consumer: auto.offset.reset, client.id, client.rack,
            enable.auto.commit.
        --from-beginning
            Begin with the first record that is kept; a group only where it has no offset.
        --offset WHERE
            Begin in each partition at an offset, with its last records (-N), at earliest or latest.
            [default: latest; with --exit, earliest]
        --exit, -e  End with the last record that is committed when the call begins.
        --max-messages INTEGER>=0  End after so many records.
        --timeout-ms INTEGER>=0  End if no record comes within this time.
        --json  Print each record whole, as a line of JSON.
        --property, --formatter-property NAME=VALUE...
            What is printed: print.timestamp, print.partition, print.offset, print.epoch,
            print.headers, print.key, print.value (true or false), key.separator, line.separator,
            headers.separator, null.literal; may be given more than once.
    """,
    more="from_beginning offset exit max_messages timeout_ms json property",
    one_of=("topic include",),
    # The offsets of a group say where its members begin.
    at_most_one_of=(
        "partition include",
        "group partition",
        "group offset",
        "offset from_beginning",
        "json property",
    ),
    is_open=False,
    has_format=False,
)
def consume(
    session: Session,
    topic: str | None = None,
    include: str | None = None,
    partition: list[int] | None = None,
    group: str | None = None,
    consumer_property: list[str] | None = None,
    quiet: bool = False,
    **more: Any,
) -> None:
    form = _form(more)
    client = properties_of(consumer_property, "--consumer-property", PROPERTIES)
    commits = parsed_flag("enable.auto.commit", client.get("enable.auto.commit", "true"))
    # Kafka's tool begins with what comes. A call with --exit means the records that are there.
    usual = EARLIEST if "exit" in more and group is None else LATEST
    default = EARLIEST if "from_beginning" in more else client.get("auto.offset.reset", usual)
    start = _start(default, more)
    with session.opened(), Interrupts() as interrupts:
        consumer = session.cluster.consumer(
            None if partition else topic,
            pattern=include,
            partitions=[(str(topic), number) for number in partition] if partition else None,
            group=group,
            auto_offset_reset=default,
            enable_auto_commit=commits and group is not None,
            client_id=client.get("client.id", "console-consumer"),
            client_rack=client.get("client.rack"),
        )
        printing = Printing(
            consumer,
            form,
            interrupts,
            records_max=more.get("max_messages", inf),
            timeout_ms=more.get("timeout_ms"),
        )
        try:
            with consumer:
                if group is None:
                    printing.begin_at(start, has_end="exit" in more)
                elif "exit" in more:
                    printing.end_at(session.cluster.image, topic, include)
                is_interrupted = printing.run()
        except KeyboardInterrupt:  # the second one: in the middle of a record, or of a commit
            is_interrupted = True
        except BrokenPipeError:  # as when `head` has what it wants
            quiet = True
            raise
        finally:
            if not quiet:
                note(f"Processed a total of {plural(printing.record_count, 'record')}.")
        if is_interrupted:
            raise typer.Exit(interrupts.code or INTERRUPTED)


def _form(more: Mapping[str, Any]) -> Form:
    """Return what is printed of a record. A terminal obeys control and format characters: it gets
    escapes in place of them, but for line ends and tabs, and of what is not UTF-8."""
    known = [*FLAGS, *SEPARATORS, NULL]
    given = properties_of(more.get("property"), "--property", known)
    form = json_form if "json" in more else form_of(given)
    if not sys.stdout.isatty():
        return form
    return lambda record: visible(
        form(record).decode(errors="backslashreplace"), keep="\n\t"
    ).encode()


def _start(default: str, more: Mapping[str, Any]) -> str | int:
    text = more.get("offset", default)
    if text in (EARLIEST, LATEST):
        return str(text)
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return int(text)
    raise InvalidRequestError(
        f"can't begin at {text!r}: give an offset, -N for the last N records, earliest or latest"
    )


def start_offset(start: str | int, log_start: int, end: int) -> int:
    """Return where to begin in a partition: at the log's end, instead of beyond it. An offset that
    is gone stays: the read reports it."""
    if isinstance(start, str):
        return log_start if start == EARLIEST else end
    wanted = max(end + start, log_start) if start < 0 else start
    return min(wanted, end)


@dataclass
class Printing:
    """Prints records to standard output, and counts them."""

    consumer: Consumer
    form: Form
    interrupts: Interrupts
    _: KW_ONLY
    records_max: float
    timeout_ms: int | None
    record_count: int = 0
    _stops: Mapping[TopicPartition, int] | None = None
    _failing_since_ms: float | None = None

    def begin_at(self, start: str | int, *, has_end: bool) -> None:
        """Go to where the call begins in each partition. `has_end`: it ends at what is committed
        now."""
        names = self.consumer.assignment()
        firsts = self.consumer.beginning_offsets(names)
        ends = self.consumer.end_offsets(names)
        places = {name: start_offset(start, firsts[name], ends[name]) for name in names}
        for name, place in places.items():
            self.consumer.seek(name, place)
        if has_end:
            self._stops = ends
            self._pause_at_stops(names)

    def end_at(self, image: MetadataImage, topic: str | None, pattern: str | None) -> None:
        """End at what is committed now, in all partitions of the topics: a member of a group may
        be assigned any of them."""
        asked = SubscribePattern(str(pattern)) if topic is None else Subscribe((topic,))
        self._stops = self.consumer.end_offsets(partitions_of(image, asked))

    def run(self) -> bool:
        """Print records as they come, up to where the call ends. Return whether somebody has
        interrupted it; a second time raises KeyboardInterrupt."""
        clock = SystemClock()
        idle_since_ms = clock.monotonic_ms()
        while self.record_count < self.records_max and not self._is_at_end():
            left_ms = float(SLICE_MS)
            if self.timeout_ms is not None and not self.consumer.is_waiting:
                left_ms = idle_since_ms + self.timeout_ms - clock.monotonic_ms()
            try:
                with self.interrupts.waiting():
                    table = self.consumer.poll(max(min(left_ms, SLICE_MS), 0))
            except KeyboardInterrupt:
                return True
            self._print(table)
            if table.num_rows or self.consumer.is_waiting:
                idle_since_ms = clock.monotonic_ms()
            else:
                # Partitions may have come, and positions move over gaps, too.
                self._pause_at_stops(
                    set(self.consumer.assignment()).difference(self.consumer.paused())
                )
                is_over = left_ms <= 0
                self._check_readable(clock.monotonic_ms(), is_over=is_over)
                if is_over:
                    break
            _check_reader()
        return False

    def _check_readable(self, now_ms: float, *, is_over: bool) -> None:
        failure = self.consumer.failure
        if failure is None:
            self._failing_since_ms = None
            return
        self._failing_since_ms = self._failing_since_ms or now_ms
        is_long = now_ms - self._failing_since_ms >= UNREADABLE_MS
        if is_over or (is_long and self._stops is not None):
            raise failure

    def _is_at_end(self) -> bool:
        """Return whether all partitions are at their stops. A member without partitions waits for
        one, while the others read theirs."""
        if not self._stops:
            return self._stops is not None
        mine = set(self.consumer.assignment())
        return bool(mine) and mine <= set(self.consumer.paused())

    def _pause_at_stops(self, names: Iterable[TopicPartition]) -> None:
        if self._stops is not None:
            stops, position = self._stops, self.consumer.position
            self.consumer.pause([name for name in names if position(name) >= stops.get(name, 0)])

    def _print(self, table: pa.Table) -> None:
        """Print rows below their stops, and no more than are asked for."""
        names: set[TopicPartition] = set()
        left: dict[TopicPartition, int] = {}
        for record in chain.from_iterable(map(records_of, table.to_batches())):
            name = TopicPartition(record.topic, record.partition)
            names.add(name)
            is_beyond = self._stops is not None and record.offset >= self._stops.get(name, 0)
            if is_beyond or self.record_count >= self.records_max:
                left.setdefault(name, record.offset)
                continue
            sys.stdout.buffer.write(self.form(record))
            self.record_count += 1
        sys.stdout.buffer.flush()
        for name, offset in left.items():
            self.consumer.seek(name, offset)
        self._pause_at_stops(names)


def _check_reader() -> None:
    """Check that somebody reads standard output: a pipe without a reader tells it at once."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return  # no file at all, as in a test
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError
