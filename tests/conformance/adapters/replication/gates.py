"""The kind of file 04 about what a broker refuses, and in which order it checks."""

from dataclasses import replace

from kafka_on_spark.base.config import check_acks
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import KEEP, BrokerId, PartitionKey
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.log import operations
from kafka_on_spark.log.read_order import plan_read
from kafka_on_spark.log.truncation import check_fetch
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.produce.append_rounds import check_min_isr
from kafka_on_spark.produce.leader_log import is_committed
from tests.builders import KEY, TOPIC_ID, image_of, partition
from tests.committing import committed
from tests.conformance.adapters.logs.log_offsets import find, found_in_words
from tests.conformance.adapters.replication.epochs import check_asked, given, undefined_or
from tests.conformance.adapters.replication.leader import Leader
from tests.conformance.fetching import fetch_once
from tests.conformance.logs import batch_of, in_chain, staged_of
from tests.conformance.runner import Answer, CutOffError, kafka_names
from tests.conformance.world import adopted, extended

UNCOMMITTED, COMMITTED = "READ_UNCOMMITTED", "READ_COMMITTED"
FIRST_TIMES = ("EARLIEST", "EARLIEST_LOCAL")


def leader_of(given):
    """Return a record's leader in our words, where None stands for Kafka's -1."""
    return None if given == -1 else given


