"""Leaders that a controller's pass makes: they are given back, and found in logs."""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.probes import ProbeResult
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.builders import digest_at, image_of, partition
from tests.controller.controlled import commit


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


def headless_image(**configs):
    """Return an image of a partition that nobody leads, and whose ISR is away."""
    one = partition("1 2 3", isr="2", leader=None, hw=10, hw_epoch=4)
    return image_of(one, ids="1 2 3", fenced="2", configs=configs)


def inspected(order, end):
    return ReplicaInspection(
        key=order.address.key,
        broker_id=order.address.broker_id,
        partition_epoch=order.partition_epoch,
        high_watermark=order.high_watermark,
        log_start_offset=0,
        log_end_offset=end,
        last_epoch=4,
        epoch_below_high_watermark=4 if end >= 10 else None,
        chain_digest=digest_at(end),
        chain_at_high_watermark=digest_at(10) if end >= 10 else None,
    )


def test_a_pass_finds_a_leader_where_no_replica_in_sync_is_left(world):
    """A replica whose inspection fails gives none; the other's log proves to have all."""
    commit(world, *snapshot_records(headless_image()))
    loop, asked = world.loop("active"), []
    loop._run_probes = lambda orders: [
        ProbeResult(each.broker_id, 56 if each.broker_id == 2 else 0) for each in orders
    ]

    def run_inspections(orders):
        asked.append(sorted(each.address.broker_id for each in orders))
        return [None if each.address.broker_id == 1 else inspected(each, 12) for each in orders]

    loop._run_inspections = run_inspections

    report = loop.run(None)

    assert asked == [[1, 3]]
    assert report.leaders_moved == 1
    assert [each.leader for _, each in world.image.partitions()] == [3]
