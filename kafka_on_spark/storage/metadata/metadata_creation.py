"""Creates the metadata log: first its table, then the file that names the table.

A creation that is cut off between the two leaves an empty table without a name. The next creation
creates another table, since a racing process may be about to name the first. Once one is named,
maintenance removes the others.
"""

from contextlib import suppress

from kafka_on_spark.controller.brokers.cluster_creation import there_is_a_cluster
from kafka_on_spark.errors import CommitOutcomeUnknownError, KafkaStorageError
from kafka_on_spark.ids import Offset
from kafka_on_spark.log.addresses import DELETE_DELAY_MS
from kafka_on_spark.storage.delta.conditional_commit import DeltaLog
from kafka_on_spark.storage.delta.table_creation import tombstones_kept
from kafka_on_spark.storage.identity.metadata_root import (
    MetadataIdentity,
    check_unnamed,
    new_identity,
    put_identity,
    read_identity,
)
from kafka_on_spark.storage.identity.root_identity import create_root, unusable_root
from kafka_on_spark.storage.metadata.metadata_log import (
    FORMAT_VERSION,
    HEADER,
    TABLE_SCHEMA,
    DeltaMetadataLog,
)
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions, flush, is_local


def create_metadata_log(
    metadata_root: str,
    options: StorageOptions,
    cluster_id: str,
    *,
    delete_delay_ms: int = DELETE_DELAY_MS,
) -> DeltaMetadataLog:
    """Create the log, or open one without any record; then that log's cluster id counts.

    `delete_delay_ms`: how long it keeps the files that it removes (file.delete.delay.ms).

    Raises:
        InvalidRequestError: There is a cluster at this root.
        InvalidRootError: The root can't be reached or written.
        CorruptLogError: There is a cluster's table that no file names, or a named table is gone.
    """
    identity = read_identity(metadata_root, options)
    if identity is None:
        check_unnamed(metadata_root, options)
        identity = _create_table(metadata_root, options, new_identity(cluster_id), delete_delay_ms)
    elif is_local(metadata_root):
        flush([metadata_root])  # whoever wrote it may have died before
    log = DeltaMetadataLog(metadata_root, options)
    log.check()
    if log.read(from_offset=Offset(0)):
        raise there_is_a_cluster(metadata_root)
    return log


def has_cluster(metadata_root: str, options: StorageOptions) -> bool:
    """Return whether there is a cluster at this root."""
    if read_identity(metadata_root, options) is None:
        return False
    return bool(DeltaMetadataLog(metadata_root, options).read(from_offset=Offset(0)))


def _create_table(
    metadata_root: str, options: StorageOptions, mine: MetadataIdentity, delete_delay_ms: int
) -> MetadataIdentity:
    """Create a table, and name it unless another was named meanwhile; return the one named."""
    table = mine.table_at(metadata_root)
    try:
        create_root(metadata_root)
        DeltaLog.create(
            table,
            options,
            schema=TABLE_SCHEMA,
            partition_by=HEADER,
            configuration={
                **mine.configuration,
                **tombstones_kept(delete_delay_ms),
                "kos.format.version": FORMAT_VERSION,
                # Files have no statistics but their size; delta-rs takes time in each commit for
                # each column that might have some.
                "delta.dataSkippingNumIndexedCols": "0",
            },
        )
        found = put_identity(metadata_root, mine, options)
    except (KafkaStorageError, CommitOutcomeUnknownError) as error:
        raise unusable_root(metadata_root, error) from error
    if found != mine:
        with suppress(KafkaStorageError):  # our table is empty, and no process knows it
            RootFiles(metadata_root, options).delete(table)
    return found