class Gates(Leader):
    """One replica of a partition, asked by clients, followers and the controller."""

    def __init__(
        self,
        timestamps=(),
        open_transaction=None,
        hosted=True,
        stray_log=False,
        partitions=None,
        **setup,
    ):
        if partitions is not None:  # they are a cluster's, and there is no other log
            setup["replicas"] = (setup["local"],)
        super().__init__(**setup)
        self.is_hosted = hosted
        if timestamps:
            self._stamp(timestamps)
        if partitions is not None:
            self._register(partitions)
        self.appended_end = None
        self.diverging_end = None
        self.seen_records = 0

    def _stamp(self, timestamps):
        log = self.world.leader
        stamped = in_chain(
            replace(log, batches=()),
            (
                batch_of(
                    each.base_offset,
                    each.leader_epoch,
                    # A record without a timestamp is before all times, as it is at Kafka (-1).
                    timestamp_ms=-1 if time_ms is None else time_ms,
                    appended_at_ms=each.appended_at_ms,
                )
                for each, time_ms in zip(log.batches, timestamps, strict=True)
            ),
        )
        self.world.leader = replace(log, batches=stamped)

    def op_list_offsets(self, timestamp, isolation):
        if isolation == COMMITTED:
            return Answer(left_out=dict.fromkeys(("offset", "timestamp", "error"), "transactions"))
        log = self.world.leader
        start = self.world.report().epoch_start_offset
        found = find(log if isolation is None else self._visible(), timestamp)
        lags = isolation is not None and start > self.world.high_watermark
        if lags and timestamp not in FIRST_TIMES and (timestamp == "LATEST" or found is None):
            return Answer(found_in_words(found), {"error": "high-watermark-never-falls"})
        return found_in_words(found)

    def op_follower_fetch(
        self, replica, offset, current_leader_epoch=None, last_fetched_epoch=None, **step
    ):
        self._check(current_leader_epoch, only_leader=True, fetched_by=BrokerId(replica))
        end = check_fetch(self.world.leader, offset, last_fetched_epoch=given(last_fetched_epoch))
        if end is not None:
            self.diverging_end = undefined_or(end)
            return {"diverging": self.diverging_end}
        answer = super().op_follower_fetch(
            replica, offset, current_leader_epoch=current_leader_epoch, **step
        )
        answer.value["diverging"] = None
        return answer

    def op_consumer_fetch(self, offset, client_metadata, current_leader_epoch=None):
        """A consumer that says where it is may be served by a follower (KIP-392)."""
        self._check(current_leader_epoch, only_leader=not client_metadata)
        check_fetch(self.world.leader, offset)
        self._order(offset)

    def op_fetch(self, replica, offset, current_leader_epoch=None):
        """A fetch by a follower sees the whole log; one by a consumer what is committed."""
        is_follower = isinstance(replica, int) and replica >= 0
        fetched_by = BrokerId(replica) if is_follower else None
        self._check(current_leader_epoch, only_leader=True, fetched_by=fetched_by)
        if is_follower:
            check_fetch(self.world.leader, offset)
            # Kafka's test has a broker fetch from itself: here another replica stands for it.
            follower = max(self.world.partition.replicas, key=lambda each: each != self.world.local)
            self.world.see_follower(follower, offset)
            self.seen_records = fetch_once(self.world, follower).result.copied_records
        else:
            order = self._order(offset)
            self.seen_records = order.end_offset - order.start_offset
        return {"records": self.seen_records}

    def _order(self, offset):
        """Return what a consumer that asks for all from `offset` on is given."""
        end = self.world.leader.log_end_offset
        self.world.register(replace(self.world.partition, log_end_offset=end))
        return plan_read(self.world.image, KEY, start_offset=offset, end_offset=end)

    def _visible(self):
        """Return the leader's log as far as a consumer sees it."""
        log = self.world.leader
        end = self._order(log.log_start_offset).end_offset
        seen = tuple(each for each in log.batches if each.end_offset <= end)
        return replace(log, log_end_offset=end, batches=seen)

    def _check(self, leader_epoch, *, only_leader, fetched_by=None):
        partition = self.world.partition if self.is_hosted else None
        check_asked(partition, self.world.local, leader_epoch, only_leader, fetched_by)

    def op_append_follower(self, base_offset, count):
        epoch = self.world.leader.leader_epoch
        below_start = base_offset < self.world.leader.log_start_offset
        answer = {}
        try:
            self.world.leader = extended(self.world.leader, [batch_of(base_offset, epoch, count)])
        except KafkaOnSparkError as error:
            answer["error"] = kafka_names(error)
        log = self.world.leader
        answer |= {"log_start_offset": log.log_start_offset, "log_end_offset": log.log_end_offset}
        first = log.batches[0].base_offset if log.batches else log.log_end_offset
        if below_start or first < log.log_start_offset:
            return Answer(answer, {"log_start_offset": "log-start-is-the-registers"})
        return answer

    def op_produce(self, acks, count=1):
        answer = {}
        try:
            if check_acks(acks) == "all":
                check_min_isr(self.world.image, KEY, is_appended=False)
            log = self.world.leader
            staged = staged_of(log.log_end_offset, log.leader_epoch, count)
            change = operations.append(
                log, staged, leader_epoch=self.world.partition.leader_epoch, now_ms=0
            )
            self.world.leader = log.apply(change)
            self.appended_end = self.world.leader.log_end_offset
            self._decide_high_watermark()
            answer["pending"] = check_acks(acks) == "all" and not self._is_committed()
        except KafkaOnSparkError as error:
            answer["error"] = kafka_names(error)
        return {**answer, "log_end_offset": self.world.leader.log_end_offset}

    def op_produce_status(self):
        answer = {"high_watermark": self.world.high_watermark}
        try:
            check_min_isr(self.world.image, KEY, is_appended=True)
        except KafkaOnSparkError as error:
            return {**answer, "error": kafka_names(error)}
        return {**answer, "pending": not self._is_committed()}

    def _is_committed(self):
        log = self.world.leader
        appended = next(each for each in log.batches if each.end_offset == self.appended_end)
        return is_committed(self.world.partition, log, appended)

    def op_stop_replica(self, leader_epoch, delete):
        """A replica is stopped by a later leadership; without a known epoch, or for good, by name."""
        if delete or not isinstance(leader_epoch, int) or not self.is_hosted:
            raise CutOffError("deletion-names-a-uuid")
        self.world.leader = adopted(self.world.leader, leader_epoch)

    def op_apply_record(self, partition, record):
        place = self.names[partition]
        found = self.cluster.topics[TOPIC_ID].partitions[place]
        change = PartitionChange(
            isr=frozenset(record["isr"]) if "isr" in record else KEEP,
            leader=leader_of(record.get("leader", KEEP)),
        )
        stamped = change_record(self.cluster, PartitionKey(TOPIC_ID, place), found, change, "")
        self.cluster = committed(self.cluster, [stamped])

    def op_partition_view(self, partition):
        found = self.cluster.topics[TOPIC_ID].partitions[self.names[partition]]
        return {
            "is_leader": found.leader == self.world.local,
            "leader_epoch": found.leader_epoch,
            "partition_epoch": found.partition_epoch,
        }

    def op_stopped_fetchers(self):
        return Answer(None, {"": "fetches-are-orders"})

    def resolve(self, expectation):
        """Read "some records" and "it differs somewhere" as what was answered, if that is so."""
        if expectation == ">0":
            return max(1, self.seen_records)
        if expectation is True:
            return True if self.diverging_end is None else self.diverging_end
        return super().resolve(expectation)

    def _register(self, partitions):
        """Have an image of these partitions, each with its registration's fields."""
        self.names = {name: place for place, name in enumerate(partitions)}
        self.cluster = image_of(
            *(
                partition(
                    " ".join(str(broker) for broker in each["replicas"]),
                    " ".join(str(broker) for broker in each["isr"]),
                    leader=each["leader"],
                    epoch=each.get("leader_epoch", 0),
                    version=each.get("partition_epoch", 0),
                )
                for each in partitions.values()
            ),
            ids="0 1 2 3 4 5 6",
        )
