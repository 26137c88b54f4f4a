"""What an append does while it waits for a broker that fails."""

import logging
from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    NO_ERROR,
    FencedLeaderEpochError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.controller.lease import Term
from kafka_on_spark.controller.probes import ProbeResult, probe_task
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, snapshot_records
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import RefusedWrite
from kafka_on_spark.produce.append_watch import AppendWatch, Wait, wait_of
from tests.builders import KEY, image_of, partition, report, seen
from tests.fakes import FakeClock, MemoryMetadataLog
from tests.nodes import node_of

SESSION_MS = 9000
ENOUGH_MS = SESSION_MS + 3000
AWAY = KafkaStorageError.code
DENIED = RootAccessDeniedError.code


class World:
    """A cluster of three brokers, and an append that waits for partition 0 on all of them."""

    def __init__(self, registration=None, *, is_allowed=True, configs=None):
        self.log = MemoryMetadataLog()
        self.clock = FakeClock()
        self.metadata = self.process()
        image = image_of(registration or partition("1 2 3"))
        image = replace(image, configs={"min.insync.replicas": "2", **(configs or {})})
        self.commit(*snapshot_records(image))
        self.codes = {1: NO_ERROR, 2: NO_ERROR, 3: NO_ERROR}
        self.probed_at_ms = []
        self.node = node_of(
            self.metadata,
            self.clock,
            given={probe_task: self.probe},
        )
        self.node.controller_id, self.node.caller = "me", "process 7 on host"
        self.watch = AppendWatch(self.node, is_allowed=is_allowed)

    def process(self):
        return MetadataService(self.log, self.clock, random=lambda: 0.5)

    def commit(self, *records):
        other = self.process()
        other.catch_up()
        other.submit(lambda image: ControllerResult(records, None), timeout_ms=1000)

    def controller(self, name):
        """Have another process claim the controllership."""
        metadata = self.process()
        seen = metadata.catch_up().controller
        return Term.claim(metadata, self.clock, controller_id=name, seen=seen, timeout_ms=1000)

    def probe(self, orders):
        self.probed_at_ms.append(self.clock.monotonic_ms())
        return [ProbeResult(each.broker_id, self.codes[each.broker_id], "away") for each in orders]

    @property
    def image(self):
        return MetadataImage().replay(*self.log.batches)

    @property
    def partition(self):
        return self.image.partition(KEY)

    def wait(self, duration_ms, each_ms=lambda: None):
        """Wait as an append does, whose every try fails; return when the partition changed."""
        started_ms = self.clock.monotonic_ms()
        while self.clock.monotonic_ms() - started_ms < duration_ms:
            each_ms()
            tried = self.metadata.catch_up().partition(KEY)
            if self.has_decided:
                return self.clock.monotonic_ms() - started_ms
            self.watch.update([Wait(key=KEY, partition=tried, error="it does not answer")])
            self.clock.sleep_ms(self.watch.pause_ms(1000))
        return None

    @property
    def has_decided(self):
        claims = [each for batch in self.log.batches for each in batch.records]
        return any(getattr(each, "controller_id", None) == "me" for each in claims)


def test_a_partition_without_a_leader_waits_for_no_session():
    world = World(partition("1 2 3", leader=None))

    assert world.wait(60_000) < 1000
    assert (world.partition.leader, world.partition.isr) == (1, {1, 2, 3})


def test_no_permission_counts_for_nothing_and_is_told_at_once(caplog):
    world = World()
    world.codes = {1: DENIED, 2: NO_ERROR, 3: NO_ERROR}

    with caplog.at_level(logging.WARNING):
        world.wait(1)
        assert len(caplog.records) == 1
        assert world.wait(60_000) is None

    assert "broker 1 can't be written to by process 7 on host" in caplog.text
    assert "process 7 on host may not write to broker 1" in world.watch.why(KEY)


def test_the_lease_of_a_dead_controller_is_watched_beside_the_probes():
    world = World(configs={"controller.lease.ms": "10000"})
    world.codes[1] = AWAY
    world.controller("dead")

    assert 10_000 <= world.wait(60_000) <= ENOUGH_MS


