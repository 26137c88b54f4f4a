"""Reads for audits: the steps of tables' logs, the bytes of segments, the files on the roots.

Every call reads its files again and caches nothing: what a process remembers of a table does not
count here. Never writes.
"""

from collections.abc import Iterator, Sequence

from kafka_on_spark.base.errors import (
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.fsck.audited_files import check_content, compaction_flaws
from kafka_on_spark.fsck.trace import CheckedSegment
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import is_segment_name
from kafka_on_spark.log.flaws import CompactionFlaw
from kafka_on_spark.log.producer_files import read_producers
from kafka_on_spark.log.producers import ProducerEntries, ProducersFile
from kafka_on_spark.log.replica_folders import check_no_link, replica_folder
from kafka_on_spark.log.segments import digest_of
from kafka_on_spark.store.delta.history import FileEntry, TableStep
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.error_translation import as_storage_errors
from kafka_on_spark.store.file_limits import (
    PRODUCERS_BYTES_MAX,
    SEGMENT_BYTES_MAX,
)
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.roots import RootFiles, StorageOptions


class ReplicaArchive:
    """Reads replicas' tables and folders as they are."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def steps(self, address: ReplicaAddress, *, is_deep: bool) -> Iterator[TableStep]:
        """Yield the steps of a replica's table, oldest first; deep: with every checkpoint.

        Raises:
            ReplicaLostError: There is no table.
            KafkaStorageError: The root is not the disk of the address, or does not answer.
        """
        check_directory(address.root, address.directory_id, self._options)
        check_no_link(address)
        files, folder = RootFiles(address.root, self._options), replica_folder(address)
        try:
            with as_storage_errors(f"read the table at {folder}", self._options):
                yield from table_steps(files, folder, has_all_checkpoints=is_deep)
        except ReplicaLostError:
            check_directory(address.root, address.directory_id, self._options)
            raise
        # What was missing while the disk was away is not missing.
        check_directory(address.root, address.directory_id, self._options)

    def producers(self, address: ReplicaAddress, file: ProducersFile) -> ProducerEntries:
        """Return the entries in the producer-state file that a replica's commits name.

        Raises:
            CorruptLogError: It is missing or damaged, or another one.
            KafkaStorageError: The root does not answer.
        """
        files, folder = RootFiles(address.root, self._options), replica_folder(address)
        with as_storage_errors(f"read the producer state at {folder}", self._options):
            return read_producers(
                lambda name: files.read(f"{folder}/{name}", PRODUCERS_BYTES_MAX),
                address.replica_uuid,
                file,
            )

    def check_segment(
        self, address: ReplicaAddress, file: FileEntry, borders: Sequence[int]
    ) -> CheckedSegment:
        """Return what is wrong with a segment's bytes, and what it holds between `borders`.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        content = self._content(address, file)
        if isinstance(content, CheckedSegment):
            return content
        return check_content(content, file, borders)

    def compaction_flaws(
        self,
        address: ReplicaAddress,
        files: Sequence[FileEntry],
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
    ) -> Iterator[CompactionFlaw]:
        """Yield what in segments shows that they are not compacted, in memory that is bounded.

        Raises:
            KafkaStorageError: The root does not answer.
        """

        def read(file: FileEntry) -> bytes:
            content = self._content(address, file)
            if isinstance(content, CheckedSegment):
                raise KafkaStorageError(f"{content.flaw}, since it was read first: try again")
            return content

        yield from compaction_flaws(
            files, read, compacted_below=compacted_below, tombstones_below=tombstones_below
        )

    def _content(self, address: ReplicaAddress, file: FileEntry) -> bytes | CheckedSegment:
        """Return a segment's bytes, whose digest is right; or what is wrong."""
        if not is_segment_name(file.path):
            return CheckedSegment(
                flaw=f"the file {file.path} is no segment by its name, and was not read"
            )
        path = f"{replica_folder(address)}/{file.path}"
        try:
            with as_storage_errors(f"read {path}", self._options):
                content = RootFiles(address.root, self._options).read(
                    path, min(file.size_bytes, SEGMENT_BYTES_MAX)
                )
        except UnsafeFileError as error:
            return CheckedSegment(flaw=f"the segment {file.path}: {error.message}")
        if content is None:
            return CheckedSegment(flaw=f"the segment {file.path} is missing", is_missing=True)
        flaw = _bytes_flaw(content, file)
        return content if flaw is None else CheckedSegment(flaw=flaw)


def _bytes_flaw(content: bytes, file: FileEntry) -> str | None:
    if len(content) != file.size_bytes:
        return f"the segment {file.path} has {len(content)} bytes, the log says {file.size_bytes}"
    if digest_of(content) != file.path.rsplit("-", 1)[-1].removesuffix(".parquet"):
        return f"the bytes of the segment {file.path} have not the digest in its name"
    return None
