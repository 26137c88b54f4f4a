"""Zombies of every kind lose their commit: what they have decided counts for nothing any more.

Each is stopped right before a call to a real table, leadership moves on, and it is let go.
"""

import pytest
from deltalake import DeltaTable

from kafka_on_spark.base.errors import FencedLeaderEpochError, NotControllerError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.fetch_plan import plan_fetches
from kafka_on_spark.controller.isr import conclude
from kafka_on_spark.log.fetch import fetch
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.control.frozen import (
    WAIT_S,
    Frost,
    FrozenSegments,
    FrozenStore,
    freeze_appends,
    freeze_decisions,
    frozen,
)
from tests.cluster.disks import isr_of, new_disks, partition_of, records, values_of
from tests.fakes import FakeClock


@pytest.fixture
def disks():
    """A cluster whose appends and decisions are given up by nobody, however busy the machine."""
    with new_disks(configs={"delivery.timeout.ms": "120000"}) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    disks.cluster.append("orders", records(b"a"))
    return disks.cluster


def depose(disks, cluster, *broker_ids):
    """Have others lead, with the old leaders' disks as they were: they come back as followers."""
    disks.take_away(*broker_ids)
    cluster.run_controller()
    disks.give_back(*broker_ids)
    cluster.run_controller()
    assert partition_of(cluster, "orders").leader not in broker_ids


def catch_up(cluster):
    """Replicate until nobody is behind; return how many records were cut."""
    cut = 0
    for _ in range(6):
        report = cluster.replicate(is_sweep=True)
        cut += report.truncated_records
        if report.is_caught_up:
            return cut
    raise AssertionError("somebody stays behind")


def order_for(cluster, follower):
    image = cluster.image
    key = PartitionKey(image.topic("orders").topic_id, 0)
    orders = plan_fetches(image, key, is_inspection=True)
    return next(each for each in orders if each.follower.broker_id == follower)


def task(order, frost, clock=None):
    """Return a fetch on an executor of its own: nothing of it is shared with anybody."""
    options = StorageOptions(None)
    replicas = FrozenStore(ReplicaStore(options), frost)
    segments = FrozenSegments(SegmentStore(options), frost)
    return lambda: fetch(order, replicas, segments, clock or FakeClock())


def held(disks):
    return [disks.values_on(each, "orders") for each in (1, 2, 3)]


def operations_on(disks, broker_id):
    """Return what was committed to a replica, oldest first."""
    history = DeltaTable(str(disks.folder(broker_id, "orders"))).history()
    return [each["op"] for each in reversed(history)]


def refusal_of(result):
    [follower] = result.report.followers
    return follower.error_code


@pytest.mark.parametrize("has_adopted", [True, False], ids=["fenced", "not-fenced-yet"])
def test_a_zombie_appender(disks, cluster, has_adopted):
    """It meant to write as the first leadership; it writes under the newest, or not at all."""
    zombie = disks.open()
    frost = Frost("append 1")
    freeze_appends(zombie, frost)

    with frozen(frost, lambda: zombie.append("orders", records(b"zombie"))) as future:
        depose(disks, cluster, 1)
        cluster.append("orders", records(b"new"))
        if has_adopted:
            catch_up(cluster)
    result = future.result(WAIT_S)

    # What landed in the deposed leader's own table is cut; nobody was told that it stands there.
    assert catch_up(cluster) == (0 if has_adopted else 1)
    assert values_of(cluster, "orders") == [b"a", b"new", b"zombie"]
    assert result.partitions[0].base_offset == 2
    assert held(disks) == [[b"a", b"new", b"zombie"]] * 3


def test_a_zombie_fetch_task(disks, cluster):
    """It brings what only the deposed leader has to a follower that follows another by now."""
    disks.take_away(2, 3)
    cluster.append("orders", records(b"uncommitted"), acks=1)
    disks.give_back(2, 3)
    frost = Frost("append_fetched 2")

    with frozen(frost, task(order_for(cluster, 2), frost)) as future:
        depose(disks, cluster, 1)
        cluster.append("orders", records(b"new"))
        catch_up(cluster)
    result = future.result(WAIT_S)

    assert refusal_of(result) == FencedLeaderEpochError.code
    assert (result.copied_records, result.copied_bytes) == (0, 0)
    assert held(disks) == [[b"a", b"new"]] * 3
    assert concludes_nothing(cluster, result)


def concludes_nothing(cluster, result):
    """Return whether a driver that gets the zombie's row commits nothing on it."""
    return conclude(cluster.image, [result.report]).records == []


@pytest.fixture
def fast_lease():
    """A cluster whose controller is succeeded when it has said nothing for a fifth of a second."""
    configs = {"controller.lease.ms": "200", "delivery.timeout.ms": "120000"}
    with new_disks(configs=configs) as disks:
        disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        disks.cluster.append("orders", records(b"a"))
        yield disks


def test_a_zombie_controller(fast_lease):
    """It was about to fence a broker that its successor has found well."""
    disks, cluster = fast_lease, fast_lease.cluster
    zombie = disks.open()
    disks.take_away(3)
    frost = Frost("decide")
    freeze_decisions(zombie, frost)

    with frozen(frost, zombie.run_controller) as future:
        disks.give_back(3)
        report = cluster.run_controller()
        assert report.fenced == ()
        before = cluster.image
    with pytest.raises(NotControllerError):
        future.result(WAIT_S)

    assert cluster.image == before  # neither fenced, nor its successor resigned by it
    assert {each.state for each in before.brokers.values()} == {BrokerState.ACTIVE}
    assert isr_of(cluster, "orders") == [1, 2, 3]


def test_a_speculative_twin(disks, cluster):
    """The same task twice, both at their commit: one lands, the other finds it there."""
    disks.take_away(2)
    cluster.append("orders", records(b"b"), acks=1)
    disks.give_back(2)
    before = operations_on(disks, 2)
    order = order_for(cluster, 2)
    frosts = [Frost("append_fetched 2"), Frost("append_fetched 2")]

    with frozen(frosts[0], task(order, frosts[0])) as first:
        with frozen(frosts[1], task(order, frosts[1])) as second:
            pass
        results = [first, second]
        second.result(WAIT_S)
    results = [each.result(WAIT_S) for each in results]

    assert sorted(each.copied_records for each in results) == [0, 1]
    assert [refusal_of(each) for each in results] == [0, 0]
    assert [each.report.followers[0].log_end_offset for each in results] == [2, 2]
    assert operations_on(disks, 2) == [*before, "append_fetched"]
    catch_up(cluster)
    assert held(disks) == [[b"a", b"b"]] * 3
