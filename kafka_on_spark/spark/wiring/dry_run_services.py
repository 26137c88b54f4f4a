"""A dry run of a replication round: it reads tables as a real round does, and changes nothing."""

import random
from collections.abc import Sequence
from itertools import islice

from kafka_on_spark.service.replica.creating_replicas import create_replica
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.replicate.fetching.fetch_pace import FetchPace
from kafka_on_spark.service.replicate.partition_inspection import PartitionFetches
from kafka_on_spark.service.replicate.replication_round import ReplicationRound
from kafka_on_spark.service.replicate.second_inspection import SecondInspections
from kafka_on_spark.service.replicate.sweep_progress import SweepProgress
from kafka_on_spark.service.what_if.dry_run import DryRunMetadata, DryRunReplicas, DryRunSegments
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.calls.random_ids import new_uuid


def dry_run_round(services: Services, metadata: DryRunMetadata) -> ReplicationRound:
    """Return what plans and concludes rounds that change `metadata` and nothing else.

    Tables are read in threads of this process. Nothing is copied.
    """
    replicas, segments = DryRunReplicas(services.replicas), DryRunSegments()
    clock, timeout_ms = services.clock, services.timeout_ms

    def run(orders: Sequence[FetchOrder]) -> list[FetchResult]:
        return services.tasks.in_threads(
            lambda order: fetch(order, replicas, segments, clock), orders
        )

    def inspect(orders_of: Sequence[PartitionFetches]) -> list[list[FetchResult]]:
        results = iter(run([order for orders in orders_of for order in orders]))
        return [list(islice(results, len(orders))) for orders in orders_of]

    return ReplicationRound(
        metadata,
        clock,
        sweep=SweepProgress(
            clock, services.keeping.sweep_hints, random_below=random.randrange, is_dry_run=True
        ),
        run_fetches=run,
        run_inspections=inspect,
        run_creations=lambda orders: [create_replica(each, replicas) for each in orders],
        new_uuid=new_uuid,
        timeout_ms=timeout_ms,
        second_inspections=SecondInspections(metadata, clock, run=run, timeout_ms=timeout_ms),
        pace=FetchPace(clock, random=random.random),
    )
