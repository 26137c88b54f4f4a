"""The metadata log's beginning: its table, and after that the file that names the table.

A creation that is cut off between the two leaves an empty table that nobody names. The next one
makes another: who races with it may be about to name the first. Once one is named, maintenance
removes the others.
"""

from contextlib import suppress

from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    InvalidRootError,
    KafkaStorageError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.service.creation import there_is_a_cluster
from kafka_on_spark.storage.delta import DeltaLog
from kafka_on_spark.storage.metadata_log import (
    FORMAT_VERSION,
    HEADER,
    TABLE_SCHEMA,
    DeltaMetadataLog,
)
from kafka_on_spark.storage.metadata_root import (
    MetadataIdentity,
    check_unnamed,
    new_identity,
    put_identity,
    read_identity,
)
from kafka_on_spark.storage.root_identity import make_root
from kafka_on_spark.storage.roots import RootFiles, StorageOptions


def begin_metadata_log(
    metadata_root: str, options: StorageOptions, cluster_id: str
) -> DeltaMetadataLog:
    """Make the log, or find one that has no record yet; its cluster id is that one's, then.

    Raises:
        InvalidRequestError: There is a cluster at this root.
        InvalidRootError: The root can't be reached or written.
        CorruptLogError: A cluster's table is there that nobody names, or is named and gone.
    """
    identity = read_identity(metadata_root, options)
    if identity is None:
        check_unnamed(metadata_root, options)
        identity = _make(metadata_root, options, new_identity(cluster_id))
    begun = DeltaMetadataLog(metadata_root, options)
    begun.check()
    if begun.read(from_offset=Offset(0)):
        raise there_is_a_cluster(metadata_root)
    return begun


def has_cluster(metadata_root: str, options: StorageOptions) -> bool:
    """Return whether a cluster was made at this root."""
    if read_identity(metadata_root, options) is None:
        return False
    return bool(DeltaMetadataLog(metadata_root, options).read(from_offset=Offset(0)))


def _make(metadata_root: str, options: StorageOptions, mine: MetadataIdentity) -> MetadataIdentity:
    """Make a table, and name it unless another was named meanwhile; return which was."""
    table = mine.table_at(metadata_root)
    try:
        make_root(metadata_root)
        DeltaLog.create(
            table,
            options,
            schema=TABLE_SCHEMA,
            partition_by=HEADER,
            configuration={
                **mine.configuration,
                "kos.format.version": FORMAT_VERSION,
                # Files come without statistics but for their size; for each column that might
                # have some, delta-rs takes time in each commit.
                "delta.dataSkippingNumIndexedCols": "0",
            },
        )
        found = put_identity(metadata_root, mine, options)
    except (KafkaStorageError, CommitOutcomeUnknownError) as error:
        raise InvalidRootError(
            f"the root {metadata_root} can't be used: {error.message}; give a folder or bucket"
            " that exists and can be written"
        ) from error
    if found != mine:
        with suppress(KafkaStorageError):  # nobody was told of it, and it holds nothing
            RootFiles(metadata_root, options).delete(table)
    return found
