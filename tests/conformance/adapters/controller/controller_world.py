"""The world of the kind "controller": an image, and logs that say the same as Kafka's ISRs.

What the vectors don't say of logs is made up: wherever a partition has a leader, its ISR has one
record more after each step than anybody else has.
"""

import itertools
from collections import Counter
from dataclasses import replace
from itertools import count

from kafka_on_spark.base.errors import UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import KEEP, PartitionKey, TopicId
from kafka_on_spark.controller import topics
from kafka_on_spark.controller.election import elect_by_inspections, leaderless
from kafka_on_spark.controller.reassignment import advance_reassignments
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    BrokerState,
    ConfigRecord,
    HighWatermarkRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from kafka_on_spark.metadata.reports import (
    PartitionReport,
    ReplicaInspection,
    ReplicaReport,
    min_isr,
)
from tests.builders import digest_at, disk
from tests.committing import committed
from tests.conformance.adapters.controller.partitions import SETS, registration
from tests.conformance.runner import Adapter, CutOffError

BROKER_STATES = {
    "active": BrokerState.ACTIVE,
    "fenced": BrokerState.FENCED,
    "controlled_shutdown": BrokerState.DRAINING,
}
NOW_MS = 1_700_000_000_000
LAG_MS = 60_000
EPOCHS = ("leader_epoch", "partition_epoch")