def test_an_append_that_another_claim_overtook_is_tried_before_it_claims():
    world = World()
    world.codes[1] = AWAY
    world.wait(SESSION_MS - 1000)
    submit, tried = world.metadata.submit, []

    def overtaken(decide, **arguments):
        world.metadata.submit = submit
        world.controller("faster").resign()
        response = submit(decide, **arguments)
        tried.append(world.has_decided)
        return response

    world.metadata.submit = overtaken

    assert world.wait(60_000) is not None
    assert tried == [False]


@pytest.mark.parametrize(
    "options", [{"is_allowed": False}, {"configs": {"auto.controller": "false"}}]
)
def test_cluster_and_call_may_forbid_it(options):
    world = World(**options)
    world.codes[1] = AWAY

    assert world.wait(60_000) is None
    assert "auto.controller=false" in world.watch.why(KEY)


def test_a_history_that_is_read_slowly_keeps_no_decision_from_coming(monkeypatch):
    world = World()
    world.codes[1] = AWAY
    whole = MetadataService.image_at

    def slowly(self, *arguments):
        world.clock.advance(SESSION_MS)
        return whole(self, *arguments)

    monkeypatch.setattr(MetadataService, "image_at", slowly)

    assert world.wait(10 * SESSION_MS) <= 4 * SESSION_MS
    assert world.partition.isr == {2, 3}


def test_an_append_logs_what_it_waits_for_after_two_seconds(caplog):
    world = World()
    world.codes[1] = AWAY

    with caplog.at_level(logging.WARNING):
        world.wait(1900)
        assert caplog.records == []
        world.wait(1700)

    [said] = caplog.messages
    assert "orders-0, which broker 1 leads: broker 1: probe failed" in said
    assert (
        "nobody controls the cluster, so this append decides after"
        " broker.session.timeout.ms=9000" in said
    )


@pytest.mark.parametrize("is_allowed", [True, False])
def test_the_loss_of_the_last_replica_is_the_reason_that_is_given(is_allowed):
    world = World(partition("1 2", isr="1", leader=None, lost="1"), is_allowed=is_allowed)

    assert world.wait(3000) is None

    assert "on broker 1, is lost: give its disk back as it was" in world.watch.why(KEY)


def test_while_a_broker_fails_its_partition_is_not_tried_in_vain():
    """A try on a root that hangs takes as long as its deadline, and no probe would be in time."""
    world = World()
    world.codes[1] = AWAY
    assert not world.watch.is_blocked(KEY)
    world.wait(1000)

    assert world.watch.is_blocked(KEY)

    world.codes[1] = NO_ERROR
    world.wait(2000)
    assert not world.watch.is_blocked(KEY)


@pytest.mark.parametrize("why", ["refused", "too long", "changed"])
def test_where_no_decision_comes_the_partition_is_tried_on(why):
    """Its rounds take laggards out of the ISR."""
    world = World()
    world.codes[1] = AWAY
    if why == "refused":
        world.codes = {1: AWAY, 2: AWAY, 3: NO_ERROR}
    world.wait(1000)
    if why == "refused":
        world.wait(ENOUGH_MS)
    elif why == "too long":
        world.clock.advance(60_000)
    elif why == "changed":
        world.commit(*snapshot_records(image_of(partition("1 2 3", version=10)))[-1:])
        world.metadata.catch_up()

    assert not world.watch.is_blocked(KEY)


FAILED = {"error_code": AWAY, "error": "EIO", "fence": None}

# fmt: off
MET = [  # what a try met                                            is waited for
    pytest.param(None,                                               None,             id="nothing was tried"),
    pytest.param(FencedLeaderEpochError("another leads"),            None,             id="another leads"),
    pytest.param(KafkaStorageError("EIO"),                           "EIO",            id="the leader fails"),
    pytest.param(report(seen(1, 1), seen(2, 1), seen(3, 1)),         None,             id="all could be read"),
    pytest.param(report(seen(1, 1), seen(2, 1, **FAILED), seen(3, 1)), "broker 2: EIO", id="a member fails"),
    pytest.param(report(seen(1, 1), seen(3, 1)),                     "broker 2: it has no replica yet", id="a member has no replica"),
]
# fmt: on


@pytest.mark.parametrize("met, error", MET)
def test_an_append_waits_for_the_replicas_that_fail_only(met, error):
    tried = partition("1 2 3 4", isr="1 2 3")

    wait = wait_of(KEY, tried, met)

    assert (wait and (wait.partition, wait.error)) == (error and (tried, error))
    assert wait_of(KEY, None, met) is None


