"""Reads the rows of the metadata log that are committed, in order, from any voter that has them.

For queries: the rows of a file go on as Arrow, a file at a time, and no record is made. A reader
asks no majority. It is told a batch that a majority was seen to hold, and a table that has this
batch has all before it as well, the same on each voter (Raft's log matching); so a task needs one
root, whichever is there, and goes on from another one in the middle.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError, ReplicaLostError
from kafka_on_spark.ids import Offset
from kafka_on_spark.raft.log.lookups import has_write
from kafka_on_spark.raft.log.raft_log import BatchKind, RaftBatch
from kafka_on_spark.raft.voter_set import Voter
from kafka_on_spark.service.quorum.ports import UNREADABLE
from kafka_on_spark.storage.metadata.metadata_files import FILE_SCHEMA
from kafka_on_spark.storage.metadata.metadata_log import DeltaMetadataLog, open_voter
from kafka_on_spark.storage.metadata.metadata_placement import LogFile
from kafka_on_spark.storage.roots.roots import StorageOptions

log = logging.getLogger(__name__)

ROW_SCHEMA: Final = pa.schema(
    [
        ("metadata_offset", pa.int64()),
        ("base_offset", pa.int64()),
        ("epoch", pa.int32()),
        *FILE_SCHEMA,
    ]
)
"""The metadata table's, without what the quorum keeps there for itself. `base_offset` is where the
record's decision begins, as `batch_base_offset`; both stand here, and `offset_delta`, so that what
is written for the table holds for these rows, too."""

ROWS_MAX: Final = 1 << 14
"""Rows that are handed over at once."""

ROUNDS: Final = 2
"""How often each voter is asked: a file may be merged into another while it is read, and a root be
away for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOrder:
    """Rows that a task reads.

    Attributes:
        start: The first one's offset.
        end: Offset after the last one.
        committed: A batch that is committed, and ends at `end` or later.
        cluster_id: The cluster's.
        voters: Where to look, the most likely first.
    """

    start: Offset
    end: Offset
    committed: RaftBatch
    cluster_id: str
    voters: tuple[Voter, ...]


def order_rows(metadata_log: DeltaMetadataLog, start: Offset, end: Offset) -> RowsOrder:
    """Return the order to read the rows between two offsets of a log that this process has read up
    to `end`, from the leader first, and then from who was seen to have most of it."""
    view = metadata_log.confirmed
    assert view is not None, "it was read"
    assert view.log.voters is not None, "a leader knows its voters"
    voters = sorted(
        view.log.voters.voters,
        key=lambda each: (each.key != view.key, -view.held.get(each.key, Offset(0))),
    )
    return RowsOrder(
        start=start,
        end=end,
        committed=view.log.batches[-1],
        cluster_id=metadata_log.identity.cluster_id,
        voters=tuple(map(metadata_log.located, voters)),
    )


def read_rows(order: RowsOrder, options: StorageOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an order, in order, in the columns of ROW_SCHEMA.

    Raises:
        KafkaStorageError: No voter that can be read has them, perhaps after some rows.
    """
    at, failures = order.start, dict[Voter, str]()
    for voter in order.voters * ROUNDS:
        try:
            for batch in _rows_on(voter, replace(order, start=at), options):
                yield batch
                at = Offset(at + batch.num_rows)
            return
        except UNREADABLE as error:
            log.info("voter %s is passed over at %d: %s", voter.key, at, error)
            failures[voter] = error.message
    why = "; ".join(f"{voter.key}: {message}" for voter, message in failures.items())
    raise KafkaStorageError(
        f"no voter of the metadata quorum that can be read has its log from {at} to {order.end}"
        f" ({why}): make more of their roots reachable from here, and run the query again"
    )


def decision_at(
    metadata_log: DeltaMetadataLog, offset: Offset, end: Offset, options: StorageOptions
) -> tuple[Offset, Offset]:
    """Return where the decision begins and ends that holds the record at `offset`, in a log that
    this process has read up to `end`.

    Raises: as `read_rows`.
    """
    view = metadata_log.confirmed
    assert view is not None, "it was read"
    for batch in view.log.from_offset(offset)[:1]:
        if batch.kind is not BatchKind.RUN:
            return batch.base_offset, batch.end_offset
    base, at = None, offset
    for rows in read_rows(order_rows(metadata_log, offset, end), options):
        for each in rows.column("batch_base_offset").to_pylist():
            if base not in (None, each):
                return Offset(base), at
            base, at = each, Offset(at + 1)
    assert base is not None, (offset, end)
    return Offset(base), at


def _rows_on(voter: Voter, order: RowsOrder, options: StorageOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a voter has.

    Raises:
        ReplicaLostError: It lacks what is committed, or is none any more.
        CorruptLogError: A file is missing or damaged, or there is a gap between two.
        And as VoterLog.load.
    """
    voter_log = open_voter(voter, order.cluster_id, options)
    table, files = voter_log.load_files()
    if not has_write(table.log, order.committed):
        raise ReplicaLostError(
            f"it does not have what was committed up to {order.committed.end_offset}: it is behind,"
            " or the quorum was forced, or the root restored"
        )
    at = order.start
    for file in files:
        if file.end_offset <= at or file.base_offset >= order.end:
            continue
        if file.base_offset > at:
            break
        end = Offset(min(file.end_offset, order.end))
        yield from _rows_in(file, voter_log.rows_of(file), at, end)
        at = end
    if at < order.end:
        raise CorruptLogError("a gap in the metadata log", expected=at, root=voter.root)


def _rows_in(
    file: LogFile, parts: Iterable[pa.Table], start: Offset, end: Offset
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file between two offsets."""
    sizes = [each.end_offset - each.base_offset for each in file.batches]
    epochs = np.repeat(np.array([each.epoch for each in file.batches], np.int32), sizes)
    place = file.base_offset
    for rows in parts:
        for at in range(max(start, place), min(end, place + rows.num_rows), ROWS_MAX):
            count = min(ROWS_MAX, end - at, place + rows.num_rows - at)
            found = _columns(rows.slice(at - place, count))
            offsets = np.arange(at, at + count, dtype=np.int64)
            bases = np.array(found["batch_base_offset"].to_pylist(), np.int64)
            first = at - file.base_offset
            found |= {
                "metadata_offset": pa.array(offsets),
                "base_offset": pa.array(bases),
                "offset_delta": pa.array((offsets - bases).astype(np.int32)),
                "epoch": pa.array(epochs[first : first + count]),
            }
            missing = (pa.nulls(count, kind) for kind in ROW_SCHEMA.types)
            columns = [
                found.get(name, nulls)
                for name, nulls in zip(ROW_SCHEMA.names, missing, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA)
        place += rows.num_rows


def _columns(rows: pa.Table) -> dict[str, pa.Array]:
    return {
        name: column.combine_chunks()
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    }
