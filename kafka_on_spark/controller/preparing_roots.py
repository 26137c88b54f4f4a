"""Prepares roots: of a new cluster before its first commit, of a new broker, and of a new voter."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from kafka_on_spark.base.config import check_settings
from kafka_on_spark.base.errors import (
    DuplicateBrokerRegistrationError,
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidRootError,
    KafkaOnSparkError,
)
from kafka_on_spark.base.ids import BrokerId, DirectoryId, check_mapping, check_whole_number
from kafka_on_spark.controller.brokers import register_broker
from kafka_on_spark.controller.lease import ONE_COMMAND, alone
from kafka_on_spark.metadata.cluster_roots import (
    DeltaMetadataLog,
    create_metadata_log,
    create_voter,
    there_is_a_cluster,
)
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_root import check_unnamed, mark_removed, read_identity
from kafka_on_spark.metadata.metadata_service import ROOTS_AWAY
from kafka_on_spark.metadata.quorum.voter_changes import next_node_id
from kafka_on_spark.metadata.quorum.voter_table import Voter, VoterKey
from kafka_on_spark.metadata.records import ClusterRecord, ConfigRecord, Record
from kafka_on_spark.node.node import ID_SOURCE, Node
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.new_roots import (
    ROOT_MODE,
    check_conditional_puts,
    check_free,
    check_mode,
    check_reachable,
    create_root,
    prepare_root,
    reporting_as_invalid_root,
)
from kafka_on_spark.store.root_identity import (
    RootIdentity,
    check_is_obeyed,
    check_owner,
    write_obeyed,
)
from kafka_on_spark.store.root_urls import (
    check_metadata_root_apart,
    check_root_apart,
    check_roots_apart,
    is_one_place,
    roots_in,
)
from kafka_on_spark.store.roots import StorageOptions, normalize

log = logging.getLogger(__name__)

BrokerIdentity = tuple[BrokerId, str, str | None, DirectoryId]
"""Id, root, rack and directory of a broker."""


def create_cluster(
    image: MetadataImage,
    cluster_id: str,
    brokers: Sequence[BrokerIdentity],
    configs: Mapping[str, object],
    metadata_root: str = "its metadata root",
) -> ControllerResult[None]:
    """Decide a new cluster; of two that are created at the same time, the first one stays."""
    if image.cluster_id is not None:
        raise there_is_a_cluster(metadata_root)
    cause = "the cluster is made"
    records: list[Record] = [ClusterRecord(cluster_id=cluster_id, cause=cause)]
    records.extend(
        ConfigRecord(topic_id=None, config_name=name, config_value=value, cause=cause)
        for name, value in check_settings(configs, topic_only=False).items()
    )
    for broker_id, root, rack, directory_id in brokers:
        result = register_broker(
            image, broker_id, root, rack=rack, directory_id=directory_id, cause=cause
        )
        records.extend(result.records)
    return ControllerResult(records, None)


def check_brokers(roots: Mapping[BrokerId, str], racks: Mapping[int, object]) -> None:
    """Check which brokers and racks were given, before any root is read."""
    if not roots:
        raise InvalidRequestError("a cluster needs brokers: give at least one id and root")
    for broker_id in roots:
        check_whole_number(broker_id, "a broker id")
        if broker_id < 0:
            raise InvalidRequestError(f"broker id {broker_id} is not allowed: ids are 0 or more")
    if len(set(roots.values())) < len(roots):
        raise InvalidRequestError("two brokers have the same root: give each one of its own")
    check_mapping(racks, "racks", "broker ids and racks")
    unknown = sorted(set(racks) - set(roots), key=str)
    if unknown:
        raise InvalidRequestError(f"racks names broker {unknown[0]}, which is not in brokers")
    for owner, rack in racks.items():
        if not isinstance(rack, str):
            raise InvalidRequestError(
                f"the rack of broker {owner} can't be {rack!r}: give a text, or none"
            )


def prepare_roots(
    metadata_root: str,
    brokers: Mapping[int, str | os.PathLike[str]],
    racks: Mapping[int, str],
    options: StorageOptions,
    mode: int = ROOT_MODE,
) -> tuple[str, list[BrokerIdentity]]:
    """Return the cluster's id and its brokers; each root has its broker's identity from now on.

    Each root is tested before the first is written to. Folders that are created get `mode`.
    """
    check_mapping(brokers, "brokers", "broker ids and roots")
    roots = {BrokerId(each): normalize(root) for each, root in brokers.items()}
    check_brokers(roots, racks)
    check_mode(mode)
    check_roots_apart(metadata_root, roots)
    metadata_roots, new = roots_in(metadata_root), []
    for root in metadata_roots:
        with reporting_as_invalid_root(root):
            if read_identity(root, options) is None:
                check_unnamed(root, options)
                new.append(root)
    found = [check_free(root, broker_id, options) for broker_id, root in roots.items()]
    for root in (*metadata_roots, *roots.values()):
        create_root(root, mode)
    with DaemonThreads(max(len(new), 1), "roots") as threads:
        list(threads.map(partial(check_conditional_puts, options=options), new))
    log = create_metadata_log(
        metadata_root,
        options,
        ID_SOURCE.new_uuid(),
        with_brokers={each.cluster_id for each in found if each is not None},
    )
    cluster_id = log.identity.cluster_id

    def prepare(broker_id: BrokerId, root: str) -> BrokerIdentity:
        identity = prepare_root(root, cluster_id, broker_id, options, metadata_roots)
        return broker_id, root, racks.get(broker_id), identity.directory_id

    with DaemonThreads(max(len(roots), 1), "roots") as threads:
        return cluster_id, list(threads.map(prepare, roots, roots.values()))


def commit_creation(
    node: Node,
    metadata_root: str,
    cluster_id: str,
    brokers: Sequence[BrokerIdentity],
    settings: Mapping[str, object],
) -> None:
    """Commit the first batch of a cluster; if that fails, close its node."""

    def decide(image: MetadataImage) -> ControllerResult[None]:
        made = create_cluster(image, cluster_id, brokers, settings, metadata_root)
        return alone(image, made, node.controller_id, ONE_COMMAND)

    try:
        node.metadata.catch_up()
        node.submit(decide)
    except BaseException:
        node.close()
        raise


def prepare_broker(
    metadata_root: str,
    image: MetadataImage,
    broker_id: BrokerId,
    root: str,
    rack: str | None,
    options: StorageOptions,
    mode: int = ROOT_MODE,
) -> DirectoryId:
    """Return the disk at `root`; it has the broker's identity from now on.

    `metadata_root`: those of the voters, with commas between; the disk is to obey them.
    All that the registration would be refused for is found before the root is written to: a root
    with the identity of a broker can belong to no other broker.
    """
    check_mode(mode)
    check_brokers({broker_id: root}, {} if rack is None else {broker_id: rack})
    assert image.cluster_id is not None
    check_roots_apart(metadata_root, {broker_id: root})
    found = found_at(root, image, broker_id, options)
    directory_id = DirectoryId("") if found is None else found.directory_id
    register_broker(image, broker_id, root, rack=rack, directory_id=directory_id, cause="a test")
    check_root_apart(metadata_root, image.broker_roots, broker_id, root)
    create_root(root, mode)
    roots = roots_in(metadata_root)
    return prepare_root(root, image.cluster_id, broker_id, options, roots).directory_id


def found_at(
    root: str, image: MetadataImage, broker_id: BrokerId, options: StorageOptions
) -> RootIdentity | None:
    """Return the identity of a root that is to be a broker's, or None. Nothing is written."""
    found = check_reachable(root, options)
    if found is None:
        return None
    assert image.cluster_id is not None, "an open cluster has an id"
    check_owner(found, root, image.cluster_id, broker_id)
    check_is_obeyed(found, root, image.registered_voters)
    known = image.brokers.get(broker_id)
    is_known = known is not None and known.directory_id == found.directory_id
    if known is not None and is_known and not is_one_place(root, known.root):
        raise DuplicateBrokerRegistrationError(
            f"the root {root} is a copy of broker {broker_id}'s, which is registered at"
            f" {known.root}, or was moved from there: bring it back to that place, by a mount or a"
            " link as well, or empty it to register it as another disk; a copy of the whole cluster"
            " becomes one of its own by `cluster --fork`"
        )
    return found


