"""Writes the batches that a voter's table appends, as files that its commit will name.

A decision is a file; so is each run of batches that a voter copies from its leader's table, and so
are many batches that a voter copies at once which was away. Every
file has a name of its own, so a batch that was cut and is brought back by a later leader comes
under another name than the one that a cleaner may be removing.
"""

from collections.abc import Sequence
from uuid import uuid4

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.raft.log.raft_log import RaftBatch
from kafka_on_spark.raft.log.runs import copied_together
from kafka_on_spark.storage.metadata.metadata_files import encode_file, merge_files
from kafka_on_spark.storage.metadata.metadata_placement import LogFile, new_file
from kafka_on_spark.storage.roots.roots import RootFiles, flush, is_local


def write_batches(
    files: RootFiles, uri: str, headers: Sequence[RaftBatch], batches: Sequence[MetadataBatch]
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
    files: RootFiles, uri: str, group: Sequence[RaftBatch], batches: Sequence[MetadataBatch]
) -> LogFile:
    pieces = [encode_file(each.records, each.stamp, each.base_offset) for each in batches]
    path = f"{group[0].base_offset:020d}-{uuid4().hex}.parquet"
    content = pieces[0]
    if len(pieces) > 1:
        content, _ = merge_files([(piece, path) for piece in pieces])
    files.write(f"{uri}/{path}", content)
    return new_file(path, content.size, group, batches[-1].stamp.time_ms)
