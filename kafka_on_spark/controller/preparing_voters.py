"""Prepares the root of a new voter, and marks that of a former one."""

import logging
from contextlib import suppress

from kafka_on_spark.base.errors import (
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidRootError,
    KafkaOnSparkError,
)
from kafka_on_spark.base.ids import DirectoryId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_log import DeltaMetadataLog, create_voter, key_of
from kafka_on_spark.metadata.metadata_root import (
    MetadataIdentity,
    check_unnamed,
    mark_removed,
    read_identity,
)
from kafka_on_spark.metadata.quorum.voter_set import Voter, VoterKey
from kafka_on_spark.store.root_identity import (
    ROOT_MODE,
    check_mode,
    create_root,
    reporting_as_invalid_root,
    test_conditional_puts,
)
from kafka_on_spark.store.roots import StorageOptions
from kafka_on_spark.store.roots_apart import check_metadata_root_apart, is_one_place

log = logging.getLogger(__name__)


def checked_voter(
    metadata_log: DeltaMetadataLog, image: MetadataImage, root: str, options: StorageOptions
) -> Voter:
    """Return the voter that a root would be: the one that it was, or began to be, or a new one of
    the next id. Nothing is written.

    Raises:
        DuplicateVoterError: It is a voter, or was prepared under the id of one.
        InvalidRootError: It can't be a metadata root, or is a copy of one.
        InconsistentClusterIdError: It belongs to another cluster.
        CorruptLogError: It has a cluster's table that no file names.
        QuorumUnavailableError: No majority of the voters answers.
    """
    next_id = metadata_log.changes.next_node_id()
    voters = metadata_log.tables.voters
    found = _found(image, root, options)
    key = VoterKey(next_id, DirectoryId("new")) if found is None else key_of(found)
    registered = metadata_log.changes.root_of(key)
    if registered is not None and not is_one_place(root, registered):
        raise InvalidRootError(
            f"{root} is a copy of metadata root {key.node_id}, which the log registers at"
            f" {registered}, or it was moved: empty it, then add it"
        )
    voter = Voter(key, root)
    voters.with_voter(voter)  # before anything is copied to it
    taken = {each.key.node_id: each.root for each in voters.voters}
    for node_id, other in taken.items():
        if other == root:
            raise DuplicateVoterError(
                f"{root} was emptied and is voter {node_id} still, by what the others know: remove"
                " that voter, then add this root"
            )
    check_metadata_root_apart(taken, image.broker_roots, key.node_id, root)
    return voter


def _found(image: MetadataImage, root: str, options: StorageOptions) -> MetadataIdentity | None:
    with reporting_as_invalid_root(root):
        found = read_identity(root, options)
        if found is None:
            check_unnamed(root, options)
    if found is not None and found.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the root {root} belongs to cluster {found.cluster_id}, not to {image.cluster_id}:"
            " give each cluster roots of its own"
        )
    return found


def prepare_voter(
    metadata_log: DeltaMetadataLog,
    image: MetadataImage,
    root: str,
    options: StorageOptions,
    mode: int = ROOT_MODE,
) -> Voter:
    """Return the voter that a root is to be; it has that one's identity, and a table, from now on.

    A root that an earlier try has prepared is used as it is; so is that of a former voter.

    Raises: as `checked_voter`.
        InvalidRequestError: `mode` is no mode.
    """
    check_mode(mode)
    voter = checked_voter(metadata_log, image, root, options)
    assert image.cluster_id is not None, "an open cluster has an id"
    create_root(root, mode)
    found = read_identity(root, options)
    if found is None:
        test_conditional_puts(root, options)
        found = create_voter(
            root,
            options,
            image.cluster_id,
            node_id=voter.key.node_id,
        )
    mark_removed(root, found.directory_id, options, is_removed=False)
    return Voter(key_of(found), root)


def mark_former_voter(voter: Voter, options: StorageOptions) -> bool:
    """Write on a former voter's root that it is none, if that can be reached; return whether it was
    written."""
    assert voter.key.directory_id is not None
    with suppress(InvalidRootError):
        try:
            return mark_removed(voter.root, voter.key.directory_id, options, is_removed=True)
        except KafkaOnSparkError as error:
            log.info("the root of the former voter %s is not marked: %s", voter, error)
    return False
