"""Looks at, lists and deletes files in replicas' folders: the only code that deletes segments.

`log/cleaning.py` decides. What is deleted by mistake can't be had again, so names are
checked once more here: no other file can be named.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import ensure
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment, is_segment_name
from kafka_on_spark.log.cleaning import FoundFile
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.producers import producers_file_number
from kafka_on_spark.log.replica_folders import check_no_link, replica_folder
from kafka_on_spark.log.uncompressed_sizes import too_large_to_merge
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.delta.log_cleaning import clean_log, read_tombstones
from kafka_on_spark.store.error_translation import as_storage_errors
from kafka_on_spark.store.root_identity import check_obeys, root_now_ms
from kafka_on_spark.store.roots import RootFiles, StorageOptions

_LOG: Final = "_delta_log"


class FileReplicaFolders:
    """ReplicaFolders on disks and stores."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def names(self, address: ReplicaAddress) -> list[str]:
        """Return the names of the files in a replica's folder."""
        check_no_link(address)
        names = RootFiles(address.root, self._options).names(replica_folder(address))
        return [name for name in names if name != _LOG]

    def found(self, address: ReplicaAddress, names: Iterable[str]) -> list[FoundFile]:
        """Return those of the files that are there, with sizes and times."""
        files = RootFiles(address.root, self._options)
        look = partial(_found, files, replica_folder(address), list(names))
        return within(address.root, look)

    def too_large_to_merge(
        self, address: ReplicaAddress, parts: Iterable[LogPart]
    ) -> frozenset[Segment]:
        """Return the files of those parts that are too large to be merged once uncompressed."""
        find = partial(too_large_to_merge, address, parts, self._options)
        return within(address.root, find)

    def removed_at_ms(self, address: ReplicaAddress) -> dict[str, int]:
        """Return the files that the table has removed, and when, as far as its log still tells."""
        files = RootFiles(address.root, self._options)
        return within(address.root, lambda: read_tombstones(files, replica_folder(address)))

    def now_ms(self, address: ReplicaAddress) -> int:
        """Return the time of the replica's root, which is the disk of the address."""
        return root_now_ms(address.root, address.directory_id, self._options)

    def clean_log(self, address: ReplicaAddress) -> int:
        """Delete old commits and checkpoints of a replica's table; return how many commits."""
        files, uri = RootFiles(address.root, self._options), replica_folder(address)
        with as_storage_errors(f"clean the log of {uri}", self._options):
            return within(address.root, lambda: clean_log(files, uri))

    def delete(self, address: ReplicaAddress, names: Sequence[str]) -> None:
        """Delete files; one that is gone was deleted by another cleaner."""
        for name in names:
            ensure(is_segment_name(name) or producers_file_number(name) is not None, name)
        check_obeys(address.root, address.directory_id, address.registered_voters, self._options)
        files = RootFiles(address.root, self._options)
        within(address.root, partial(_delete, files, replica_folder(address), names))


def _delete(files: RootFiles, folder: str, names: Sequence[str]) -> None:
    for name in names:
        files.delete_file(f"{folder}/{name}")


def _found(files: RootFiles, folder: str, names: Sequence[str]) -> list[FoundFile]:
    found = []
    for name in names:
        seen = files.time_and_size(f"{folder}/{name}")
        if seen is not None:  # else another cleaner was faster
            written_at_ms, size_bytes = seen
            found.append(FoundFile(name, size_bytes, written_at_ms))
    return found
