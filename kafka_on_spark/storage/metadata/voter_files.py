"""Writes the batches that a voter's table appends, as files that its commit will name.

A decision is a file; so is each run of batches that a voter copies from its leader's table, and so
are many batches that a voter copies at once which was away. Every
file has a name of its own, so a batch that was cut and is brought back by a later leader comes
under another name than the one that a cleaner may be removing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.raft.log.raft_log import RaftBatch
from kafka_on_spark.raft.log.runs import copied_together
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.metadata_files import (
    decode_tables,
    encode_file,
    encode_rows,
    expired_rows,
    first_row,
    merge_files,
    times_of,
)
from kafka_on_spark.storage.metadata.metadata_placement import LogFile, new_file
from kafka_on_spark.storage.roots.roots import RootFiles, flush, is_local


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch, or a run of them, as the bytes of a file: who has written it need not read it to
    copy it.

    Attributes:
        base_offset: Offset of its first record.
        end_offset: Offset after its last record.
        time_ms: When it was made.
        content: The bytes.
        has_expired: Records in it are gone.
    """

    base_offset: Offset
    end_offset: Offset
    time_ms: int
    content: pa.Buffer
    has_expired: bool = False


def encoded(batch: MetadataBatch) -> EncodedBatch:
    """Return a batch as the bytes of a file."""
    content = encode_file(batch.records, batch.stamp, batch.base_offset)
    return EncodedBatch(batch.base_offset, batch.end_offset, batch.stamp.time_ms, content)


def read_encoded(
    root_files: RootFiles, uri: str, files: Sequence[LogFile], header: RaftBatch
) -> EncodedBatch:
    """Return the rows of a header, which may be a long run, as they are: no record is made. `files`
    are those of the table at `uri`, in order.

    Raises:
        CorruptLogError: A file is missing or damaged, or lacks some of them.
        KafkaStorageError: The root does not answer.
    """
    newest: list[pa.Table] = []
    has_expired = False

    def parts() -> Iterator[pa.Table]:
        nonlocal has_expired
        for file in files:
            if file.end_offset <= header.base_offset or file.base_offset >= header.end_offset:
                continue
            path = f"{uri}/{file.path}"
            content = root_files.read(path, METADATA_FILE_BYTES_MAX)
            wanted = file.rows_between(header.base_offset, header.end_offset)
            for part in decode_tables(content, path, file.size, wanted):
                first = max(wanted.start - first_row(part), 0)
                rows = part.slice(first, wanted.stop - first_row(part) - first)
                newest[:] = [rows.slice(rows.num_rows - 1)]
                has_expired |= expired_rows(rows)
                yield rows

    content, count = encode_rows(parts())
    if count != header.end_offset - header.base_offset:
        raise CorruptLogError("rows of the metadata log are missing", base=header.base_offset)
    [time_ms] = times_of(newest[0])
    return EncodedBatch(header.base_offset, header.end_offset, time_ms, content, has_expired)


def write_batches(
    files: RootFiles, uri: str, headers: Sequence[RaftBatch], batches: Sequence[EncodedBatch]
) -> list[LogFile]:
    """Write `batches`, oldest first, as flushed files: one a header, or one of many that are known
    to be committed. Return the files.

    Raises:
        CorruptLogError: The batches are not those of the headers.
        KafkaStorageError: The root does not answer.
    """
    added = []
    place = 0
    for group in copied_together(headers):
        first = place
        while place < len(batches) and batches[place].end_offset <= group[-1].end_offset:
            place += 1
        own = batches[first:place]
        ends = own and (own[0].base_offset, own[-1].end_offset)
        if ends != (group[0].base_offset, group[-1].end_offset):
            raise CorruptLogError(
                f"a batch at {group[0].base_offset} is missing where it is copied from"
            )
        added.append(_write(files, uri, group, own))
    if added and is_local(uri):
        flush([uri])
    return added


def _write(
    files: RootFiles, uri: str, group: Sequence[RaftBatch], batches: Sequence[EncodedBatch]
) -> LogFile:
    path = f"{group[0].base_offset:020d}-{uuid4().hex}.parquet"
    content = batches[0].content
    if len(batches) > 1:
        content, _ = merge_files([(each.content, path) for each in batches])
    files.write(f"{uri}/{path}", content)
    return new_file(path, content.size, group, batches[-1].time_ms)
