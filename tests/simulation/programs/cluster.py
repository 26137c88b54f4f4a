"""The cluster that programs run in, and its topic, as a plan asks for them."""

from kafka_on_spark.controller import topics
from kafka_on_spark.controller.preparing_roots import create_cluster
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import Stamp
from tests.simulation.plan import Plan
from tests.simulation.world.disks import Disks
from tests.simulation.world.processes import TIMEOUT_MS
from tests.simulation.world.scheduler import STARTED_AT_MS

TOPIC = "orders"
PARTITIONS_MAX = 3
"""Up to which the topic grows."""


def make_cluster(plan: Plan, disks: Disks, name: str) -> None:
    """Make the cluster on all disks, and its topic; `name` is in their ids."""
    brokers = [
        (each.broker_id, each.url, None, each.directory_id)
        for each in disks.roots.values()
        if each.directory_id is not None
    ]
    stamp = Stamp(time_ms=STARTED_AT_MS)
    made = create_cluster(MetadataImage(), f"simulated{name}", brokers, _settings(plan))
    disks.append_metadata(made.records, stamp, disks.image.offset)
    uuids = iter(f"{name}{number}" for number in range(100))
    topic = topics.create_topic(
        disks.image,
        TOPIC,
        partition_count=plan.partitions,
        replication_factor=3,
        replica_assignment={
            number: [1 + (number + place) % plan.brokers for place in range(3)]
            for number in range(plan.partitions)
        },
        configs={
            "min.insync.replicas": plan.min_isr,
            "unclean.leader.election.enable": plan.is_unclean,
            **_policy(plan),
        },
        new_uuid=lambda: next(uuids),
        random_below=lambda below: 0,
        cause="the simulation begins",
    )
    disks.append_metadata(topic.records, stamp, disks.image.offset)


def _settings(plan: Plan) -> dict[str, object]:
    settings: dict[str, object] = {
        "delivery.timeout.ms": TIMEOUT_MS,
        "broker.session.timeout.ms": plan.session_ms,
        "broker.heartbeat.interval.ms": 1 + plan.session_ms // 4,
        "controller.lease.ms": 2 * plan.session_ms,
        "replica.lag.time.max.ms": plan.lag_ms,
        "replica.fetch.max.bytes": plan.fetch_bytes,
        "file.delete.delay.ms": plan.delete_delay_ms,
        "replica.sweep.interval.ms": plan.sweep_ms,
        "replica.verdict.delay.ms": plan.verdict_ms,
        "orphan.bytes.max": plan.orphan_bytes,
        "merge.min.lag.batches": plan.merge_lag,
        "clock.ahead.max.ms": plan.clock_ahead_ms,
    }
    if plan.compaction is not None:
        settings |= plan.compaction.settings
    if plan.expiring is not None:
        settings["producer.id.expiration.ms"] = plan.expiring.producers_ms
        settings["offsets.retention.minutes"] = plan.expiring.offsets_ms
    if plan.retention_ms is not None:
        settings["log.retention.check.interval.ms"] = 20
        settings["retention.ms"] = plan.retention_ms
        settings["retention.bytes"] = plan.retention_bytes
    return settings


def _policy(plan: Plan) -> dict[str, object]:
    compacting = plan.compaction
    if compacting is None or compacting.is_later:
        return {}
    return {"cleanup.policy": compacting.policy}
