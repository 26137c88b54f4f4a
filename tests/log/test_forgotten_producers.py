"""Whatever writes a replica's producers file leaves out the ids that have expired."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller.cleanup_policy import plan_log_starts
from kafka_on_spark.controller.fetch_plan import plan_fetches
from kafka_on_spark.log.fetch import FetchOrder, fetch
from kafka_on_spark.log.producer_state import RegisteredProducers, fence_producer
from kafka_on_spark.log.replica_upkeep import apply_log_start, plan_upkeep
from kafka_on_spark.log.replicas import commit_decided
from tests.builders import address
from tests.controller.rounds import EPOCH
from tests.log.compacting import Compacting
from tests.log.merging import NEWEST, Merging

KNOWN = {"expired": 5, "back": 6}
"""The epochs of runs that each log knows, of ids that are not in `REGISTERED`."""

REGISTERED = RegisteredProducers(ids={"p"}, expired_epoch=5)
"""As of an image before "back" came back, above all epochs that had expired."""

COUNT = 32 + NEWEST


def cluster_of(kind, count=COUNT):
    """Return a cluster whose logs know runs, and have the headers of appends of `p`."""
    cluster = kind(count=1)
    for broker_id in (1, 2, 3):
        for producer_id, epoch in KNOWN.items():
            commit_decided(
                cluster.table(broker_id),
                lambda state, who=producer_id, epoch=epoch: fence_producer(
                    state, who, epoch, leader_epoch=EPOCH
                ),
            )
    cluster.append(0, "b", count - 1, producer="p")
    cluster.run()
    return cluster


def ids_of(cluster, broker_id=1):
    return set(cluster.table(broker_id).load().producers)


def merge(cluster, registered):
    assert cluster.merge(registered=registered).count == 1


def drop(cluster, broker_id=1):
    """Return the partition after a decision to drop ten records."""
    return replace(cluster.order(broker_id).partition, log_start_offset=Offset(10))


def drop_by_upkeep(cluster, registered):
    order = cluster.order(1, partition=drop(cluster), registered=registered)
    assert cluster.do(apply_log_start, order=order).count == 10


def drop_by_fetch(cluster, registered):
    """Of the leader; and of the follower, which has the larger number below."""
    key = cluster.keys[0]
    order = FetchOrder(
        key=key,
        partition=drop(cluster),
        leader=address(1, key=key),
        follower=address(2, key=key),
        fetch_bytes_max=10**6,
        registered=registered,
    )
    fetch(order, cluster.replicas, cluster.segments, cluster.clock)
    assert ids_of(cluster, 2) == ids_of(cluster, 1)


def compact(cluster, registered):
    assert cluster.compact(registered=registered).count > 0


# fmt: off
WRITES = [
    pytest.param(Merging,    merge,          id="a merge"),
    pytest.param(Merging,    drop_by_upkeep, id="a log start that upkeep applies"),
    pytest.param(Merging,    drop_by_fetch,  id="a log start that a fetch applies"),
    pytest.param(Compacting, compact,        id="a compaction"),
]
# fmt: on


@pytest.mark.parametrize("kind, write", WRITES)
def test_ids_that_have_expired_are_left_out_of_the_file_and_one_that_came_back_is_not(kind, write):
    """Else a log that keeps its records for ever keeps every id that ever appended to it."""
    cluster = cluster_of(kind)
    assert ids_of(cluster) == {"expired", "back"}

    write(cluster, REGISTERED)

    assert ids_of(cluster) == {"back", "p"}


def test_every_order_that_may_write_the_file_says_which_ids_have_not_expired():
    cluster = Merging(count=1)
    image = replace(cluster.metadata.image, producers={"p": 0}, expired_epoch=5)
    [key] = cluster.keys

    orders = [
        *plan_upkeep(image, [key]),
        *plan_fetches(image, key, is_inspection=True),
        *plan_log_starts(image, [key]),
    ]

    assert len(orders) == 8
    assert {(*each.registered.ids, each.registered.expired_epoch) for each in orders} == {("p", 5)}
