"""Opens the metadata of a cluster, in any process.

Apart from `node`: the process that Spark starts for each run of a streaming query imports this
module while the query waits for it.
"""

import random
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from kafka_on_spark.base.config import SETTINGS
from kafka_on_spark.base.errors import ClusterNotFoundError, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.metadata.cluster_roots import OPENING_PATIENCE_MS, DeltaMetadataLog
from kafka_on_spark.metadata.commit_lock import acquire_commit_lock
from kafka_on_spark.metadata.metadata_root import MetadataIdentity
from kafka_on_spark.metadata.metadata_service import MetadataService, is_failing, wait_for_root
from kafka_on_spark.store.counts import Counts
from kafka_on_spark.store.deadlines import SystemClock
from kafka_on_spark.store.root_identity import is_there
from kafka_on_spark.store.root_urls import roots_in
from kafka_on_spark.store.storage_options import StorageOptions

T = TypeVar("T")


class Awaits(Enum):
    """What the opening of a cluster waits for, for the default of `metadata.away.timeout.ms`: the
    cluster's own value lies on the root."""

    NOTHING = "a cluster that can't be opened is refused at once"
    ROOT = "a root that does not answer, or does not exist"
    CLUSTER = "also a root without a cluster: its disk may not be mounted"


def open_metadata(
    metadata_root: str,
    options: StorageOptions,
    *,
    awaits: Awaits = Awaits.NOTHING,
    **given: Any,
) -> MetadataService:
    """Return the metadata of the cluster at `metadata_root`, caught up. `given`: as for
    `metadata_service`, whose errors it raises."""

    def opened() -> MetadataService:
        metadata = metadata_service(metadata_root, options, **given)
        metadata.catch_up()
        return metadata

    return awaiting(opened, metadata_root, awaits)


def awaiting(ask: Callable[[], T], metadata_root: str, awaits: Awaits) -> T:
    """Return the answer of `ask`, which opens the cluster at `metadata_root` and reads from it; ask
    again while its error is one that `awaits` waits for."""
    if awaits is Awaits.NOTHING:
        return ask()
    return wait_for_root(
        ask,
        SystemClock(),
        timeout_ms=int(SETTINGS["metadata.away.timeout.ms"].default),
        is_away=lambda error: is_awaited(error, metadata_root, awaits),
    )


def is_awaited(error: KafkaOnSparkError, metadata_root: str, awaits: Awaits) -> bool:
    """Return whether the opening of a cluster waits after `error`, and tries again."""
    if not isinstance(error, ClusterNotFoundError):
        return is_failing(error)
    try:
        return awaits is Awaits.CLUSTER or not any(map(is_there, roots_in(metadata_root)))
    except KafkaStorageError:
        return True


def metadata_service(
    metadata_root: str,
    options: StorageOptions,
    *,
    application_id: str | None = None,
    counts: Counts | None = None,
    identities: Mapping[str, MetadataIdentity] | None = None,
) -> MetadataService:
    """Return the metadata of the cluster at `metadata_root`, not read yet; raise
    ClusterNotFoundError if there is none. `identities`: as of `DeltaMetadataLog`."""
    metadata_log = DeltaMetadataLog(
        metadata_root, options, patience_ms=OPENING_PATIENCE_MS, identities=identities
    )
    metadata_log.check()
    return MetadataService(
        metadata_log,
        SystemClock(),
        random=random.random,
        application_id=application_id,
        acquire_lock=acquire_commit_lock,
        counts=counts,
    )
