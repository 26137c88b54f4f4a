"""Prints what a consumer hands out, until an end is reached, and commits what was printed.

It waits only in the consumer's `poll`.
"""

import logging
import select
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

import pyarrow as pa

from kafka_on_spark.cli.call.interrupts import Interrupts
from kafka_on_spark.cli.lines.printed import Form
from kafka_on_spark.cluster.consuming.consumed import records_of
from kafka_on_spark.cluster.consuming.consumer import Consumer, Partition
from kafka_on_spark.errors import KafkaOnSparkError, OffsetOutOfRangeError
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.visible import visible

log = logging.getLogger(__name__)

SLICE_MS: Final = 500
"""So often a wait sees that the reader of the output has gone away."""

UNREADABLE_MS: Final = 3_000
"""A call that is to end does so once nothing else is left for so long than partitions that can't be
read from any replica."""

COMMIT_MS: Final = 5_000
"""Between two commits of a group's offsets, which the metadata log keeps for ever. Source:
auto.commit.interval.ms."""


class Printing:
    """Prints records to standard output.

    Attributes:
        record_count: Records that were printed.
    """

    def __init__(
        self,
        consumer: Consumer,
        form: Form,
        interrupts: Interrupts,
        *,
        records_max: int | None,
        timeout_ms: int | None,
        commits: bool,
    ) -> None:
        self._consumer = consumer
        self._form = form
        self._interrupts = interrupts
        self._records_max = records_max
        self._timeout_ms = timeout_ms
        self._commits = commits
        self._clock = SystemClock()
        self._printed_to: dict[TopicPartition, int] = {}
        self._committed_at_ms = self._clock.monotonic_ms()
        self._reached: set[TopicPartition] = set()
        self._moved: set[TopicPartition] = set()
        self._open: set[TopicPartition] | None = None
        self._failing_since_ms: int | None = None
        self.record_count = 0

    def run(
        self, stops: dict[TopicPartition, int] | None, after_records: Callable[[int], None]
    ) -> None:
        """Print up to `stops`, an offset a partition (exclusive); without them, as records come.
        `after_records` is told how many were printed, as they are.

        Raises:
            KeyboardInterrupt: Somebody has interrupted it.
            BrokenPipeError: The reader of the output has gone away.
            KafkaStorageError: All that is left of what is to end can't be read from any replica.
            And what `Consumer.poll` raises.
        """
        idle_since_ms = self._clock.monotonic_ms()
        while not self._is_full() and not self._is_at_end(stops):
            with self._interrupts.waiting():
                table = self._consumer.poll(self._wait_ms(idle_since_ms))
            self._open = self._open if table.num_rows else None
            if table.num_rows:
                before = self.record_count
                self._print(table, stops)
                after_records(self.record_count - before)
                idle_since_ms = self._clock.monotonic_ms()
            elif self._consumer.is_waiting:
                idle_since_ms = self._clock.monotonic_ms()
            else:
                is_over = self._left_ms(idle_since_ms) <= 0
                self._check_readable(is_over=is_over, is_to_end=stops is not None)
                if is_over:
                    break
            _check_reader()
            self._commit_if_due()

    def _check_readable(self, *, is_over: bool, is_to_end: bool) -> None:
        failure, now_ms = self._consumer.failure, self._clock.monotonic_ms()
        if failure is None:
            self._failing_since_ms = None
            return
        self._failing_since_ms = self._failing_since_ms or now_ms
        if is_over or (is_to_end and now_ms - self._failing_since_ms >= UNREADABLE_MS):
            raise failure

    def commit(self) -> None:
        """Commit what was printed, of the partitions that are still there.

        Raises: as `Consumer.commit`.
        """
        if self._commits and self._printed_to:
            mine = set(self._consumer.assignment())
            offsets: dict[Partition, int] = {
                name: each for name, each in self._printed_to.items() if name in mine
            }
            if offsets:
                self._commit(offsets)
        self._printed_to.clear()

    def _commit(self, offsets: dict[Partition, int]) -> None:
        """Commit offsets. No partition keeps the others back: where records were deleted that were
        not printed yet, its group stands at the log start; where printed records were lost in an
        unclean election, they are printed again.
        """
        starts = self._consumer.beginning_offsets(list(offsets))
        kept: dict[Partition, int] = {
            name: max(offsets[name], start) for name, start in starts.items()
        }
        try:
            self._consumer.commit(kept)
        except OffsetOutOfRangeError:
            for name, offset in kept.items():
                self._commit_one(name, offset)

    def _commit_one(self, name: Partition, offset: int) -> None:
        try:
            self._consumer.commit({name: offset})
        except OffsetOutOfRangeError as error:
            log.warning("what was printed of one partition is not committed: %s", error)

    def give_up(self, names: Iterable[TopicPartition]) -> None:
        """Commit what was printed before partitions go to another member of the group. If that
        fails, the other one prints it again."""
        self._try_to_commit()
        self.lose(names)

    def lose(self, names: Iterable[TopicPartition]) -> None:
        """Forget what was printed of partitions that others have already: they print it again."""
        for name in names:
            self._printed_to.pop(name, None)
            self._reached.discard(name)
        self._open = None

    def _commit_if_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._committed_at_ms >= COMMIT_MS:
            self._try_to_commit()
            self._committed_at_ms = now_ms

    def _try_to_commit(self) -> None:
        """Commit what was printed; a failure is told, and the next time tries again.

        A caller that is no member any more does so in vain until the next poll tells it by `lose`,
        and joins.
        """
        try:
            self.commit()
        except KafkaOnSparkError as error:
            log.warning("what was printed is not committed: %s", error)

    def _is_full(self) -> bool:
        return self._records_max is not None and self.record_count >= self._records_max

    def _is_at_end(self, stops: dict[TopicPartition, int] | None) -> bool:
        if not stops:
            return stops is not None
        if self._open:
            # Positions move by what is printed; where there are gaps, the next idle poll tells.
            self._check_reached(self._open & self._moved, stops)
        self._moved.clear()
        if self._open:
            return False
        mine = set(self._consumer.assignment())
        self._open = mine & stops.keys() - self._reached
        self._check_reached(set(self._open), stops)
        # A member that has no partition yet waits for one: the others are at work on theirs.
        return bool(mine) and self._open == set()

    def _check_reached(self, names: set[TopicPartition], stops: dict[TopicPartition, int]) -> None:
        reached = {name for name in names if self._consumer.position(name) >= stops[name]}
        if reached:
            self._reached |= reached
            self._consumer.pause(reached)
        if self._open is not None:  # else partitions were lost meanwhile
            self._open -= reached

    def _left_ms(self, idle_since_ms: int) -> float:
        if self._timeout_ms is None:
            return SLICE_MS
        return idle_since_ms + self._timeout_ms - self._clock.monotonic_ms()

    def _wait_ms(self, idle_since_ms: int) -> float:
        if self._consumer.is_waiting:
            return SLICE_MS
        return max(min(SLICE_MS, self._left_ms(idle_since_ms)), 0)

    def _print(self, table: pa.Table, stops: dict[TopicPartition, int] | None) -> None:
        """Print rows below their stops, and no more than are asked for."""
        out, printed_to, moved = sys.stdout.buffer, {}, set()
        form = _for_a_terminal(self._form) if sys.stdout.isatty() else self._form
        for record in chain.from_iterable(map(records_of, table.to_batches())):
            name = TopicPartition(record.topic, record.partition)
            moved.add(name)
            if stops is not None and record.offset >= stops.get(name, 0):
                continue
            if self._is_full():
                break
            out.write(form(record))
            self.record_count += 1
            printed_to[name] = record.offset + 1
        out.flush()
        self._printed_to |= printed_to
        self._moved |= moved


def _for_a_terminal(form: Form) -> Form:
    """Return a form whose control and format characters are escapes, for a terminal obeys them.

    Line ends and tabs stay. What is not UTF-8 is shown as escapes, too.
    """
    return lambda record: visible(
        form(record).decode(errors="backslashreplace"), keep="\n\t"
    ).encode()


def _check_reader() -> None:
    """Check that somebody reads standard output: a pipe without a reader tells it at once.

    Raises:
        BrokenPipeError: Nobody does.
    """
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return  # no file at all, as in a test
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError
