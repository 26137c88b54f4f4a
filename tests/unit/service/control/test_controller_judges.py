"""What a controller makes of probes: whom it can't judge, and what it takes back."""

import pytest

from kafka_on_spark.errors import KafkaStorageError, NotControllerError, RootAccessDeniedError
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.service.probing.probes import ProbeResult
from tests.builders import KEY, disk, image_of, partition, whole
from tests.unit.service.controlled import World, commit, create, pending

SESSION_MS = 9000
DENIED = RootAccessDeniedError.code


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
