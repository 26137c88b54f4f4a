"""A small cluster's metadata in one process: events in, commits out, and what must hold of each.

What tables would say is made up from what was committed: a follower has the leader's log, or lags.
Draws are counted, so that a timeline can be gone again.
"""

import json
from itertools import count

from kafka_on_spark.base.errors import ProtocolError
from kafka_on_spark.base.ids import NO_CHAIN, IdSource, Offset
from kafka_on_spark.controller.brokers import continue_draining
from kafka_on_spark.controller.commands import (
    Request,
    answer,
    request_record,
    response_of,
    to_json,
)
from kafka_on_spark.controller.election import (
    elect_by_inspections,
    elect_preferred,
    elect_where_none,
    leaderless,
    recreate_lost,
)
from kafka_on_spark.controller.isr import conclude
from kafka_on_spark.controller.reassignment import advance_reassignments
from kafka_on_spark.controller.replica_tables import record_created
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, snapshot_records
from kafka_on_spark.metadata.records import (
    COLUMNS,
    AdminResultRecord,
    BrokerState,
    MetadataBatch,
    Stamp,
    decode,
    encode,
)
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaInspection, ReplicaReport
from tests.builders import NOW_MS, address, cluster_of, digest_at

BROKERS = (1, 2, 3, 4)
TOPICS = ("orders", "payments")
LONG_MS = 10**9
STAMP = Stamp(time_ms=NOW_MS)


class Timeline:
    """A cluster's log, and its image."""

    def __init__(self):
        self.image = MetadataImage(brokers=cluster_of("1 2 3 4", racks="a a b b"))
        self.start = self.image
        self.batches = []
        self._generations = {}
        self._ids = count()
        self.id_source = IdSource(
            lambda: f"{next(self._ids):032x}", lambda bound: next(self._ids) % bound
        )

    def commit(self, decide):
        """Commit a decision; return its response, or the error that it is refused with.

        It is decided twice: from the same id_source it says the same, and nothing is left to decide
        of it afterwards.
        """
        first = next(self._ids)
        try:
            result = self._from(first, decide)
        except ProtocolError as error:
            return error
        assert self._from(first, decide) == result
        self._append(result)
        assert not self._decide_again(decide), (decide, result.records)
        return result.response

    def commit_until_done(self, decide):
        """Commit the steps of what goes on in steps; return how many there were."""
        for steps in range(10):
            result = decide(self.image)
            if not result.records:
                return steps
            self._append(result)
        raise AssertionError("it never comes to an end")

    def _from(self, first, decide):
        self._ids = count(first)
        return decide(self.image)

    def _decide_again(self, decide):
        try:
            return decide(self.image).records
        except ProtocolError:
            return []

    def _append(self, result):
        if not result.records:
            return
        batch = MetadataBatch(
            base_offset=self.image.offset, stamp=STAMP, records=tuple(result.records)
        )
        before, self.image = self.image, self.image.replay(batch)
        self.batches.append(batch)
        check_step(before, self.image)
        self._check_generations(before)

    def _check_generations(self, before):
        """Check that no partition is in a generation that another one of its number was in."""
        for key, partition in self.image.partitions():
            if before.partition(key) is None:
                assert partition.unclean_generation > self._generations.get(key, -1), key
            self._generations[key] = partition.unclean_generation

    def command(self, kind, through_log=False, **arguments):
        """Run a command: at once, or as a request and its answer, which must come to the same."""
        given = to_json(arguments)
        if not through_log:
            return self.commit(lambda image: kind.decide(image, self.id_source, given))
        request = Request(
            command=kind, arguments=given, asked_by="me", timeout_ms=1, deadline_at_ms=NOW_MS
        )
        record = request_record(request, f"request {len(self.batches)}")
        self._append(ControllerResult([record], None))
        first = next(self._ids)
        self._ids = count(first)
        result = self._answered(record)
        try:
            direct = self._from(first, lambda image: kind.decide(image, self.id_source, given))
        except ProtocolError as error:
            direct = error
        self._append(result)
        assert self._answered(record).records == []
        *decided, said = result.records
        assert isinstance(said, AdminResultRecord)
        if isinstance(direct, ProtocolError):
            assert decided == []
            assert json.loads(said.result)["code"] == direct.code
            return direct
        assert decided == list(direct.records)
        assert response_of(said) == direct.response
        return direct.response

    def _answered(self, record):
        return answer(self.image, record, self.id_source)

    # What nobody asks for

    def pass_once(self):
        """Yield after each commit of one pass of a controller, in the loop's order."""
        for decide in (
            lambda image: elect_where_none(image, image.eligible_brokers(), "by a test"),
            lambda image: elect_by_inspections(image, inspections_of(image)),
            lambda image: recreate_lost(image, self.id_source.new_uuid),
            continue_draining,
            advance_reassignments,
            lambda image: elect_preferred(image, "by a test"),
        ):
            for _ in range(10):
                result = decide(self.image)
                if not result.records:
                    break
                self._append(result)
                yield
            else:
                raise AssertionError("it never comes to an end")

    def create_replicas(self):
        """Make what was never made, on brokers that answer."""
        addresses = [
            address(
                broker_id,
                key=key,
                directory_id=self.image.brokers[broker_id].directory_id,
                replica_uuid=partition.uuid_of(broker_id),
            )
            for key, partition in self.image.partitions()
            for broker_id in partition.replicas
            if partition.directory_of(broker_id) is None and self.image.is_eligible(broker_id)
        ]
        self.commit(lambda image: record_created(image, addresses))

    def replicate(self, *, appended=0, lagging=()):
        """One round: each leader has `appended` more; `lagging` brokers do not come along."""
        image = self.image
        reports = [
            report
            for key, partition in image.partitions()
            if (report := report_of(key, partition, appended, lagging)) is not None
        ]
        self._append(conclude(image, reports))

    def run_until_stable(self):
        """Pass and replicate until nothing is left to do."""
        for _ in range(12):
            before = self.image.offset
            for _ in self.pass_once():
                pass
            self.create_replicas()
            self.replicate()
            if self.image.offset == before:
                return
        raise AssertionError("it never comes to rest")

    def copy(self):
        """Return a timeline that goes on from here by itself."""
        other = Timeline()
        other.image, other.start, other.batches = self.image, self.start, list(self.batches)
        other._generations = dict(self._generations)
        other._ids = count(next(self._ids) + 10_000)
        return other


