"""What a controller makes of probes: whom it can't judge, and what it takes back."""

from functools import partial

import pytest

from kafka_on_spark.base.errors import (
    KafkaStorageError,
    NotControllerError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller import controller_loop
from kafka_on_spark.controller.brokers import fence_broker, note_refused
from kafka_on_spark.controller.probes import ProbeResult
from kafka_on_spark.metadata.broker import BrokerState, RefusedWrite
from kafka_on_spark.metadata.records import HighWatermarkRecord
from kafka_on_spark.metadata.snapshot import snapshot_records
from tests.builders import KEY, disk, image_of, partition, whole
from tests.controller.controlled import World, commit, create, pending

SESSION_MS = 9000
DENIED = RootAccessDeniedError.code
FULL, READ_ONLY = RootFullError.code, RootReadOnlyError.code


@pytest.fixture
def world():
    world = World()
    commit(world, *snapshot_records(image_of(partition("1 2 3", isr="1 2", lost="3"))))
    return world


def answers(codes):
    """Return probes that are answered so, by broker."""
    return lambda orders: [
        ProbeResult(each.broker_id, codes.get(each.broker_id, 0), "refused") for each in orders
    ]


def test_a_controller_judges_no_root_that_it_may_not_write_to(world):
    loop = world.loop("active")
    loop._run_probes = answers({2: DENIED})

    report = loop.run(None)

    assert (report.denied, report.fenced) == ((2,), ())
    assert sorted(world.image.partition(KEY).isr) == [1, 2]


def test_a_process_that_may_write_to_no_root_controls_nothing(world):
    loop = world.loop("active")
    loop._run_probes = answers({1: DENIED, 2: DENIED, 3: DENIED})

    with pytest.raises(RootAccessDeniedError, match="may write to no broker's root"):
        loop.run(None)


def test_a_pass_goes_on_without_a_judgement_where_probes_come_too_seldom(world):
    """Each lasts for a session: a frozen process knows nothing of who failed meanwhile."""
    loop = world.loop("active")

    def late(orders):
        world.clock.advance(SESSION_MS)
        return answers({2: KafkaStorageError.code})(orders)

    loop._run_probes = late
    started_ms = world.clock.monotonic_ms()

    report = loop.run(None)

    assert (report.passes, report.fenced) == (1, ())
    assert world.clock.monotonic_ms() - started_ms > 3 * SESSION_MS


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_pass_takes_back_lost_replicas_that_are_whole(world, is_whole):
    found = whole(3, world.image.partition(KEY).partition_epoch)
    loop = world.loop("active")

    class Found:
        inspect = staticmethod(lambda image: [found] if is_whole else [])

    loop._lost_inspector = Found()

    loop.run(None)

    assert (world.image.partition(KEY).directories == (disk(1), disk(2), disk(3))) is is_whole


def test_a_standby_says_how_long_it_has_waited(world):
    world.clock.advance(1_000_000)
    active = world.controller()
    world.clock.on_sleep = lambda: active.serve_requests(world.id_source)
    started_ms = world.clock.monotonic_ms()

    with pytest.raises(NotControllerError) as caught:
        world.loop("standby").run(1_000)

    waited_ms = world.clock.monotonic_ms() - started_ms
    assert f"waited {waited_ms / 1000:.1f} s" in str(caught.value)
    assert 20_000 <= waited_ms <= 21_000  # two leases: the first tells whether it is alive


@pytest.mark.parametrize("waited_ms, is_decided", [(900, True), (1100, False)])
def test_a_request_that_lay_there_for_longer_than_its_time_is_not_run(world, waited_ms, is_decided):
    world.clock.advance(5000)
    term = world.controller()
    term.answer_requests(world.id_source)
    pending(world, create("payments"), timeout_ms=1000)
    world.clock.advance(waited_ms)
    term._metadata.catch_up()

    assert term.answer_requests(world.id_source) == 1

    assert ("payments" in world.image.topic_ids) is is_decided


def test_a_request_of_just_now_is_run_whatever_wall_clocks_say(world):
    world.clock.advance(5000)
    term = world.controller()
    term.answer_requests(world.id_source)
    pending(world, create("payments"), timeout_ms=1000)
    world.clock._started_at_ms += 3_600_000
    world.clock.advance(900)
    term._metadata.catch_up()

    assert term.answer_requests(world.id_source) == 1

    assert "payments" in world.image.topic_ids


class Roots:
    """Roots of which some have little room: broker and bytes; each probe's size is kept."""

    def __init__(self, **rooms):
        self.rooms = {int(name[-1]): room for name, room in rooms.items()}
        self.tried = []
        self.on_probe = lambda: None

    def __call__(self, orders):
        self.on_probe()
        self.tried += [(each.broker_id, each.size_bytes) for each in orders]
        return [
            ProbeResult(each.broker_id, FULL if self._is_full(each) else 0, "no space left")
            for each in orders
        ]

    def _is_full(self, order):
        return max(order.size_bytes, 5) > self.rooms.get(order.broker_id, 10**9)


def noted(world, *hosts, size_bytes=900_000):
    """Have appends of these hosts note that broker 2 refuses a write."""
    for host in hosts:
        met = {BrokerId(2): RefusedWrite(size_bytes, (host,))}
        decide = partial(note_refused, refused=met, only={}, met_by=host)
        world.metadata().submit(decide, timeout_ms=1)


@pytest.fixture
def well(world):
    world = World()
    commit(world, *snapshot_records(image_of(partition("1 2 3"))))
    return world


@pytest.mark.parametrize("code, size_bytes", [(FULL, 5), (READ_ONLY, 0)])
def test_a_root_that_refuses_all_writes_is_fenced_in_two_seconds(well, code, size_bytes):
    loop, began_ms = well.loop("active"), well.clock.monotonic_ms()
    loop._run_probes = answers({2: code})

    report = loop.run(None)

    assert report.fenced == (2,)
    assert well.clock.monotonic_ms() - began_ms < 2000
    assert well.image.brokers[2].refused == RefusedWrite(size_bytes, ("active",))
    assert sorted(well.image.partition(KEY).isr) == [1, 3]


def test_what_one_host_met_and_the_controller_does_not_fences_nobody(well):
    noted(well, "a")
    loop = well.loop("active")
    loop._run_probes = Roots()

    assert loop.run(None).fenced == ()
    assert well.image.brokers[2].refused is None


def test_what_two_hosts_met_fences_a_broker_though_the_controller_does_not(well):
    noted(well, "a", "b")
    loop = well.loop("active")
    loop._run_probes = Roots()

    assert loop.run(None).fenced == (2,)


@pytest.mark.parametrize("hosts", [("a", "b"), ("a",), ()])
def test_a_broker_through_which_others_commit_meanwhile_is_not_fenced(well, hosts):
    noted(well, *hosts)
    loop = well.loop("active")
    loop._run_probes = roots = Roots(room_of_2=0)
    known = well.image.partition(KEY)
    raised = HighWatermarkRecord(
        topic_id=KEY.topic_id,
        partition=KEY.partition,
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
        high_watermark=known.high_watermark + 1,
        high_watermark_epoch=known.leader_epoch,
        high_watermark_chain="0" * 32,
        log_end_offset=known.high_watermark + 1,
        log_start_offset=None,
    )

    def commit_once():
        if len(roots.tried) == 3:
            commit(well, raised)

    roots.on_probe = commit_once

    assert loop.run(None).fenced == ()
    assert well.image.brokers[2].refused is None


def test_a_controller_that_more_than_half_of_the_roots_refuse_fences_none_and_resigns(well):
    loop = well.loop("active")
    loop._run_probes = answers({1: FULL, 2: READ_ONLY})

    with pytest.raises(KafkaStorageError, match="more than half of the brokers' roots are full"):
        loop.run(1_000_000)

    states = {each.state for each in well.image.brokers.values()}
    assert (states, well.image.controller.controller_id) == ({BrokerState.ACTIVE}, None)


def test_a_controller_that_asks_for_no_majority_fences_what_others_can_write_to(well, monkeypatch):
    """The rule is left out: whom this process fences others may write to."""
    monkeypatch.setattr(controller_loop, "refusing_most", lambda refusing, image: False)
    loop = well.loop("active")
    loop._run_probes = answers({1: FULL, 2: READ_ONLY})

    loop.run(100_000)

    states = {each.state for each in well.image.brokers.values()}
    assert BrokerState.FENCED in states


def test_the_last_member_of_an_isr_that_has_room_again_is_known_for_full_no_more():
    world = World()
    commit(world, *snapshot_records(image_of(partition("2 1 3", isr="2"))))
    noted(world, "a")
    loop = world.loop("active")
    loop._run_probes = Roots()

    loop.run(2 * SESSION_MS)

    assert world.image.brokers[2].refused is None


def test_a_broker_that_is_fenced_for_space_is_tried_once_a_session_and_comes_back_by_that_size(
    well,
):
    refused = RefusedWrite(900_000, ("a",))
    well.metadata().submit(
        lambda image: fence_broker(image, BrokerId(2), "full", refused), timeout_ms=1
    )
    loop = well.loop("active")
    loop._run_probes = roots = Roots(room_of_2=200_000)

    loop.run(3 * SESSION_MS)

    tries = [size for broker_id, size in roots.tried if broker_id == 2]
    assert len(tries) in (3, 4)
    assert set(tries) == {900_000}
    assert well.image.brokers[2].refused == refused
    loop = well.loop("next")
    loop._run_probes = Roots()
    assert loop.run(None).unfenced == (2,)
    assert well.image.brokers[2].refused is None
