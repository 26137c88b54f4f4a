"""Prepares roots: of a new cluster before its first commit, and of a new broker."""

import os
from collections.abc import Mapping, Sequence

from kafka_on_spark.base.errors import (
    DuplicateBrokerRegistrationError,
)
from kafka_on_spark.base.ids import BrokerId, DirectoryId, check_mapping
from kafka_on_spark.controller.broker_changes import register_broker
from kafka_on_spark.controller.cluster_creation import (
    BrokerIdentity,
    check_brokers,
    create_cluster,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_log import create_metadata_log
from kafka_on_spark.metadata.metadata_root import check_unnamed, read_identity
from kafka_on_spark.node.services import Services
from kafka_on_spark.store.clock import new_uuid
from kafka_on_spark.store.root_identity import (
    ROOT_MODE,
    RootIdentity,
    check_free,
    check_is_obeyed,
    check_mode,
    check_owner,
    check_reachable,
    create_root,
    prepare_root,
    reporting_as_invalid_root,
)
from kafka_on_spark.store.root_urls import roots_in
from kafka_on_spark.store.roots import StorageOptions, normalize
from kafka_on_spark.store.roots_apart import (
    check_root_apart,
    check_roots_apart,
    is_one_place,
)


def roots_of(
    brokers: Mapping[int, str | os.PathLike[str]], racks: Mapping[int, str] | None
) -> dict[BrokerId, str]:
    """Return a new cluster's roots, normalized and checked as far as they are names.

    Raises:
        InvalidRequestError: There is no broker, a bad id or rack, or a root is given twice.
        InvalidRootError: One is not the URL of a root.
    """
    check_mapping(brokers, "brokers", "broker ids and roots")
    roots = {BrokerId(each): normalize(root) for each, root in brokers.items()}
    check_brokers(roots, {} if racks is None else racks)
    return roots


def prepare_roots(
    metadata_root: str,
    roots: Mapping[BrokerId, str],
    racks: Mapping[int, str],
    options: StorageOptions,
    mode: int = ROOT_MODE,
) -> tuple[str, list[BrokerIdentity]]:
    """Return the cluster's id and its brokers; each root has its broker's identity from now on.

    Each root is tested before the first is written to. Folders that are created get `mode`.

    Raises:
        InvalidRequestError: There is a cluster at the metadata root.
        InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError:
            A root can't be a broker's.
    """
    check_mode(mode)
    check_roots_apart(metadata_root, roots)
    metadata_roots = roots_in(metadata_root)
    for root in metadata_roots:
        with reporting_as_invalid_root(root):
            if read_identity(root, options) is None:
                check_unnamed(root, options)
    found = [check_free(root, broker_id, options) for broker_id, root in roots.items()]
    for root in (*metadata_roots, *roots.values()):
        create_root(root, mode)
    log = create_metadata_log(
        metadata_root,
        options,
        new_uuid(),
        with_brokers={each.cluster_id for each in found if each is not None},
    )
    cluster_id = log.identity.cluster_id
    brokers = [
        (
            broker_id,
            root,
            racks.get(broker_id),
            prepare_root(root, cluster_id, broker_id, options, metadata_roots).directory_id,
        )
        for broker_id, root in roots.items()
    ]
    return cluster_id, brokers


def commit_creation(
    services: Services,
    metadata_root: str,
    cluster_id: str,
    brokers: Sequence[BrokerIdentity],
    settings: Mapping[str, object],
) -> None:
    """Commit the first batch of a cluster; if that fails, close its services.

    Raises:
        InvalidRequestError: Another process has created a cluster meanwhile.
    """
    try:
        services.commands().run_alone(
            lambda image: create_cluster(image, cluster_id, brokers, settings, metadata_root),
            timeout_ms=services.timeout_ms,
        )
    except BaseException:
        services.close()
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

    Raises:
        InvalidRequestError: A bad id or rack.
        InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError:
            The root can't be the broker's.
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
    """Return the identity of a root that is to be a broker's, or None if it has none. Nothing is
    written.

    Raises:
        InvalidRootError: It can't be reached.
        InconsistentClusterIdError, RootAccessDeniedError: It belongs to another cluster, or obeys
            other metadata roots.
        DuplicateBrokerRegistrationError: It belongs to another broker, or is a copy of this one's.
    """
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
            " link as well, or empty it to register it as another disk"
        )
    return found