class ControllerWorld(Adapter):
    """A cluster's metadata and made-up logs, and what a controller's pass does after a change."""

    SETS = SETS

    def __init__(
        self,
        brokers,
        broker_epoch,
        topics,
        topic_configs=None,
        elr_enabled=False,
        use_last_known_leader=False,
        static_configs=None,
        quota=None,
        partition_state=None,
        broker_directories=None,
        directories=None,
    ):
        if quota is not None:
            raise CutOffError("no-quotas")
        if broker_directories is not None or directories is not None:
            raise CutOffError("one-disk-a-broker")
        assert broker_epoch == "100+id", broker_epoch
        self.elr_enabled = elr_enabled
        self.image = MetadataImage()
        self.numbers = count(1)
        self.ends = {}
        self.left_out = {}
        self.in_sync_by_election = frozenset()
        self.proven = {}
        self.orders = {}
        self.reorders = Counter()
        self.last_count = 0
        self.topic_ids = {}
        self.broker_epochs = {}
        self.register(brokers)
        self.configure(static_configs or {})
        self.create(topics, topic_configs or {})
        self.place(partition_state or {})
        self.append_everywhere()

    # The world

    def register(self, brokers):
        self.replay(
            [
                BrokerRecord(
                    broker_id=broker_id,
                    broker_epoch=0,
                    root=f"memory://{broker_id}",
                    rack=None,
                    directory_id=disk(broker_id),
                    broker_state=BROKER_STATES[state],
                )
                for state, ids in brokers.items()
                for broker_id in ids
            ]
        )

    def configure(self, static):
        configs = {"default.replication.factor": "3", **static}
        self.replay(
            [
                ConfigRecord(topic_id=None, config_name=name, config_value=str(value).lower())
                for name, value in configs.items()
            ]
        )

    def create(self, given, configs):
        for name, assignment in given.items():
            if isinstance(assignment, str):  # "3 partitions, RF 2"
                partitions, factor = (
                    int(word)
                    for word in assignment.split()
                    if word.isdigit() or word[:-1].isdigit()
                )
                self.create_topic(name, partitions, factor, configs=configs.get(name))
            elif any(self.image.is_eligible(each) for each in itertools.chain(*assignment)):
                self.create_topic(name, assignment=assignment, configs=configs.get(name))
            else:  # made while its brokers were active
                self.place(
                    {
                        f"{name}-{number}": {"replicas": each, "isr": each, "leader_epoch": 0}
                        for number, each in enumerate(assignment)
                    }
                )

    def place(self, states):
        for name, state in states.items():
            topic, number = name.rsplit("-", 1)
            if topic not in self.image.topic_ids:
                self.replay([TopicRecord(topic=topic, topic_id=TopicId(self.new_uuid()))])
            topic_id = self.image.topic_ids[topic]
            one = replace(
                registration(**state),
                high_watermark=1,
                high_watermark_epoch=state["leader_epoch"],
                log_end_offset=1,
            )
            self.replay(
                [
                    PartitionRecord(
                        topic=topic, topic_id=topic_id, partition=int(number), registration=one
                    )
                ]
            )
            self.ends[PartitionKey(topic_id, int(number))] = dict.fromkeys(state["isr"], 1)

    def new_uuid(self):
        return f"{next(self.numbers):032x}"

    def replay(self, records):
        """Commit; tables are made in the instant in which they are assigned."""
        made = [_made(self.image, each) for each in records if not self.is_of_elrs(each)]
        self.image = committed(self.image, made, time_ms=NOW_MS)

    def is_of_elrs(self, record):
        """Whether a record only says from where on ELRs are tracked, where Kafka has none."""
        is_minimum = getattr(record, "config_name", None) == "min.insync.replicas"
        return is_minimum and not self.elr_enabled

    def decide(self, result):
        """Commit what was decided; return how many records that is, and the answer."""
        self.replay(result.records)
        return len(result.records), result.response

    def append_everywhere(self):
        records = []
        for key, partition in self.image.partitions():
            ends = self.ends.setdefault(key, {})
            if partition.leader is None:
                continue
            end = partition.high_watermark + 1
            ends |= dict.fromkeys(partition.isr, end)
            records.append(
                HighWatermarkRecord(
                    topic_id=key.topic_id,
                    partition=key.partition,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    high_watermark=end,
                    high_watermark_epoch=partition.leader_epoch,
                    high_watermark_chain=digest_at(end),
                    log_end_offset=end,
                )
            )
        self.replay(records)

    def finish_pass(self):
        """Do what a controller's pass does after a change: recover, go on with moves."""
        moving = {key for key, one in self.image.partitions() if one.is_reassigning}
        for _ in range(4):
            rows, moved = self.decide(advance_reassignments(self.image))
            if not self.in_sync_by_election.isdisjoint(moved):
                raise CutOffError("moves-end-in-the-next-pass")
            self.left_out |= dict.fromkeys(moved, "moved-in-rows")
            if not rows:
                break
        self.in_sync_by_election = frozenset()
        self.check_eligible(moving)
        self.append_everywhere()

    def check_eligible(self, moving):
        for key, partition in self.image.partitions():
            if partition.elr and (not self.elr_enabled or key in moving):
                raise CutOffError("elr-as-in-kraft")
            if self.elr_enabled and partition.leader is None and partition.isr:
                raise CutOffError("last-member-stays")
            if self.elr_enabled and self.is_minimum_of_another(key, partition):
                raise CutOffError("minimum-by-partition")

    def is_minimum_of_another(self, key, partition):
        """Return whether members left, and those that stay are enough by the partition's number of
        replicas and not by partition 0's, by which Kafka bounds the minimum, or the reverse."""
        proven = self.proven.get(key, partition.isr) | partition.elr
        self.proven[key] = partition.isr | partition.elr
        first = self.image.topics[key.topic_id].partitions[0]
        bounds = [min_isr(self.image, key.topic_id, each) for each in (first, partition)]
        return bool(proven - partition.isr) and min(bounds) <= len(partition.isr) < max(bounds)

    def recover(self, forced=(), among=None):
        """Elect where nobody leads, or only `among` these; return where that led to a leader."""
        before = dict(self.image.partitions())
        inspections = [
            self.inspect(key, broker_id)
            for key in leaderless(self.image)
            if among is None or key in among
            for broker_id in self.image.partition(key).replicas
            if self.image.is_eligible(broker_id)
        ]
        _, elected = self.decide(
            elect_by_inspections(self.image, inspections, forced=frozenset(forced))
        )
        for key in elected:
            one = self.image.partition(key)
            first = next(each for each in one.replicas if self.image.is_eligible(each))
            if one.leader != first and self.ends[key].get(one.leader, 0) > 0:
                raise CutOffError("unclean-takes-the-longest-log")
            self.ends[key] = {}  # what the others have is not its log any more
            if one.isr != before[key].isr:
                self.in_sync_by_election |= {key}
        return elected

    def inspect(self, key, broker_id):
        partition = self.image.partition(key)
        end = self.ends[key].get(broker_id, 0)
        has_mark = end >= partition.high_watermark
        return ReplicaInspection(
            key=key,
            broker_id=broker_id,
            partition_epoch=partition.partition_epoch,
            high_watermark=partition.high_watermark,
            log_start_offset=0,
            log_end_offset=end,
            last_epoch=partition.high_watermark_epoch if end else None,
            epoch_below_high_watermark=partition.high_watermark_epoch if has_mark else None,
            chain_digest=digest_at(end),
            chain_at_high_watermark=partition.high_watermark_chain if has_mark else None,
        )

    def key(self, topic, partition):
        one = self.image.topic(topic)
        if partition not in one.partitions:
            raise UnknownTopicOrPartitionError(f"no partition {partition}")
        return PartitionKey(one.topic_id, partition)

    def create_topic(
        self,
        topic,
        partitions=-1,
        replication_factor=-1,
        assignment=None,
        validate_only=False,
        configs=None,
    ):
        explicit = None if assignment is None else dict(enumerate(assignment))
        result = topics.create_topic(
            self.image,
            topic,
            partition_count=None if partitions == -1 else partitions,
            replication_factor=None if replication_factor == -1 else replication_factor,
            replica_assignment=explicit,
            configs=configs or {},
            new_uuid=self.new_uuid,
            random_below=lambda bound: 0,
            cause="",
        )
        if not validate_only:
            self.decide(result)
        replicas = [
            each.registration.replicas
            for each in result.records
            if isinstance(each, PartitionRecord)
        ]
        self.append_everywhere()
        is_another = self.topic_ids.get(topic) != result.response
        self.topic_ids[topic] = result.response
        return {
            "num_partitions": len(replicas),
            "replication_factor": len(replicas[0]),
            "topic_id": "!= previous" if is_another else "== previous",
        }

    def report(self, key, one, isr, leader_epoch, partition_epoch):
        """Return what is seen if `isr` has all, and everybody else lags."""
        leader_epoch = one.leader_epoch if leader_epoch is None else leader_epoch
        partition_epoch = one.partition_epoch if partition_epoch is None else partition_epoch

        def seen(broker_id):
            has_all = broker_id in isr
            return ReplicaReport(
                broker_id=broker_id,
                replica_uuid=one.uuid_of(broker_id),
                directory_id=one.directory_of(broker_id),
                fence=leader_epoch,
                log_end_offset=one.high_watermark if has_all else 0,
                last_epoch=leader_epoch,
                chain_digest=one.high_watermark_chain if has_all else digest_at(0),
                is_matched=True,
                missing_since_ms=None if has_all else NOW_MS - LAG_MS,
            )

        leader = one.replicas[0] if one.leader is None else one.leader
        return PartitionReport(
            key=key,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            known_end=one.log_end_offset,
            leader=replace(seen(leader), log_end_offset=one.high_watermark, missing_since_ms=None),
            epoch_start_offset=0,
            uncommitted_since_ms=None,
            followers=tuple(seen(each) for each in one.replicas if each != leader),
            now_ms=NOW_MS,
            borders=((one.high_watermark, one.high_watermark_chain),),
        )


def _made(image, record):
    if isinstance(record, PartitionRecord):
        one = record.registration
        return replace(record, registration=replace(one, directories=_disks(one.replicas)))
    if isinstance(record, PartitionChangeRecord) and record.change.directories is not KEEP:
        change = replace(record.change, directories=_disks(record.change.replicas))
        return replace(record, change=change)
    return record


def _disks(replicas):
    return tuple(disk(each) for each in replicas)
