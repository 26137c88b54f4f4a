"""The controller's loop: it answers, renews in time, judges brokers, moves leaders, and stops when deposed."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import (
    KafkaStorageError,
    NotControllerError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.brokers import fence_broker, note_refused
from kafka_on_spark.controller.commands import (
    serve_requests,
)
from kafka_on_spark.controller.controller_loop import ExpiryChecks, silent_groups
from kafka_on_spark.controller.inspections import LostReplicaInspector
from kafka_on_spark.controller.probes import ProbeResult, probe_task
from kafka_on_spark.controller.replica_tables import TableRemoval
from kafka_on_spark.controller.upkeep import Upkeep, UpkeepReport, UpkeepRow
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.records import (
    BrokerState,
    ConfigRecord,
    ControllerRecord,
    HighWatermarkRecord,
    RefusedWrite,
)
from tests.builders import KEY, disk, image_of, partition, whole
from tests.controller.controlled import LEASE_MS, World, commit, create, pending


def renewals_of(world):
    """Return when the lease was renewed, by the clock of the commits."""
    return [
        batch.stamp.time_ms
        for batch in world.log.batches
        if any(
            isinstance(each, ControllerRecord) and each.cause == "renewed" for each in batch.records
        )
    ]


def with_chores(loop, parts):
    """Have a loop do what may wait in its passes: these parts of it; of others nothing is due."""
    nothing = SimpleNamespace(run=lambda *args: None, clean=lambda check: 0)
    others = dict.fromkeys((ExpiryChecks, silent_groups, TableRemoval), nothing)
    loop._node._parts |= others | parts
    loop._is_dry_run = False
    return loop


def test_the_lease_is_renewed_between_the_chores_of_a_pass(world):
    row = UpkeepRow(topic="orders", partition=0, broker_id=1, kind="retention", count=1)

    def slow(*args, after_part=lambda: None, **keywords):
        world.clock.advance(4000)
        after_part()
        return 2

    loop = with_chores(
        world.loop("active"),
        {
            ExpiryChecks: SimpleNamespace(run=slow),
            silent_groups: SimpleNamespace(run=slow),
            TableRemoval: SimpleNamespace(clean=slow),
            Upkeep: SimpleNamespace(
                run_share=lambda **each: slow(**each) and UpkeepReport(rows=(row,))
            ),
        },
    )

    report = loop.run(None)

    assert len(renewals_of(world)) == 4
    assert (report.records_deleted, report.tables_removed) == (1, 2)


def test_a_pass_that_lasts_longer_than_the_lease_renews_it_meanwhile(world):
    """Probing until the session is over (9 s) must not look like death (10 s)."""
    name, value = "broker.session.timeout.ms", "60000"
    commit(world, ConfigRecord(topic_id=None, config_name=name, config_value=value))
    loop = world.loop("active")
    loop._node.tasks.given[probe_task] = lambda orders: [
        ProbeResult(each.broker_id, 56, "away") for each in orders
    ]

    loop.run(None)

    signs = [
        batch.stamp.time_ms
        for batch in world.log.batches
        if isinstance(batch.records[0], ControllerRecord)
    ]
    assert max(later - earlier for earlier, later in pairwise(signs)) < LEASE_MS


SESSION_MS = 9000

DENIED = RootAccessDeniedError.code

FULL, READ_ONLY = RootFullError.code, RootReadOnlyError.code


@pytest.fixture
def judged():
    judged = World()
    commit(judged, *snapshot_records(image_of(partition("1 2 3", isr="1 2", lost="3"))))
    return judged


def answers(codes):
    """Return probes that are answered so, by broker."""
    return lambda orders: [
        ProbeResult(each.broker_id, codes.get(each.broker_id, 0), "refused") for each in orders
    ]


def test_a_process_that_may_write_to_no_root_controls_nothing(judged):
    loop = judged.loop("active")
    loop._node.tasks.given[probe_task] = answers({1: DENIED, 2: DENIED, 3: DENIED})

    with pytest.raises(RootAccessDeniedError, match="may write to no broker's root"):
        loop.run(None)


def test_a_pass_goes_on_without_a_judgement_where_probes_come_too_seldom(judged):
    """Each lasts for a session: a frozen process knows nothing of who failed meanwhile."""
    loop = judged.loop("active")

    def late(orders):
        judged.clock.advance(SESSION_MS)
        return answers({2: KafkaStorageError.code})(orders)

    loop._node.tasks.given[probe_task] = late
    started_ms = judged.clock.monotonic_ms()

    report = loop.run(None)

    assert (report.passes, report.fenced) == (1, ())
    assert judged.clock.monotonic_ms() - started_ms > 3 * SESSION_MS


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_pass_takes_back_lost_replicas_that_are_whole(judged, is_whole):
    found = whole(3, judged.image.partition(KEY).partition_epoch)
    inspector = SimpleNamespace(inspect=lambda image: [found] if is_whole else [])
    upkeep = SimpleNamespace(run_share=lambda **given: UpkeepReport())
    parts = {LostReplicaInspector: inspector, Upkeep: upkeep}

    with_chores(judged.loop("active"), parts).run(None)

    assert (judged.image.partition(KEY).directories == (disk(1), disk(2), disk(3))) is is_whole


def test_a_standby_says_how_long_it_has_waited(judged):
    judged.clock.advance(1_000_000)
    active = judged.controller()
    judged.clock.on_sleep = lambda: serve_requests(active, judged.id_source)
    started_ms = judged.clock.monotonic_ms()

    with pytest.raises(NotControllerError) as caught:
        judged.loop("standby").run(1_000)

    waited_ms = judged.clock.monotonic_ms() - started_ms
    assert f"waited {waited_ms / 1000:.1f} s" in str(caught.value)
    assert 20_000 <= waited_ms <= 21_000  # two leases: the first tells whether it is alive


@pytest.mark.parametrize("waited_ms, is_decided", [(900, True), (LEASE_MS / 3 + 1, False)])
def test_a_request_that_lay_there_for_longer_than_its_time_is_not_run(
    judged, waited_ms, is_decided
):
    judged.clock.advance(5000)
    term = judged.controller()
    serve_requests(term, judged.id_source)
    pending(judged, create("payments"), timeout_ms=1000)
    judged.clock.advance(waited_ms)
    term.metadata.catch_up()

    serve_requests(term, judged.id_source)

    assert judged.image.requests == ()
    assert ("payments" in judged.image.topic_ids) is is_decided


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


def noted(judged, *hosts, size_bytes=900_000):
    """Have appends of these hosts note that broker 2 refuses a write."""
    for host in hosts:
        met = {BrokerId(2): RefusedWrite(size_bytes, (host,))}
        decide = partial(note_refused, refused=met, only={}, met_by=host)
        judged.metadata().submit(decide, timeout_ms=1)


@pytest.fixture
def well():
    judged = World()
    commit(judged, *snapshot_records(image_of(partition("1 2 3"))))
    return judged


@pytest.mark.parametrize("code, size_bytes", [(FULL, 5), (READ_ONLY, 0)])
def test_a_root_that_refuses_all_writes_is_fenced_in_two_seconds(well, code, size_bytes):
    loop, began_ms = well.loop("active"), well.clock.monotonic_ms()
    loop._node.tasks.given[probe_task] = answers({2: code})

    report = loop.run(None)

    assert report.fenced == (2,)
    assert well.clock.monotonic_ms() - began_ms < 2000
    assert well.image.brokers[2].refused == RefusedWrite(size_bytes, ("active",))
    assert sorted(well.image.partition(KEY).isr) == [1, 3]


@pytest.mark.parametrize("hosts", [("a", "b"), ("a",), ()])
def test_a_broker_through_which_others_commit_meanwhile_is_not_fenced(well, hosts):
    noted(well, *hosts)
    loop = well.loop("active")
    loop._node.tasks.given[probe_task] = roots = Roots(room_of_2=0)
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
    loop._node.tasks.given[probe_task] = answers({1: FULL, 2: READ_ONLY})

    with pytest.raises(KafkaStorageError, match="more than half of the brokers' roots are full"):
        loop.run(1_000_000)

    states = {each.state for each in well.image.brokers.values()}
    assert (states, well.image.controller.controller_id) == ({BrokerState.ACTIVE}, None)


def test_the_last_member_of_an_isr_that_has_room_again_is_known_for_full_no_more():
    judged = World()
    commit(judged, *snapshot_records(image_of(partition("2 1 3", isr="2"))))
    noted(judged, "a")
    loop = judged.loop("active")
    loop._node.tasks.given[probe_task] = Roots()

    loop.run(2 * SESSION_MS)

    assert judged.image.brokers[2].refused is None


def test_a_broker_that_is_fenced_for_space_is_tried_once_a_session_and_comes_back_by_that_size(
    well,
):
    refused = RefusedWrite(900_000, ("a",))
    well.metadata().submit(
        lambda image: fence_broker(image, BrokerId(2), "full", refused), timeout_ms=1
    )
    loop = well.loop("active")
    loop._node.tasks.given[probe_task] = roots = Roots(room_of_2=200_000)

    loop.run(3 * SESSION_MS)

    tries = [size for broker_id, size in roots.tried if broker_id == 2]
    assert len(tries) in (3, 4)
    assert set(tries) == {900_000}
    assert well.image.brokers[2].refused == refused
    loop = well.loop("next")
    loop._node.tasks.given[probe_task] = Roots()
    assert loop.run(None).unfenced == (2,)
    assert well.image.brokers[2].refused is None


def led_elsewhere(share, of):
    """Return partitions that broker 1 should lead, of which 2 leads so many."""
    return [partition("1 2", leader=2 if each < share else 1) for each in range(of)]


# fmt: off
IMBALANCES = [  # limit  led by another, of  moved
    pytest.param("10",   1, 10,              0,    id="at the limit nothing moves"),
    pytest.param("10",   2, 10,              2,    id="above it all come back"),
    pytest.param("9",    1, 10,              1,    id="just above it"),
    pytest.param("100",  3, 3,               0,    id="never, at 100"),
    pytest.param("0",    1, 50,              1,    id="always, at 0"),
]

# fmt: on


@pytest.mark.parametrize("limit, share, of, moved", IMBALANCES)
def test_leaders_are_given_back_above_the_limit_of_the_imbalance(world, limit, share, of, moved):
    image = image_of(*led_elsewhere(share, of), ids="1 2")
    image = replace(image, configs={"leader.imbalance.per.broker.percentage": limit})
    commit(world, *snapshot_records(image))

    report = world.loop("active").run(None)

    assert report.leaders_moved == moved
    leaders = [each.leader for _, each in world.image.partitions()]
    assert leaders.count(2) == share - moved
