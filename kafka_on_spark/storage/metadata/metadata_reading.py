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

    Raises:
        CorruptLogError: A file is missing or damaged, or there is a gap between two batches.
        KafkaStorageError: The root does not answer.
    """
    expected = from_offset
    batches = []
    for file in files:
        if file.end_offset <= from_offset or file.base_offset >= end_offset:
            continue
        path = f"{uri}/{file.path}"
        content = root_files.read(path, METADATA_FILE_BYTES_MAX)
        for batch in decode_file(content, path, from_offset=from_offset, end_offset=end_offset):
            if batch.base_offset != expected:
                raise CorruptLogError(
                    "a gap in the metadata log", expected=expected, found=batch.base_offset
                )
            batches.append(batch)
            expected = batch.end_offset
    return batches
