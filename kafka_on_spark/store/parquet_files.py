"""Reads Parquet files, only if their footer allows it.

A file of a megabyte can hold terabytes of zeros. So its rows and its uncompressed size are read
from the footer, which is small, before any page is decoded.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.store.local_files import ROWS_MAX, UNCOMPRESSED_BYTES_MAX

THREADS_BYTES_MIN: Final = 1 << 20
"""From this size on, a file is read by several threads: to hand a small one's columns to them takes
as long as to read these."""


def read_parquet(
    content: Any,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    row_count: int | None = None,
    verifies_pages: bool = False,
) -> pa.Table:
    """Return the rows of a file's bytes; `row_count`: how many there must be.

    Raises:
        CorruptLogError: The file is damaged, has another number of rows, or too many.
        KafkaStorageError: This process has too little memory for it.
    """
    with _errors_of(path):
        # Not by pq.read_table, which plans a scan and takes four times as long for a small file.
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=verifies_pages)
        check_footer(file.metadata, path, row_count)
        return file.read(
            columns=None if columns is None else list(columns),
            use_threads=len(content) > THREADS_BYTES_MIN,
        )


def read_row_groups(
    content: Any, path: str, row_count: int | None, wanted: range
) -> Iterator[pa.Table]:
    """Yield the rows of a file's bytes, verified, a row group at a time.

    Those without `wanted` rows are not read. `row_count`: how many there must be.

    Without dictionaries for texts: Arrow checks those less for damage.
    """
    with _errors_of(path):
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        check_footer(file.metadata, path, row_count)
    end = 0
    for group in range(file.num_row_groups):
        start, end = end, end + file.metadata.row_group(group).num_rows
        if start >= wanted.stop or end <= wanted.start:
            continue
        with _errors_of(path):
            rows = file.read_row_group(group, use_threads=len(content) > THREADS_BYTES_MIN)
        yield rows


def parquet_batches(
    content: Any, path: str, *, columns: Sequence[str], row_count: int, batch_rows_max: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file's bytes, at most `batch_rows_max` at once, which are decoded when
    they are asked for: in one thread, since Spark's tasks have a core each.

    Those of one row group at most: a file is written by row groups that fit into memory, while so
    many rows of large values would be all of a merged segment, uncompressed.
    """
    with _errors_of(path):
        file = pq.ParquetFile(pa.BufferReader(content))
        check_footer(file.metadata, path, row_count)
        for group in range(file.metadata.num_row_groups):
            yield from file.iter_batches(
                batch_rows_max, row_groups=[group], columns=list(columns), use_threads=False
            )


def read_footer(content: Any, path: str) -> pq.FileMetaData:
    """Return what the footer of a file's bytes says; raise as `read_parquet`."""
    with _errors_of(path):
        footer = pq.ParquetFile(pa.BufferReader(content)).metadata
    check_footer(footer, path)
    return footer


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Raise our errors in place of those that pyarrow raises for the file `path`."""
    try:
        yield
    except MemoryError as error:
        raise KafkaStorageError(f"there is too little memory to read {path}") from error
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        raise CorruptLogError(f"can't be read as Parquet: {text}", path=path) from error


def check_footer(footer: pq.FileMetaData, path: str, row_count: int | None = None) -> None:
    """Check how much a file's footer says that it holds.

    Only by its row groups: Arrow ends the process if asked for the columns of a damaged footer.
    """
    rows, size = footer.num_rows, uncompressed_bytes(footer)
    if not 0 <= rows <= ROWS_MAX or size > UNCOMPRESSED_BYTES_MAX:
        raise CorruptLogError(
            "a file claims more rows or bytes than it can have", path=path, rows=rows, bytes=size
        )
    if row_count is not None and rows != row_count:
        raise CorruptLogError(
            "a file has another number of rows than its log says",
            path=path,
            rows=rows,
            log=row_count,
        )


def uncompressed_bytes(footer: pq.FileMetaData) -> int:
    return sum(footer.row_group(each).total_byte_size for each in range(footer.num_row_groups))
