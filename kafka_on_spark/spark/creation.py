"""Making a cluster's folders, before its first commit says that there is one."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from kafka_on_spark.controller.brokers import register_broker
from kafka_on_spark.errors import (
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRootError,
    KafkaOnSparkError,
)
from kafka_on_spark.ids import BrokerId, DirectoryId, check_mapping
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.creation import (
    BrokerIdentity,
    check_brokers,
    create_cluster,
    there_is_a_cluster,
)
from kafka_on_spark.spark.services import Services, new_uuid
from kafka_on_spark.storage.metadata_creation import (
    begin_metadata_log,
    has_cluster,
)
from kafka_on_spark.storage.metadata_root import check_unnamed, read_identity
from kafka_on_spark.storage.root_identity import (
    ROOT_MODE,
    answering,
    check_free,
    check_mode,
    check_owner,
    check_reachable,
    make_root,
    prepare_root,
)
from kafka_on_spark.storage.root_places import check_place, check_places
from kafka_on_spark.storage.roots import StorageOptions, normalize


def roots_of(
    brokers: Mapping[int, str | os.PathLike[str]], racks: Mapping[int, str] | None
) -> dict[BrokerId, str]:
    """Return a new cluster's roots, normalized and checked as far as they are names.

    Raises:
        InvalidRequestError: None, a bad id or rack, or a root given twice.
        InvalidRootError: One is no root's URL.
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
    """Return the cluster's id and its brokers, whose roots are theirs from now on.

    Each root is tested before the first is written to. Folders that are made get `mode`.

    Raises:
        InvalidRequestError: There is a cluster at the metadata root.
        InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError:
            A root can't be a broker's.
    """
    check_mode(mode)
    check_places(metadata_root, roots)
    with answering(metadata_root):
        if read_identity(metadata_root, options) is None:
            check_unnamed(metadata_root, options)
    with _one_creation(metadata_root, options):
        for broker_id, root in roots.items():
            check_free(root, broker_id, options)
        for root in (metadata_root, *roots.values()):
            make_root(root, mode)
        cluster_id = begin_metadata_log(metadata_root, options, new_uuid()).identity.cluster_id
        brokers = [
            (
                broker_id,
                root,
                racks.get(broker_id),
                prepare_root(root, cluster_id, broker_id, options).directory_id,
            )
            for broker_id, root in roots.items()
        ]
    return cluster_id, brokers


@contextmanager
def _one_creation(metadata_root: str, options: StorageOptions) -> Iterator[None]:
    """Say of a creation that lost against another at the same place that there is a cluster now.

    Raises:
        InvalidRequestError: There is one, which another process made meanwhile.
    """
    try:
        yield
    except (InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError):
        is_there = False
        # A metadata root that does not answer is no cluster; what was refused is said.
        with suppress(KafkaOnSparkError):
            is_there = has_cluster(metadata_root, options)
        if not is_there:
            raise
        raise there_is_a_cluster(metadata_root) from None


def commit_creation(
    services: Services,
    metadata_root: str,
    cluster_id: str,
    brokers: Sequence[BrokerIdentity],
    settings: Mapping[str, object],
) -> None:
    """Commit a cluster; its services are closed if it does not come to be.

    Raises:
        InvalidRequestError: There is one, which another process made meanwhile.
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
    """Return the disk at `root`, which is the broker's from now on.

    What the registration would be refused for is found before the root is written to: a root
    that says it is a broker's can be nobody else's.

    Raises:
        InvalidRequestError: A bad id or rack.
        InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError:
            The root can't be the broker's.
    """
    check_mode(mode)
    check_brokers({broker_id: root}, {} if rack is None else {broker_id: rack})
    assert image.cluster_id is not None
    check_places(metadata_root, {broker_id: root})
    found, directory_id = check_reachable(root, options), DirectoryId("")
    if found is not None:
        check_owner(found, root, image.cluster_id, broker_id)
        directory_id = found.directory_id
    register_broker(image, broker_id, root, rack=rack, directory_id=directory_id, cause="a test")
    check_place(metadata_root, image, broker_id, root)
    make_root(root, mode)
    return prepare_root(root, image.cluster_id, broker_id, options).directory_id