def report_of(key, partition, appended, lagging):
    leader = partition.leader
    if leader is None or not partition.is_created(leader):
        return None
    end = max(partition.high_watermark, partition.log_end_offset) + appended
    is_behind = end > partition.high_watermark

    def seen(broker_id, end):
        is_behind = end < leader_end
        return ReplicaReport(
            broker_id=broker_id,
            replica_uuid=partition.uuid_of(broker_id),
            directory_id=partition.directory_of(broker_id),
            fence=partition.leader_epoch,
            log_end_offset=end,
            last_epoch=partition.leader_epoch if end else None,
            chain_digest=digest_at(end),
            is_matched=True,
            missing_since_ms=NOW_MS - LONG_MS if is_behind else None,
        )

    leader_end = end
    followers = [
        seen(each, partition.high_watermark if each in lagging else end)
        for each in partition.replicas
        if each != leader and partition.is_created(each)
    ]
    return PartitionReport(
        key=key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        known_end=partition.log_end_offset,
        leader=seen(leader, end),
        epoch_start_offset=partition.high_watermark,
        uncommitted_since_ms=NOW_MS - LONG_MS if is_behind else None,
        followers=tuple(followers),
        now_ms=NOW_MS,
        borders=tuple((Offset(each), digest_at(each)) for each in range(end + 1)),
    )


def inspections_of(image):
    """What inspections of leaderless partitions say: their replicas lack what is committed."""
    return [
        ReplicaInspection(
            key=key,
            broker_id=broker_id,
            partition_epoch=partition.partition_epoch,
            high_watermark=partition.high_watermark,
            log_start_offset=partition.log_start_offset,
            log_end_offset=max(partition.log_start_offset, partition.high_watermark - 1),
            last_epoch=partition.high_watermark_epoch,
            epoch_below_high_watermark=None,
            chain_digest=NO_CHAIN,
            chain_at_high_watermark=None,
        )
        for key in leaderless(image)
        if (partition := image.partition(key)) is not None
        for broker_id in partition.replicas
        if partition.is_created(broker_id) and image.is_eligible(broker_id)
    ]


