"""How any process opens the cluster's metadata and its replicas, and nothing more than that.

Apart from `services`, which wires all of a Cluster: the process that Spark starts for each run of
a streaming query imports this while the query waits.
"""

import random
from collections.abc import Callable
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from kafka_on_spark.config import SETTINGS
from kafka_on_spark.errors import ClusterNotFoundError, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.service.metadata_away import is_failing, waiting_for_root
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.storage.clock import SystemClock
from kafka_on_spark.storage.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.metadata_root import is_there
from kafka_on_spark.storage.options import StorageOptions
from kafka_on_spark.storage.turns import take_turn

if TYPE_CHECKING:
    from kafka_on_spark.storage.replica_store import DeltaReplicaStore

T = TypeVar("T")


@lru_cache(maxsize=8)
def replica_store(options: StorageOptions) -> "DeltaReplicaStore":
    """Return this process's open replicas."""
    from kafka_on_spark.storage.replica_store import DeltaReplicaStore

    return DeltaReplicaStore(options)


class Awaits(Enum):
    """What who opens a cluster waits for, for as long as `metadata.away.timeout.ms` has it by
    default: what is set lies on the root."""

    NOTHING = "what can't be opened is refused"
    ROOT = "a root that does not answer, or is not there"
    CLUSTER = "that, and a root without a cluster: one was there, and its disk may not be mounted"


def open_metadata(
    metadata_root: str,
    options: StorageOptions,
    *,
    application_id: str | None = None,
    after_commit: Callable[[], None] = lambda: None,
    awaits: Awaits = Awaits.NOTHING,
) -> MetadataService:
    """Return the metadata of the cluster at `metadata_root`, caught up.

    Raises:
        ClusterNotFoundError: There is none.
    """

    def opened() -> MetadataService:
        metadata = metadata_service(
            metadata_root, options, application_id=application_id, after_commit=after_commit
        )
        metadata.catch_up()
        return metadata

    return awaiting(opened, metadata_root, awaits)


def awaiting(ask: Callable[[], T], metadata_root: str, awaits: Awaits) -> T:
    """Return what `ask` returns, which opens the cluster at `metadata_root` and reads of it; it is
    asked again while it fails of what is waited for.

    Raises: as `ask`.
    """
    if awaits is Awaits.NOTHING:
        return ask()
    return waiting_for_root(
        ask,
        SystemClock(),
        timeout_ms=int(SETTINGS["metadata.away.timeout.ms"].default),
        is_away=lambda error: is_awaited(error, metadata_root, awaits),
    )


def is_awaited(error: KafkaOnSparkError, metadata_root: str, awaits: Awaits) -> bool:
    """Return whether who opens a cluster and met `error` waits, and tries it again."""
    if not isinstance(error, ClusterNotFoundError):
        return is_failing(error)
    try:
        return awaits is Awaits.CLUSTER or not is_there(metadata_root)
    except KafkaStorageError:
        return True


def metadata_service(
    metadata_root: str,
    options: StorageOptions,
    *,
    application_id: str | None = None,
    after_commit: Callable[[], None] = lambda: None,
) -> MetadataService:
    """Return the metadata of the cluster at `metadata_root`, of which nothing was read yet.

    Raises:
        ClusterNotFoundError: There is none.
    """
    metadata_log = DeltaMetadataLog(metadata_root, options)
    metadata_log.check()
    return MetadataService(
        metadata_log,
        SystemClock(),
        random=random.random,
        application_id=application_id,
        after_commit=after_commit,
        take_turn=partial(take_turn, metadata_log.uri),
        table=metadata_log.uri,
    )