def checked_voter(
    metadata_log: DeltaMetadataLog, image: MetadataImage, root: str, options: StorageOptions
) -> Voter:
    """Return the voter that a root would be: the one that it was, or began to be, or a new one of
    the next id. Nothing is written."""
    raft_log = metadata_log.confirm().log
    next_id = next_node_id(raft_log)
    voters = metadata_log.tables.voters
    with reporting_as_invalid_root(root):
        found = read_identity(root, options)
        if found is None:
            check_unnamed(root, options)
    if found is not None and found.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the root {root} belongs to cluster {found.cluster_id}, not to {image.cluster_id}:"
            " give each cluster roots of its own"
        )
    key = VoterKey(next_id, DirectoryId("new")) if found is None else found.key
    registered = raft_log.root_of(key)
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


def prepare_voter(
    metadata_log: DeltaMetadataLog,
    image: MetadataImage,
    root: str,
    options: StorageOptions,
    mode: int = ROOT_MODE,
) -> Voter:
    """Return the voter that a root is to be; it has that one's identity, and a table, from now on.

    A root that an earlier try has prepared is used as it is; so is that of a former voter.
    """
    check_mode(mode)
    voter = checked_voter(metadata_log, image, root, options)
    assert image.cluster_id is not None, "an open cluster has an id"
    create_root(root, mode)
    found = read_identity(root, options)
    if found is None:
        check_conditional_puts(root, options)
        found = create_voter(root, options, image.cluster_id, node_id=voter.key.node_id)
    mark_removed(root, found.directory_id, options, is_removed=False)
    return Voter(found.key, root)


def mark_former_voter(voter: Voter, options: StorageOptions) -> bool:
    """Write on a former voter's root that it is none, if that can be reached; return whether it was
    written."""
    try:
        return mark_removed(voter.root, voter.key.directory_id, options, is_removed=True)
    except KafkaOnSparkError as error:
        log.info("the root of the former voter %s is not marked: %s", voter, error)
        return False


def tell_voters(node: Node) -> None:
    """Catch up with a change of the voters, which stands, and write them on the brokers' roots,
    which obey them. A root that can't be reached obeys the former ones, which the log still
    knows; what does not answer by now does not fail the change."""
    with suppress(*ROOTS_AWAY):
        node.metadata.catch_up()
    write_what_roots_obey(node, node.metadata.image)


def write_what_roots_obey(node: Node, image: MetadataImage) -> list[BrokerId]:
    """Write voters and generation on the roots of all brokers; return those that can't be
    reached."""
    roots, voters = node.metadata.log.registered_roots, image.registered_voters
    unreached = []
    for broker_id, broker in sorted(image.brokers.items()):
        directory_id = broker.directory_id
        try:
            write_obeyed(broker.root, directory_id, roots, image.generation, node.options, voters)
        except KafkaOnSparkError as error:
            log.warning("the root of broker %d can't be reached: %s", broker_id, error)
            unreached.append(broker_id)
    return unreached
