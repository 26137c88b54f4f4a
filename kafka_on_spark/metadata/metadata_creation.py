"""Creates the metadata log: its table, the file that names the table, then the log's beginning.

A creation that is cut off between the first two leaves an empty table without a name. The next
creation creates another table, since a racing process may be about to name the first. Once one is
named, maintenance removes the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InconsistentClusterIdError,
    InvalidRequestError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import NodeId
from kafka_on_spark.metadata.metadata_cleaning import CLEANER_MS, DELETE_DELAY_MS
from kafka_on_spark.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.metadata.metadata_root import (
    NODE_ID,
    MetadataIdentity,
    check_unnamed,
    new_identity,
    put_identity,
    read_identity,
)
from kafka_on_spark.metadata.quorum.creation import check_cluster_ids
from kafka_on_spark.metadata.voter_format import FORMAT_VERSION, HEADER, TABLE_SCHEMA
from kafka_on_spark.store.delta.conditional_commit import DeltaLog
from kafka_on_spark.store.delta.table_creation import tombstones_kept
from kafka_on_spark.store.root_identity import create_root
from kafka_on_spark.store.root_safety import unusable_root
from kafka_on_spark.store.root_urls import BETWEEN, roots_in
from kafka_on_spark.store.roots import RootFiles, StorageOptions, flush, is_local


def create_metadata_log(
    metadata_root: str,
    options: StorageOptions,
    cluster_id: str,
    *,
    with_brokers: Collection[str] = (),
) -> DeltaMetadataLog:
    """Create the log, or go on with one without a decision; then that log's cluster id counts.

    `metadata_root`: one, or several with commas between: then each of them is a voter.
    `with_brokers`: ids of clusters that have brokers' roots, read before this.

    Raises:
        InvalidRequestError: There is a cluster at this root, or at one of several.
        InconsistentClusterIdError: The roots belong to several clusters, or one was prepared as
            another metadata root of a cluster that is elsewhere.
        InvalidRootError: The root can't be reached or written.
        CorruptLogError: There is a cluster's table that no file names, or a named table is gone.
    """
    roots = roots_in(metadata_root)
    found = _named(roots, options)
    if found:
        # Before anything is written to the others.
        cluster_id = check_cluster_ids({root: each.cluster_id for root, each in found.items()})
        log = _check_undecided(BETWEEN.join(found), options)
        is_elsewhere = cluster_id in with_brokers and not log.has_begun()
        _check_of_a_creation(roots, found, is_elsewhere=is_elsewhere)
    # In one order, however they are named: of processes that create them at once, all go on with
    # what the first has named.
    for root in sorted(roots):
        if root in found:
            if is_local(root):
                flush([root])  # whoever wrote it may have died before
            continue
        node_id = _free_id(roots.index(root), found.values())
        found[root] = create_voter(root, options, cluster_id, node_id=node_id)
        cluster_id = check_cluster_ids({root: each.cluster_id for root, each in found.items()})
    log = _check_undecided(metadata_root, options)
    log.begin()
    return log


def _named(roots: Sequence[str], options: StorageOptions) -> dict[str, MetadataIdentity]:
    """Return the identities of the roots that have one.

    The last one is read first. They are named from the first on, so where another process names
    them meanwhile, none is missed before one that is seen.
    """
    read = {root: read_identity(root, options) for root in sorted(roots, reverse=True)}
    return {root: each for root in roots if (each := read[root]) is not None}


def _check_of_a_creation(
    roots: Sequence[str], found: Mapping[str, MetadataIdentity], *, is_elsewhere: bool
) -> None:
    """Check that the roots that are named can be what a creation at `roots` left that was cut off.

    The addition of a root to a cluster leaves the same if it is cut off: an identity, and a table
    without a batch. A cluster that begins there is a second one of the same id, which would take
    the first one's brokers. A creation names its roots in order, by ids from the first on, and
    begins its log before a broker gets the id of the cluster (`is_elsewhere`: one has it already).

    Raises:
        InconsistentClusterIdError: They can't be.
    """
    for place, root in enumerate(sorted(roots)):
        identity = found.get(root)
        if identity is None:
            continue
        is_first = place < len(found)
        if is_elsewhere or not is_first or identity.node_id >= NODE_ID + len(roots):
            raise InconsistentClusterIdError(
                f"the root {root} was prepared as metadata root {identity.node_id} of cluster"
                f" {identity.cluster_id}, by an addition or another creation that was cut off:"
                " give each cluster roots of its own, or empty this one if that cluster is not to"
                " have it"
            )


def _free_id(place: int, found: Iterable[MetadataIdentity]) -> NodeId:
    """Return the id of the root that is named at a place in the list, or else one that is free."""
    taken = {each.node_id for each in found}
    wanted = chain([NODE_ID + place], count(NODE_ID))
    return next(NodeId(each) for each in wanted if each not in taken)


def _check_undecided(metadata_root: str, options: StorageOptions) -> DeltaMetadataLog:
    log = DeltaMetadataLog(metadata_root, options)
    if log.has_decided():
        raise there_is_a_cluster(metadata_root)
    return log


def there_is_a_cluster(metadata_root: str) -> InvalidRequestError:
    """Return the error of a creation where there is a cluster."""
    return InvalidRequestError(
        f"there is a cluster at {metadata_root} already: open it, or give an empty root"
    )


def create_voter(
    metadata_root: str,
    options: StorageOptions,
    cluster_id: str,
    *,
    node_id: NodeId = NODE_ID,
) -> MetadataIdentity:
    """Create a voter's table, without a batch, and the file that names it; or find one that another
    process has just created.

    Raises:
        InvalidRootError: The root can't be reached or written.
        CorruptLogError: There is a cluster's table that no file names.
    """
    check_unnamed(metadata_root, options)
    mine = new_identity(cluster_id, node_id)
    return _create_table(metadata_root, options, mine)


def _create_table(
    metadata_root: str, options: StorageOptions, mine: MetadataIdentity
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
                **tombstones_kept(DELETE_DELAY_MS, CLEANER_MS),
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
