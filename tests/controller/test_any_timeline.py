"""Any timeline of events on a small cluster's metadata: what must hold holds after each commit, nothing is
decided twice, and a controller that goes on after any commit ends alike.

Only these events mix moves, drains, returns and removed partitions with failures: the simulation's
administrator has none of these. What tables would say is made up from what was committed: a follower has
the leader's log, or lags. Draws are counted, so that a timeline can be gone again.
"""

import random
from contextlib import suppress
from itertools import count

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.errors import ProtocolError
from kafka_on_spark.base.ids import BrokerId, IdSource
from kafka_on_spark.controller import commands
from kafka_on_spark.controller.brokers import continue_draining, fence_broker, unfence_broker
from kafka_on_spark.controller.commands import to_json
from kafka_on_spark.controller.election import (
    change_record,
    elect_preferred,
    elect_where_none,
    recreate_lost,
)
from kafka_on_spark.controller.isr import conclude
from kafka_on_spark.controller.reassignment import (
    _only,
    advance_reassignments,
    list_reassignments,
)
from kafka_on_spark.controller.replica_tables import record_created
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.records import BrokerState
from tests.builders import NOW_MS, address, cluster_of, report, seen
from tests.committing import replay
from tests.examples import many

BROKERS = (1, 2, 3, 4)
TOPICS = ("orders", "payments")
LONG_MS = 10**9


class Timeline:
    """A cluster's image, and the events that change it: each by two small numbers, whatever the cluster is
    like. One that can't be does nothing, or is refused."""

    def __init__(self):
        self.image = MetadataImage(brokers=cluster_of("1 2 3 4", racks="a a b b"))
        self.advance = advance_reassignments
        self._generations = {}
        self._ids = count()
        self.id_source = IdSource(
            lambda: f"{next(self._ids):032x}", lambda bound: next(self._ids) % bound
        )

    def commit(self, decide):
        """Commit a decision, unless it is refused. It is decided twice: with the same ids it says the
        same, and afterwards nothing is left to decide of it."""
        first = next(self._ids)
        try:
            result = self._from(first, decide)
        except ProtocolError:
            return
        assert self._from(first, decide) == result
        self.append(result)
        with suppress(ProtocolError):
            assert not decide(self.image).records, (decide, result.records)

    def commit_until_done(self, decide):
        """Commit the steps of what goes on in steps, and yield after each."""
        for _ in range(10):
            result = decide(self.image)
            if not result.records:
                return
            self.append(result)
            yield
        raise AssertionError("it never comes to an end")

    def _from(self, first, decide):
        self._ids = count(first)
        return decide(self.image)

    def append(self, result):
        before, self.image = self.image, replay(self.image, result)
        check_step(before, self.image)
        for key, partition in self.image.partitions():
            if before.partition(key) is None:  # in no generation that one of its number was in
                assert partition.unclean_generation > self._generations.get(key, -1), key
            self._generations[key] = partition.unclean_generation

    def command(self, kind, **arguments):
        self.commit(lambda image: kind.decide(image, self.id_source, to_json(arguments)))

    def pass_once(self):
        """Yield after each commit of one pass of a controller, in the loop's order."""
        for decide in (
            lambda image: elect_where_none(image, image.eligible_brokers(), "by a test"),
            lambda image: recreate_lost(image, self.id_source.new_uuid),
            continue_draining,
            self.advance,
            lambda image: elect_preferred(image, "by a test"),
        ):
            yield from self.commit_until_done(decide)

    def replicate(self, *, appended=0, lagging=()):
        """Make what was never made, and do one round: each leader has `appended` more."""
        made = [
            address(
                each,
                key=key,
                directory_id=self.image.brokers[each].directory_id,
                replica_uuid=partition.uuid_of(each),
            )
            for key, partition in self.image.partitions()
            for each in partition.replicas
            if partition.directory_of(each) is None and self.image.is_eligible(each)
        ]
        self.commit(lambda image: record_created(image, made))
        self.append(
            conclude(
                self.image,
                [
                    report_of(key, partition, appended, lagging)
                    for key, partition in self.image.partitions()
                    if partition.leader is not None and partition.is_created(partition.leader)
                ],
            )
        )

    def run_until_stable(self):
        """Pass and replicate until nothing is left to do."""
        for _ in range(12):
            before = self.image.offset
            for _ in self.pass_once():
                pass
            self.replicate()
            if self.image.offset == before:
                return
        raise AssertionError("it never comes to rest")

    def copy(self):
        """Return a timeline that goes on from here by itself."""
        other = Timeline()
        other.image, other._generations = self.image, dict(self._generations)
        other._ids = count(next(self._ids) + 10_000)
        return other


