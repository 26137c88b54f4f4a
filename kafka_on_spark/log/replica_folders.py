"""Names, makes, flushes, lists and removes the folders of replicas on brokers' roots."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import KafkaStorageError, ReplicaLostError
from kafka_on_spark.base.ids import BrokerId, DirectoryId, ReplicaUuid, TopicId, ensure
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import is_segment_name
from kafka_on_spark.log.cleaning import FoundFile
from kafka_on_spark.log.producer_state import producers_file_number
from kafka_on_spark.store.deadlines import short_call_seconds, within
from kafka_on_spark.store.delta.log_cleaning import clean_log, read_tombstones
from kafka_on_spark.store.error_translation import as_storage_errors, storage_error
from kafka_on_spark.store.local_files import delete_empty_folder, make_folder
from kafka_on_spark.store.root_identity import check_directory, check_obeys, root_now_ms
from kafka_on_spark.store.roots import RootFiles, StorageOptions, flush, is_local


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A folder on a broker's root that is named like a replica's; the ids are those in its path."""

    broker_id: BrokerId
    path: str
    topic_id: TopicId
    partition: int
    replica_uuid: ReplicaUuid


TOPIC_NAME_MAX: Final = 255 - len("-") - 32
"""Letters of a topic's name in a folder's, which has 255 on local disks; a topic's may have 249."""

_TOPIC_FOLDER: Final = re.compile(r"[a-zA-Z0-9._-]+-([0-9a-f]{32})")
_REPLICA_FOLDER: Final = re.compile(r"(\d+)-([0-9a-f]{32})")


def replica_folder(address: ReplicaAddress) -> str:
    """Return the folder of a replica: topic id and replica uuid are in the path, and of the topic's
    name, for people, what a folder's has room for."""
    topic = f"{address.topic[:TOPIC_NAME_MAX]}-{address.key.topic_id}"
    return f"{address.root}/{topic}/{address.key.partition}-{address.replica_uuid}"


def create_folder(address: ReplicaAddress, options: StorageOptions) -> None:
    """Create a local replica's folder, if its root is the disk that the address names.

    Raises:
        KafkaStorageError: The root is another disk or none, and nothing was written; or it does
            not answer.
    """
    if is_local(address.root):
        within(address.root, partial(_create_folder, address, options))


def _create_folder(address: ReplicaAddress, options: StorageOptions) -> None:
    root, folder = address.root, replica_folder(address)
    link = link_in_path(address)
    if link is not None:
        raise KafkaStorageError(
            f"{link} is a link: put the folder itself in its place, a replica lies on its broker's"
            " root"
        )
    if within(root, lambda: os.path.isdir(folder), short_call_seconds(root)):
        return
    check_directory(root, address.directory_id, options)
    try:
        within(root, lambda: _create_missing(folder), short_call_seconds(root))
    except OSError as error:
        raise storage_error(error, f"create {folder}") from error
    if address.is_flushed:
        flush([root, os.path.dirname(folder)])


def _create_missing(folder: str) -> None:
    # Never the root: one that was removed meanwhile must not be created again.
    for each in (os.path.dirname(folder), folder):
        make_folder(each)


def link_in_path(address: ReplicaAddress) -> str | None:
    """Return the link in place of a local replica's folder or its topic's, or None: a link could
    lead out of the root."""
    if not is_local(address.root):
        return None
    folder = replica_folder(address)
    way = (os.path.dirname(folder), folder, f"{folder}/_delta_log")
    root = address.root
    links = within(root, lambda: list(filter(os.path.islink, way)), short_call_seconds(root))
    return links[0] if links else None


def check_no_link(address: ReplicaAddress) -> None:
    """Check that a replica's folder lies on its root, before it is read."""
    link = link_in_path(address)
    if link is not None:
        raise ReplicaLostError(f"{link} is a link, and a replica lies on its broker's root")


def flush_folder(address: ReplicaAddress) -> None:
    """Flush a replica's folder, so that the names of new files in it are durable."""
    if address.is_flushed and is_local(address.root):
        within(address.root, lambda: flush([replica_folder(address)]))


def tables_on(
    broker_id: BrokerId,
    root: str,
    options: StorageOptions,
    topic_ids: frozenset[TopicId] | None,
) -> Iterator[FoundTable]:
    """Yield the folders on a root that are named like replicas', of these topics or of all."""
    files = RootFiles(root, options)
    for topic_folder in files.names(root):
        topic = _TOPIC_FOLDER.fullmatch(topic_folder)
        if topic is None or (topic_ids is not None and topic[1] not in topic_ids):
            continue
        for name in files.names(f"{root}/{topic_folder}"):
            replica = _REPLICA_FOLDER.fullmatch(name)
            if replica is not None:
                yield FoundTable(
                    broker_id=broker_id,
                    path=f"{root}/{topic_folder}/{name}",
                    topic_id=TopicId(topic[1]),
                    partition=int(replica[1]),
                    replica_uuid=ReplicaUuid(replica[2]),
                )


def remove_table(
    root: str,
    directory_id: DirectoryId,
    table: FoundTable,
    options: StorageOptions,
    *,
    registered_voters: Sequence[str] = (),
) -> None:
    """Remove a replica's folder, and its topic's folder if that is empty then.

    A crash leaves a folder that is still named like a replica, and found again. A process that
    creates a replica creates the topic's folder, too.

    Raises:
        KafkaStorageError: The root is another disk or none, or does not answer; or the path does
            not match the table's ids.
        RootAccessDeniedError: The root obeys none of `registered_voters`.
    """

    def remove() -> None:
        check_obeys(root, directory_id, registered_voters, options)
        _remove_table(root, table, options)

    within(root, remove)


def _remove_table(root: str, table: FoundTable, options: StorageOptions) -> None:
    topic_folder, name = table.path.rsplit("/", 2)[-2:]
    is_named = (
        table.path == f"{root}/{topic_folder}/{name}"
        and topic_folder.endswith(f"-{table.topic_id}")
        and name == f"{table.partition}-{table.replica_uuid}"
    )
    # A link could lead out of the root.
    is_link = within(
        root, lambda: os.path.islink(f"{root}/{topic_folder}"), short_call_seconds(root)
    )
    if not is_named or is_link:
        raise KafkaStorageError(f"{table.path} is not where a replica's folder would be")
    RootFiles(root, options).delete(table.path)
    if is_local(root):
        with suppress(OSError):  # it has other replicas
            within(
                root,
                lambda: delete_empty_folder(f"{root}/{topic_folder}"),
                short_call_seconds(root),
            )


_LOG: Final = "_delta_log"


class ReplicaFolders:
    """Lists and deletes files in replicas' folders: the only code that deletes segments.

    `log/cleaning.py` decides. What is deleted by mistake can't be had again, so names are checked
    once more here: no other file can be named.
    """

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def names(self, address: ReplicaAddress) -> list[str]:
        """Return the names of the files in a replica's folder; none if there is no folder."""
        check_no_link(address)
        names = RootFiles(address.root, self._options).names(replica_folder(address))
        return [name for name in names if name != _LOG]

    def found(self, address: ReplicaAddress, names: Iterable[str]) -> list[FoundFile]:
        """Return those of the files that are there, with sizes and times."""
        files = RootFiles(address.root, self._options)
        find = partial(_found, files, replica_folder(address), list(names))
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
