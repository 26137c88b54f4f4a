"""What keeps replicas small: an order for each, and every kind of work, in its order.

The order of the kinds is part of the design: what the log start has dropped is not merged, what is
merged is compacted with fewer reads, and what all of them have removed is cleaned last.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.log.compactor import compact_replica
from kafka_on_spark.log.file_deleter import clean_delta_log, clean_replica
from kafka_on_spark.log.merging import merge_replica
from kafka_on_spark.log.producer_state import registered_producers
from kafka_on_spark.log.replicas import advance_to
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.log.upkeep_work import (
    CLEAN,
    MERGE,
    NOTHING_DONE,
    Allowance,
    UpkeepOrder,
    UpkeepResult,
    Work,
    WorkDone,
    suspect_in,
)
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.store.counts import operating
from kafka_on_spark.store.deadlines import within

log = logging.getLogger(__name__)

LOG_START: Final = "log start"
"""The kind of work that drops what is below the decided log start."""

DROPPED: Final = "batches dropped below the log start"


def apply_log_start(order: UpkeepOrder, worker: Worker, allowance: Allowance) -> WorkDone:
    """Drop the records below the log start that was decided in the metadata log (I16)."""
    replica = worker.replicas.open(order.address)
    start = order.partition.log_start_offset
    state = replica.load()
    if not state.log_start_offset < start <= state.log_end_offset:
        return NOTHING_DONE
    if not order.is_dry_run:
        advance_to(replica, state, start, order.registered)
    below = [batch for batch in state.batches if batch.end_offset <= start]
    return WorkDone(
        count=len(below),
        has_advanced=True,
        what=DROPPED,
        size_bytes=sum(batch.size_bytes for batch in below),
    )


WORKS: Final[tuple[tuple[str, Work], ...]] = (
    (LOG_START, apply_log_start),
    (MERGE, merge_replica),
    ("compact", compact_replica),
    (CLEAN, clean_replica),
    ("log", clean_delta_log),
)
"""Each kind of work under its name, in the order in which they run."""

ON_THE_TABLE_ALONE: Final = (CLEAN, "log")
"""Kinds of work that read no record, and decide on the newest table that they read themselves. They
go on where others fail: a damaged file may stay damaged for ever, and a full disk gets room."""

FREEING: Final = (LOG_START, *ON_THE_TABLE_ALONE)
"""Kinds of work that write next to nothing, and delete files."""


def plan_upkeep(
    image: MetadataImage, keys: Iterable[PartitionKey], *, is_dry_run: bool = False
) -> list[UpkeepOrder]:
    """Return an order for each replica of `keys` that was created and whose broker is online; where
    it is fenced since its root is full, for what gives it room."""
    return [
        UpkeepOrder(
            key=key,
            partition=partition,
            address=address,
            leader=leader,
            settings=image.settings(key.topic_id),
            is_dry_run=is_dry_run,
            registered=registered_producers(image),
            works=None if image.brokers[broker_id].is_online else FREEING,
        )
        for key in keys
        if (partition := image.partition(key)) is not None
        for leader in [_address(image, key, partition, partition.leader)]
        for broker_id in partition.replicas
        if (address := _address(image, key, partition, broker_id)) is not None
    ]


def _address(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    broker_id: BrokerId | None,
) -> ReplicaAddress | None:
    if broker_id is None or not partition.is_created(broker_id):
        return None
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.has_upkeep:
        return None
    return address_of(image, key, partition, broker_id)


def run_upkeep(
    order: UpkeepOrder, worker: Worker, works: Sequence[tuple[str, Work]] = WORKS
) -> UpkeepResult:
    """Do the upkeep of one replica that is due, as far as the order allows; the requests of each
    kind are counted under its name.

    After a kind that raises, only those go on that rest on the table alone. A kind that returns its
    error has met something that the others don't depend on.
    """
    allowance = Allowance(order, worker.clock)
    done: list[tuple[str, WorkDone]] = []
    has_failed = False
    for name, work in works:
        is_asked = order.works is None or name in order.works
        if not is_asked or (has_failed and name not in ON_THE_TABLE_ALONE):
            continue
        allowance.begin_kind()
        try:
            with operating(name):
                done.append((name, work(order, worker, allowance)))
        except KafkaOnSparkError as error:
            state = _readable(order, worker)
            suspect = None if state is None else suspect_in(state, error)
            done.append((name, NOTHING_DONE.failed(error, suspect)))
            if state is None or name in ON_THE_TABLE_ALONE:
                break  # it is the table or the root, on which all rests
            has_failed = True
    return UpkeepResult(
        key=order.key,
        broker_id=order.address.broker_id,
        done=tuple(done),
        moved_bytes=allowance.moved_bytes,
    )


def _readable(order: UpkeepOrder, worker: Worker) -> ReplicaState | None:
    """Return the log of a replica; None: it can't be read, and is inspected itself."""
    try:
        return worker.replicas.open(order.address).load()
    except KafkaOnSparkError:
        return None


def upkeep_task(order: UpkeepOrder, worker: Worker) -> UpkeepResult:
    try:
        # One call for all of it: each of its many steps would be handed to another thread.
        return within(order.address.root, lambda: run_upkeep(order, worker))
    except KafkaOnSparkError as error:
        return UpkeepResult.failed(order, error)