def report_of(key, partition, appended, lagging):
    end = max(partition.high_watermark, partition.log_end_offset) + appended

    def row(broker_id):
        own_end = partition.high_watermark if broker_id in lagging else end
        return seen(
            broker_id,
            end if broker_id == partition.leader else own_end,
            replica_uuid=partition.uuid_of(broker_id),
            directory_id=partition.directory_of(broker_id),
            fence=partition.leader_epoch,
            last_epoch=partition.leader_epoch if end else None,
            missing_since_ms=NOW_MS - LONG_MS if own_end < end else None,
        )

    others = [e for e in partition.replicas if e != partition.leader and partition.is_created(e)]
    return report(
        row(partition.leader),
        *map(row, others),
        epoch=partition.leader_epoch,
        version=partition.partition_epoch,
        known_end=partition.log_end_offset,
        epoch_start=partition.high_watermark,
        uncommitted_since_ms=NOW_MS - LONG_MS if end > partition.high_watermark else None,
        key=key,
    )


def check_step(before, after):
    """Check what must hold of an image, and from one commit to the next (I6-I9, I17-I18)."""
    for topic in after.topics.values():
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        assert topic.partitions, "a topic has a partition at least"
    for key, partition in after.partitions():
        assert partition.isr, "the last member stays"
        assert set(partition.replicas) <= after.brokers.keys()
        if partition.leader is not None:
            assert after.brokers[partition.leader].is_online, "nobody who is fenced leads"
        assert partition.log_start_offset <= partition.high_watermark
        earlier = before.partition(key)
        if earlier is not None:
            check_partition(after, earlier, partition)
    for broker_id, broker in before.brokers.items():
        later = after.brokers.get(broker_id)
        assert later is None or later.broker_epoch >= broker.broker_epoch


def check_partition(image, before, after):
    is_same = (before.leader, before.leader_epoch) == (after.leader, after.leader_epoch)
    assert is_same or after.leader_epoch > before.leader_epoch, "one leader an epoch"
    assert after.partition_epoch >= before.partition_epoch
    registration = ("replicas", "isr", "elr", "leader", "adding_replicas", "removing_replicas")
    if any(getattr(before, name) != getattr(after, name) for name in registration):
        assert after.partition_epoch > before.partition_epoch, "compare-and-swap by the epoch"
    assert after.log_start_offset >= before.log_start_offset
    assert after.high_watermark >= before.high_watermark
    if after.leader is not None:
        complete = before.isr | before.elr
        assert after.leader in complete or after.leader in after.isr
    has_gone = set(before.original_replicas) - set(after.replicas)
    if before.is_reassigning and not after.is_reassigning and has_gone:
        assert set(after.replicas) <= before.isr, "done only with all of the target in sync"
    broker = None if before.leader is None else image.brokers.get(before.leader)
    if broker is not None and broker.state is BrokerState.DRAINING:
        assert after.leader is not None, "a drained broker's partitions never go offline"


def create(timeline, a, b):
    timeline.command(
        commands.CREATE_TOPIC,
        name=TOPICS[a % 2],
        partition_count=1 + b % 3,
        replication_factor=1 + (a + b) % 3,
        replica_assignment=None,
        configs={"min.insync.replicas": 1 + b % 2} if a % 3 else {},
    )


def delete(timeline, a, b):
    timeline.command(commands.DELETE_TOPIC, name=TOPICS[a % 2])


def add(timeline, a, b):
    timeline.command(commands.ADD_PARTITIONS, name=TOPICS[a % 2], to=1 + b % 4)


def remove(timeline, a, b):
    treatment = ("refuse", "drop")[b % 2]
    timeline.command(commands.REMOVE_PARTITIONS, name=TOPICS[a % 2], to=b % 4, records=treatment)


def alter(timeline, a, b):
    configs = {"min.insync.replicas": (None, 1, 2, 3)[b % 4]}
    timeline.command(commands.ALTER_TOPIC_CONFIGS, name=TOPICS[a % 2], configs=configs)


