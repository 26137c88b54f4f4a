"""Events of a course: each is told by two small numbers, whatever the cluster is like.

Those that can't be on the cluster as it is do nothing, or are refused.
"""

from kafka_on_spark.controller import commands
from kafka_on_spark.controller.brokers import fence_broker, unfence_broker
from kafka_on_spark.controller.draining import continue_draining
from kafka_on_spark.controller.reassignment import advance_reassignments, list_reassignments
from kafka_on_spark.ids import BrokerId
from tests.unit.controller.courses import BROKERS, TOPICS, looks_of


def some(values, number):
    values = sorted(values)
    return values[number % len(values)] if values else None


def create(course, a, b, through_log):
    course.command(
        commands.CREATE_TOPIC,
        through_log,
        name=TOPICS[a % 2],
        partition_count=1 + b % 3,
        replication_factor=1 + (a + b) % 3,
        replica_assignment=None,
        configs={"min.insync.replicas": 1 + b % 2} if a % 3 else {},
    )


def delete(course, a, b, through_log):
    course.command(commands.DELETE_TOPIC, through_log, name=TOPICS[a % 2])


def add(course, a, b, through_log):
    course.command(commands.ADD_PARTITIONS, through_log, name=TOPICS[a % 2], to=1 + b % 4)


def remove(course, a, b, through_log):
    treatment = ("refuse", "drop")[b % 2]
    course.command(
        commands.REMOVE_PARTITIONS, through_log, name=TOPICS[a % 2], to=b % 4, records=treatment
    )


def alter(course, a, b, through_log):
    value = (None, 1, 2, 3)[b % 4]
    course.command(
        commands.ALTER_TOPIC_CONFIGS,
        through_log,
        name=TOPICS[a % 2],
        configs={"min.insync.replicas": value},
    )


def fence(course, a, b, through_log):
    broker_id = BrokerId(BROKERS[a % 4])
    if broker_id in course.image.brokers:
        course.commit(lambda image: fence_broker(image, broker_id, "by a test"))


def come_back(course, a, b, through_log):
    broker_id = BrokerId(BROKERS[a % 4])
    if broker_id in course.image.brokers:
        course.commit(lambda image: unfence_broker(image, broker_id, "by a test"))


def replace_disk(course, a, b, through_log):
    broker_id = BrokerId(BROKERS[a % 4])
    course.command(
        commands.REGISTER_BROKER,
        through_log,
        broker_id=broker_id,
        root=f"memory://{broker_id}",
        rack="ab"[broker_id > 2],
        directory_id=f"disk{broker_id}x{len(course.batches)}",
    )


def drain(course, a, b, through_log):
    course.command(commands.DRAIN_BROKER, through_log, broker_id=BROKERS[a % 4])


def resume(course, a, b, through_log):
    course.command(commands.RESUME_BROKER, through_log, broker_id=BROKERS[a % 4])


def unregister(course, a, b, through_log):
    course.command(commands.UNREGISTER_BROKER, through_log, broker_id=BROKERS[a % 4])


def elect(course, a, b, through_log):
    course.command(commands.ELECT_PREFERRED, through_log, keys=None)


def elect_unclean(course, a, b, through_log):
    course.command(commands.ELECT_UNCLEAN, through_log, looks=looks_of(course.image))


def reassign(course, a, b, through_log):
    key = some((key for key, _ in course.image.partitions()), a)
    if key is not None:
        target = [BROKERS[(b + place) % 4] for place in range(1 + (a + b) % 3)]
        course.command(
            commands.REASSIGN, through_log, targets={key: target}, throttle_bytes_per_s=None
        )


def cancel(course, a, b, through_log):
    key = some((each.key for each in list_reassignments(course.image)), a)
    if key is not None:
        course.command(commands.CANCEL_REASSIGNMENTS, through_log, keys=[key])


def advance(course, a, b, through_log):
    course.go_on(advance_reassignments)


def go_on_draining(course, a, b, through_log):
    course.go_on(continue_draining)


def one_pass(course, a, b, through_log):
    for _ in course.pass_once():
        pass


def make(course, a, b, through_log):
    course.make_replicas()


def append(course, a, b, through_log):
    course.replicate(appended=1 + a % 3)


def lag(course, a, b, through_log):
    course.replicate(appended=1, lagging={BROKERS[a % 4], BROKERS[b % 4]})


def delete_records(course, a, b, through_log):
    key = some((key for key, _ in course.image.partitions()), a)
    if key is not None:
        course.command(commands.DELETE_RECORDS, through_log, offsets={key: b % 4})


EVENTS = (
    create, delete, add, remove, alter, fence, come_back, replace_disk, drain, resume, unregister,
    elect, elect_unclean, reassign, cancel, advance, go_on_draining, one_pass, make, append, lag,
    delete_records,
)  # fmt: skip
