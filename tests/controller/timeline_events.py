"""Events of a timeline: each is told by two small numbers, whatever the cluster is like.

Those that can't be on the cluster as it is do nothing, or are refused.
"""

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller import commands
from kafka_on_spark.controller.brokers import continue_draining, fence_broker, unfence_broker
from kafka_on_spark.controller.reassignment import advance_reassignments, list_reassignments
from tests.controller.timelines import BROKERS, TOPICS, inspections_of


def some(values, number):
    values = sorted(values)
    return values[number % len(values)] if values else None


def create(timeline, a, b, through_log):
    timeline.command(
        commands.CREATE_TOPIC,
        through_log,
        name=TOPICS[a % 2],
        partition_count=1 + b % 3,
        replication_factor=1 + (a + b) % 3,
        replica_assignment=None,
        configs={"min.insync.replicas": 1 + b % 2} if a % 3 else {},
    )


def delete(timeline, a, b, through_log):
    timeline.command(commands.DELETE_TOPIC, through_log, name=TOPICS[a % 2])


def add(timeline, a, b, through_log):
    timeline.command(commands.ADD_PARTITIONS, through_log, name=TOPICS[a % 2], to=1 + b % 4)


def remove(timeline, a, b, through_log):
    treatment = ("refuse", "drop")[b % 2]
    timeline.command(
        commands.REMOVE_PARTITIONS, through_log, name=TOPICS[a % 2], to=b % 4, records=treatment
    )


def alter(timeline, a, b, through_log):
    value = (None, 1, 2, 3)[b % 4]
    timeline.command(
        commands.ALTER_TOPIC_CONFIGS,
        through_log,
        name=TOPICS[a % 2],
        configs={"min.insync.replicas": value},
    )


def fence(timeline, a, b, through_log):
    broker_id = BrokerId(BROKERS[a % 4])
    if broker_id in timeline.image.brokers:
        timeline.commit(lambda image: fence_broker(image, broker_id, "by a test"))


def come_back(timeline, a, b, through_log):
    broker_id = BrokerId(BROKERS[a % 4])
    if broker_id in timeline.image.brokers:
        timeline.commit(lambda image: unfence_broker(image, broker_id, "by a test"))


def replace_disk(timeline, a, b, through_log):
    broker_id = BrokerId(BROKERS[a % 4])
    timeline.command(
        commands.REGISTER_BROKER,
        through_log,
        broker_id=broker_id,
        root=f"memory://{broker_id}",
        rack="ab"[broker_id > 2],
        directory_id=f"disk{broker_id}x{len(timeline.batches)}",
    )


def drain(timeline, a, b, through_log):
    timeline.command(commands.DRAIN_BROKER, through_log, broker_id=BROKERS[a % 4])


def resume(timeline, a, b, through_log):
    timeline.command(commands.RESUME_BROKER, through_log, broker_id=BROKERS[a % 4])


def unregister(timeline, a, b, through_log):
    timeline.command(commands.UNREGISTER_BROKER, through_log, broker_id=BROKERS[a % 4])


def elect(timeline, a, b, through_log):
    timeline.command(commands.ELECT_PREFERRED, through_log, keys=None)


def elect_unclean(timeline, a, b, through_log):
    timeline.command(commands.ELECT_UNCLEAN, through_log, looks=inspections_of(timeline.image))


def reassign(timeline, a, b, through_log):
    key = some((key for key, _ in timeline.image.partitions()), a)
    if key is not None:
        target = [BROKERS[(b + place) % 4] for place in range(1 + (a + b) % 3)]
        timeline.command(
            commands.REASSIGN, through_log, targets={key: target}, throttle_bytes_per_s=None
        )


def cancel(timeline, a, b, through_log):
    key = some((each.key for each in list_reassignments(timeline.image)), a)
    if key is not None:
        timeline.command(commands.CANCEL_REASSIGNMENTS, through_log, keys=[key])


def advance(timeline, a, b, through_log):
    timeline.commit_until_done(advance_reassignments)


def go_on_draining(timeline, a, b, through_log):
    timeline.commit_until_done(continue_draining)


def one_pass(timeline, a, b, through_log):
    for _ in timeline.pass_once():
        pass


def make(timeline, a, b, through_log):
    timeline.create_replicas()


def append(timeline, a, b, through_log):
    timeline.replicate(appended=1 + a % 3)


def lag(timeline, a, b, through_log):
    timeline.replicate(appended=1, lagging={BROKERS[a % 4], BROKERS[b % 4]})


def delete_records(timeline, a, b, through_log):
    key = some((key for key, _ in timeline.image.partitions()), a)
    if key is not None:
        timeline.command(commands.DELETE_RECORDS, through_log, offsets={key: b % 4})


EVENTS = (
    create, delete, add, remove, alter, fence, come_back, replace_disk, drain, resume, unregister,
    elect, elect_unclean, reassign, cancel, advance, go_on_draining, one_pass, make, append, lag,
    delete_records,
)  # fmt: skip