FULL = {"error_code": RootFullError.code, "error": "no space left", "fence": None}
# fmt: off
REFUSED = [  # what a try met                                        who refuses
    pytest.param(RootFullError("no space left"),                     {1},    id="the leader is full"),
    pytest.param(RootReadOnlyError("read-only"),                     {1},    id="the leader is read-only"),
    pytest.param(report(seen(1, 1), seen(2, 1, **FAILED), seen(3, 1, **FULL)), {3}, id="one follower fails and another is full"),
    pytest.param(report(seen(1, 1), seen(3, 1)),                     {2},    id="a replica may be absent for want of room"),
    pytest.param(report(seen(1, 1), seen(2, 1), seen(3, 1), seen(4, 1, **FULL)), None, id="who is not in sync is not waited for"),
]
# fmt: on


@pytest.mark.parametrize("met, refused", REFUSED)
def test_a_wait_knows_whose_root_refuses_the_append(met, refused):
    wait = wait_of(KEY, partition("1 2 3 4", isr="1 2 3"), met, 900_000)

    assert (wait and (wait.refused, wait.size_bytes)) == (refused and (refused, 900_000))


def full(world, **codes):
    """Return a try that the leader's root refused, as probes find it, by one of the same size."""
    world.codes = {1: RootFullError.code, 2: NO_ERROR, 3: NO_ERROR, **codes}
    tried = world.metadata.catch_up().partition(KEY)
    return wait_of(KEY, tried, RootFullError("no space left"), 900_000)


def test_an_append_to_a_full_leader_elects_another_at_once_whoever_controls():
    world = World()
    world.controller("alive")
    began_ms = world.clock.monotonic_ms()

    world.watch.update([full(world)])

    assert (world.partition.leader, sorted(world.partition.isr)) == (2, [2, 3])
    assert world.image.brokers[1].refused == RefusedWrite(900_000, ("here",))
    assert world.clock.monotonic_ms() == began_ms
    assert refused(world) is None
    assert world.watch.pause_ms(1000) == 1.0


def test_an_append_that_nobody_else_can_take_is_told_at_once_that_the_root_is_full():
    world = World(partition("1 2 3", isr="1"))

    world.watch.update([full(world)])

    assert (world.partition.leader, sorted(world.partition.isr)) == (1, [1])
    error = refused(world)
    assert isinstance(error, RootFullError)
    assert "broker 1, whose root is full" in str(error)
    assert isinstance(refused(world, may_be_appended=True), NotEnoughReplicasAfterAppendError)
    assert refused(world, is_appended=True) is None


# fmt: off
KEPT = [  # who was met by itself before, which followers a try found full, min ISR
    pytest.param("",  "2 3", 1, id="both at once"),
    pytest.param("2", "3",   1, id="one after the other"),
    pytest.param("",  "2 3", 2, id="the minimum, too, needs them"),
    pytest.param("",  "3",   3, id="the minimum alone needs one"),
]
# fmt: on


@pytest.mark.parametrize("before, met, minimum", KEPT)
def test_full_followers_that_can_not_be_left_out_are_named_at_once(before, met, minimum):
    """More than half of the brokers refuse the process, or too few would be in sync."""
    world = World(configs={"min.insync.replicas": str(minimum)})
    for each in (before, met):
        world.codes |= {int(broker): RootFullError.code for broker in each.split()}
        fields = {int(broker): FULL for broker in each.split()}
        tried = world.metadata.catch_up().partition(KEY)
        found = report(*(seen(of, 1, **fields.get(of, {})) for of in (1, 2, 3)))
        isr, waits = sorted(tried.isr), [wait_of(KEY, tried, found, 900_000)]
        world.watch.update([wait for wait in waits if wait is not None])
        world.clock.advance(ENOUGH_MS)

    assert (world.partition.leader, sorted(world.partition.isr)) == (1, isr)
    error = refused(world, is_appended=True)
    assert isinstance(error, NotEnoughReplicasAfterAppendError)
    assert all(f"broker {each}, whose root is full" in str(error) for each in met.split())


def refused(world, *, is_appended=False, may_be_appended=False):
    return world.watch.refused(KEY, is_appended=is_appended, may_be_appended=may_be_appended)
