"""What one call of a consumer hands out: a table of what there is, or the next record.

Apart from the consumer, which keeps other threads out: rows that were read for a record serve the
calls after it, as long as they are still the consumer's.
"""

import math
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from kafka_on_spark.cluster.consuming.consumed import ConsumerRecord, records_of
from kafka_on_spark.ids import check_number
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.consume.consuming import Consuming
from kafka_on_spark.spark.wiring.accounts import CONSUME
from kafka_on_spark.storage.access.requests import operating
from kafka_on_spark.storage.replicas.reader import row_schema

CHUNK_ROWS: Final = 500
"""Rows that become records at once. Source: max.poll.records."""

SLICE_MS: Final = 500
"""So long at least a member waits at once for partitions that others have, however short its
timeout is."""

GATHER_MS: Final = 50
"""A poll that has rows takes more of what is committed for so long."""


class Handouts:
    """Takes rows from one consumer's loop. For one thread at a time."""

    def __init__(self, consuming: Consuming[pa.RecordBatch], clock: Clock) -> None:
        self._consuming = consuming
        self._clock = clock
        self._chunk: Iterator[ConsumerRecord] = iter(())
        self._rows: pa.RecordBatch | None = None
        self._next_row = 0
        self._turn: object = None

    def next_rows(self, timeout_ms: float | None) -> pa.RecordBatch | None:
        """Return the first rows of a table; wait for them for at most `timeout_ms` (None: for as
        long as it takes). None: there are none. Rows that were read for records are forgotten.

        Raises:
            InvalidRequestError: The timeout is no number.
            And as `Consuming.next_rows`.
        """
        if timeout_ms is not None:
            check_number(timeout_ms, "timeout_ms")
        self._turn = None
        rows_max = self._consuming.settings.max_poll_records
        return self._consuming.next_rows(math.inf if timeout_ms is None else timeout_ms, rows_max)

    def table(self, rows: pa.RecordBatch | None) -> pa.Table:
        """Hand out these first rows, and what else there is for a moment, as one table.

        Raises: as `Consuming.next_rows`.
        """
        rows_max = self._consuming.settings.max_poll_records
        batches, count = [], 0
        until_ms = self._clock.monotonic_ms() + GATHER_MS
        while rows is not None:
            self._consuming.hand_out(rows)
            batches.append(rows)
            count += rows.num_rows
            if count >= rows_max or self._clock.monotonic_ms() >= until_ms:
                break
            rows = self._consuming.more_rows(rows_max - count)
        return pa.Table.from_batches(batches, row_schema(has_headers=True, has_epochs=True))

    def next_record(self, timeout_ms: float) -> ConsumerRecord | None:
        """Return the next record, which `hand_out_record` hands out; wait for it for at most
        `timeout_ms`, and as long as it is a member that waits for what others have. None: there is
        none.

        Raises: as `Consuming.next_rows`.
        """
        record = None
        if self._turn is not None:
            self._go_on()
            if self._consuming.turn is self._turn:
                record = next(self._chunk, None)
        if record is None:
            self._turn = None
            with operating(CONSUME):
                rows = self._consuming.next_rows(timeout_ms, CHUNK_ROWS)
                while rows is None and self._consuming.is_waiting:
                    rows = self._consuming.next_rows(max(timeout_ms, SLICE_MS), CHUNK_ROWS)
            if rows is None:
                return None
            self._rows, self._next_row, self._chunk = rows, 0, records_of(rows)
            self._turn = self._consuming.turn
            record = next(self._chunk)
        return record

    def _go_on(self) -> None:
        """Have an operation begin only where something is due: to begin one at each
        record costs about as much as the record."""
        if not self._consuming.is_due():
            self._consuming.take_as_processed()
            return
        with operating(CONSUME):
            self._consuming.go_on()

    def hand_out_record(self) -> None:
        """Take the record that `next_record` has returned as handed out."""
        assert self._rows is not None, "a record is one of its rows"
        self._consuming.hand_out(self._rows.slice(self._next_row, 1))
        self._next_row += 1
