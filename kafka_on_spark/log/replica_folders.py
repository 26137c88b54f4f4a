"""Names, makes, flushes, lists and removes the folders of replicas on brokers' roots."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import KafkaStorageError, ReplicaLostError
from kafka_on_spark.base.ids import BrokerId, DirectoryId, ReplicaUuid, TopicId
from kafka_on_spark.log.addresses import FoundTable, ReplicaAddress
from kafka_on_spark.store.deadlines import short_call_seconds, within
from kafka_on_spark.store.error_translation import storage_error
from kafka_on_spark.store.local_changes import delete_empty_folder, make_folder
from kafka_on_spark.store.root_identity import check_directory, check_obeys
from kafka_on_spark.store.roots import RootFiles, StorageOptions, flush, is_local

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
    """Check that a replica's folder lies on its root, before it is read.

    Raises:
        ReplicaLostError: A link stands in its place.
    """
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
    """Yield the folders on a root that are named like replicas', of these topics or of all.

    Raises:
        KafkaStorageError: The root does not answer.
    """
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