def check_step(before, after):
    """Check what must hold of an image, and from one commit to the next (I6-I9, I17-I18)."""
    assert {name: after.topics[each].name for name, each in after.topic_ids.items()} == {
        name: name for name in after.topic_ids
    }
    for topic in after.topics.values():
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        assert topic.partitions, "a topic has a partition at least"
    for key, partition in after.partitions():
        assert partition.isr, "the last member stays"
        assert set(partition.replicas) <= after.brokers.keys()
        leader = partition.leader
        if leader is not None:
            assert after.brokers[leader].is_online, "nobody who is fenced leads"
        assert partition.log_start_offset <= partition.high_watermark
        earlier = before.partition(key)
        if earlier is not None:
            check_partition(after, key, earlier, partition)
    for broker_id, broker in before.brokers.items():
        later = after.brokers.get(broker_id)
        assert later is None or later.broker_epoch >= broker.broker_epoch


def check_partition(image, key, before, after):
    is_same = (before.leader, before.leader_epoch) == (after.leader, after.leader_epoch)
    assert is_same or after.leader_epoch > before.leader_epoch, "one leader an epoch"
    assert after.partition_epoch >= before.partition_epoch
    registration = ("replicas", "isr", "elr", "leader", "adding_replicas", "removing_replicas")
    if any(getattr(before, name) != getattr(after, name) for name in registration):
        assert after.partition_epoch > before.partition_epoch, "compare-and-swap by the epoch"
    assert after.log_start_offset >= before.log_start_offset
    assert after.unclean_generation >= before.unclean_generation
    if after.unclean_generation == before.unclean_generation:
        assert after.high_watermark >= before.high_watermark
        if after.leader is not None:
            complete = before.isr | before.elr
            assert after.leader in complete or after.leader in after.isr
    if before.is_reassigning and not after.is_reassigning:
        gone = set(before.replicas) - set(after.replicas)
        if gone & set(before.original_replicas):
            assert set(after.replicas) <= before.isr, "done only with all of the target in sync"
        assert after.isr, "somebody in sync stays"
    if before.leader is not None and image.brokers.get(before.leader):
        state = image.brokers[before.leader].state
        if state is BrokerState.DRAINING:
            assert after.leader is not None, "a drained broker's partitions never go offline"


def wire(value):
    return tuple(value) if isinstance(value, list) else value


def through_the_codec(batch):
    """Return a batch as the metadata table gives it back."""
    columns = encode(batch.records, batch.stamp)
    rows = [
        {name: None if columns[name] is None else wire(columns[name][place]) for name in COLUMNS}
        for place in range(len(batch.records))
    ]
    records = tuple(decode(row) for row in rows)
    return MetadataBatch(base_offset=batch.base_offset, stamp=batch.stamp, records=records)


def check_replay(timeline):
    """Check that the log, and a snapshot of any moment with the rest of it, give the image."""
    batches = [through_the_codec(batch) for batch in timeline.batches]
    assert batches == timeline.batches
    assert timeline.start.replay(*batches) == timeline.image
    image = timeline.start
    for place, batch in enumerate(batches):
        records = tuple(snapshot_records(image))
        if records and place % 3 == 0:
            base = image.offset - len(records)
            snapshot = MetadataBatch(base_offset=base, stamp=STAMP, records=records)
            started = MetadataImage(offset=base).replay(through_the_codec(snapshot))
            assert started.replay(*batches[place:]) == timeline.image
        image = image.replay(batch)


def shape(image):
    """Return what people see of a cluster: neither ids nor epochs, which count tries."""
    return {
        image.name_of(key): (
            partition.replicas,
            partition.leader,
            partition.isr,
            partition.adding_replicas,
            partition.removing_replicas,
            partition.high_watermark,
        )
        for key, partition in image.partitions()
    }
