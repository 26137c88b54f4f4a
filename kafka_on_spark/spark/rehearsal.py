"""A round of replication that is rehearsed: wired as one in earnest, it changes nothing."""

import random
from collections.abc import Sequence
from itertools import islice

from kafka_on_spark.service.fetch_pace import FetchPace
from kafka_on_spark.service.making import make_replica
from kafka_on_spark.service.partition_looks import LookOrders
from kafka_on_spark.service.rehearsed import (
    RehearsedMetadata,
    RehearsedReplicas,
    RehearsedSegments,
)
from kafka_on_spark.service.replication import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.replication_round import ReplicationRound
from kafka_on_spark.service.second_look import SecondLooks
from kafka_on_spark.service.sweeping import Sweep
from kafka_on_spark.spark.services import Services, new_uuid


def rehearsed_round(services: Services, rehearsed: RehearsedMetadata) -> ReplicationRound:
    """Return what plans and concludes rounds that change nothing but `rehearsed`.

    Tables are read, in threads of this process; nothing is copied.
    """
    replicas, segments = RehearsedReplicas(services.replicas), RehearsedSegments()
    clock, timeout_ms = services.clock, services.timeout_ms

    def run(orders: Sequence[FetchOrder]) -> list[FetchResult]:
        return services.in_threads(lambda order: fetch(order, replicas, segments, clock), orders)

    def look(looks: Sequence[LookOrders]) -> list[list[FetchResult]]:
        results = iter(run([order for orders in looks for order in orders]))
        return [list(islice(results, len(orders))) for orders in looks]

    return ReplicationRound(
        rehearsed,
        clock,
        sweep=Sweep(clock, services.sweep_hints, random_below=random.randrange, is_rehearsed=True),
        run_fetches=run,
        run_looks=look,
        run_makes=lambda orders: [make_replica(each, replicas) for each in orders],
        new_uuid=new_uuid,
        timeout_ms=timeout_ms,
        looks=SecondLooks(rehearsed, clock, run=run, timeout_ms=timeout_ms),
        pace=FetchPace(clock, random=random.random),
    )
