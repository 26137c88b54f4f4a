"""Parquet files of a root, read only if their footer allows it.

A file of a megabyte can say that it has terabytes of zeros. So its rows and its uncompressed size
are looked up in the footer, which is small, before any of it is decoded.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.storage.limits import ROWS_MAX, UNCOMPRESSED_BYTES_MAX


def read_parquet(
    content: Any,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    row_count: int | None = None,
    use_threads: bool = True,
    verifies_pages: bool = False,
) -> pa.Table:
    """Return the rows of a file's bytes; `row_count`: how many they must be.

    Raises:
        CorruptLogError: It is damaged, has another number of rows, or more than can be.
        KafkaStorageError: This process has too little memory for it.
    """
    try:
        # Not by pq.read_table, which plans a scan: a small file takes four times as long.
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=verifies_pages)
        check_footer(file.metadata, path, row_count)
        return file.read(
            columns=None if columns is None else list(columns), use_threads=use_threads
        )
    except MemoryError as error:
        raise KafkaStorageError(f"there is too little memory to read {path}") from error
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        raise CorruptLogError(f"can't be read as Parquet: {text}", path=path) from error


def check_footer(footer: pq.FileMetaData, path: str, row_count: int | None = None) -> None:
    """Check what a file says that it has.

    Only by its row groups: Arrow ends the process over a damaged footer whose columns are asked.

    Raises: as `read_parquet`.
    """
    rows, size = footer.num_rows, uncompressed_bytes(footer)
    if not 0 <= rows <= ROWS_MAX or size > UNCOMPRESSED_BYTES_MAX:
        raise CorruptLogError(
            "a file says that it has more than it can have", path=path, rows=rows, bytes=size
        )
    if row_count is not None and rows != row_count:
        raise CorruptLogError(
            "a segment has other records than its log says", path=path, rows=rows, log=row_count
        )


def uncompressed_bytes(footer: pq.FileMetaData) -> int:
    """Return how many bytes a file has when its pages are uncompressed."""
    return sum(footer.row_group(each).total_byte_size for each in range(footer.num_row_groups))
