"""Batches of the metadata log, read from the files that hold them."""

from collections.abc import Iterable

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.storage.limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata_files import decode_file
from kafka_on_spark.storage.metadata_placement import LogFile
from kafka_on_spark.storage.roots import RootFiles


def read_batches(
    root_files: RootFiles,
    uri: str,
    files: Iterable[LogFile],
    from_offset: Offset,
    end_offset: Offset,
) -> list[MetadataBatch]:
    """Return the batches between two offsets; `files`: those of the table at `uri`, in order.

    Raises:
        CorruptLogError: One is missing or damaged, or between two of them is a gap.
        KafkaStorageError: The root does not answer.
    """
    expected = from_offset
    batches = []
    for file in files:
        if file.end_offset <= from_offset or file.base_offset >= end_offset:
            continue
        path = f"{uri}/{file.path}"
        for batch in decode_file(root_files.read(path, METADATA_FILE_BYTES_MAX), path):
            if batch.base_offset < from_offset or batch.end_offset > end_offset:
                continue
            if batch.base_offset != expected:
                raise CorruptLogError(
                    "a gap in the metadata log", expected=expected, found=batch.base_offset
                )
            batches.append(batch)
            expected = batch.end_offset
    return batches