def fence(timeline, a, b):
    broker_id = BrokerId(BROKERS[a % 4])
    if broker_id in timeline.image.brokers:
        timeline.commit(lambda image: fence_broker(image, broker_id, "by a test"))


def come_back(timeline, a, b):
    broker_id = BrokerId(BROKERS[a % 4])
    if broker_id in timeline.image.brokers:
        timeline.commit(lambda image: unfence_broker(image, broker_id, "by a test"))


def replace_disk(timeline, a, b):
    broker_id = BrokerId(BROKERS[a % 4])
    timeline.command(
        commands.REGISTER_BROKER,
        broker_id=broker_id,
        root=f"memory://{broker_id}",
        rack="ab"[broker_id > 2],
        directory_id=f"disk{broker_id}x{timeline.image.offset}",
    )


def drain(timeline, a, b):
    timeline.command(commands.DRAIN_BROKER, broker_id=BROKERS[a % 4])


def resume(timeline, a, b):
    timeline.command(commands.RESUME_BROKER, broker_id=BROKERS[a % 4])


def unregister(timeline, a, b):
    timeline.command(commands.UNREGISTER_BROKER, broker_id=BROKERS[a % 4])


def reassign(timeline, a, b):
    keys = sorted(key for key, _ in timeline.image.partitions())
    if keys:
        target = [BROKERS[(b + place) % 4] for place in range(1 + (a + b) % 3)]
        targets = {keys[a % len(keys)]: target}
        timeline.command(commands.REASSIGN, targets=targets, throttle_bytes_per_s=None)


def cancel(timeline, a, b):
    keys = sorted(each.key for each in list_reassignments(timeline.image))
    if keys:
        timeline.command(commands.CANCEL_REASSIGNMENTS, keys=[keys[a % len(keys)]])


def advance(timeline, a, b):
    for _ in timeline.commit_until_done(timeline.advance):
        pass


def one_pass(timeline, a, b):
    for _ in timeline.pass_once():
        pass


def append(timeline, a, b):
    timeline.replicate(appended=1 + a % 3)


def lag(timeline, a, b):
    timeline.replicate(appended=1, lagging={BROKERS[a % 4], BROKERS[b % 4]})


EVENTS = (
    create, delete, add, remove, alter, fence, come_back, replace_disk, drain, resume, unregister,
    reassign, cancel, advance, one_pass, append, lag,
)  # fmt: skip
NUMBERS = st.integers(0, 11)
STEPS = st.lists(st.tuples(st.sampled_from(EVENTS), NUMBERS, NUMBERS), max_size=16)


def gone(steps, timeline=None):
    timeline = timeline or Timeline()
    for event, a, b in ((create, 2, 2), (append, 0, 0), *steps):
        event(timeline, a, b)
    return timeline


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


@settings(max_examples=many(150))
@given(steps=STEPS)
@example(steps=[(remove, 0, 1), (add, 0, 2)])
@example(steps=[(reassign, 0, 2), (drain, 0, 0)])
@example(steps=[(fence, 0, 0), (reassign, 0, 2)])
def test_a_controller_that_dies_after_any_commit_leaves_what_the_next_one_ends_alike(steps):
    """What must hold is checked at each commit, and that nothing is decided twice."""
    timeline = gone(steps)
    whole = timeline.copy()
    whole.run_until_stable()

    cut = timeline.copy()
    for stop, _ in enumerate(cut.pass_once()):
        next_one = cut.copy()
        next_one.run_until_stable()
        assert shape(next_one.image) == shape(whole.image), stop

    assert not advance_reassignments(whole.image).records


def advance_at_once(image):
    """Row B6 without B: the added replica need not be in sync."""
    records = [
        change_record(image, key, partition, _only(partition, target, leader=leader), "")
        for key, partition in image.partitions()
        if partition.is_reassigning
        and (target := partition.target_replicas)
        and (leader := partition.leader) in target
    ]
    return ControllerResult(records, [])


def test_a_move_that_is_done_before_all_are_in_sync_is_seen():
    def breaks(seed):
        rng, timeline = random.Random(seed), Timeline()
        timeline.advance = advance_at_once
        steps = [(rng.choice(EVENTS), rng.randrange(12), rng.randrange(12)) for _ in range(16)]
        try:
            gone(steps, timeline)
        except AssertionError:
            return True
        return False

    assert any(breaks(seed) for seed in range(300))
