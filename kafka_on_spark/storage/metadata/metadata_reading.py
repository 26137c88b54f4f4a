"""Reads batches of the metadata log from its files, and finds gaps between them."""

from collections.abc import Iterable

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.metadata_files import decode_file
from kafka_on_spark.storage.metadata.metadata_placement import LogFile
from kafka_on_spark.storage.roots.roots import RootFiles


def read_batches(
    root_files: RootFiles,
    uri: str,
    files: Iterable[LogFile],
    from_offset: Offset,
    end_offset: Offset,
) -> list[MetadataBatch]:
    """Return the batches between two offsets; `files`: those of the table at `uri`, in order.

    The last files are read first: they are small and soon merged, and then deleted a minute later,
    and a long log takes longer to read.

    Raises:
        CorruptLogError: A file is missing or damaged, or there is a gap between two batches.
        KafkaStorageError: The root does not answer.
    """
    wanted = [f for f in files if f.end_offset > from_offset and f.base_offset < end_offset]
    parts = []
    for file in reversed(wanted):
        path = f"{uri}/{file.path}"
        content = root_files.read(path, METADATA_FILE_BYTES_MAX)
        parts.append(
            decode_file(
                content,
                path,
                from_offset=from_offset,
                end_offset=end_offset,
                wanted=file.rows_between(from_offset, end_offset),
            )
        )
    batches = [batch for part in reversed(parts) for batch in part]
    expected = from_offset
    for batch in batches:
        if batch.base_offset != expected:
            raise CorruptLogError(
                "a gap in the metadata log", expected=expected, found=batch.base_offset
            )
        expected = batch.end_offset
    return batches
