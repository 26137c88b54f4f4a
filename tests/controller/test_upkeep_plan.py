"""What upkeep does not come to: replicas and roots of fenced brokers, decisions without a leader."""

import pytest

from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.upkeep import UpkeepReport, not_looked_at
from kafka_on_spark.log.replica_upkeep import FREEING, plan_upkeep
from kafka_on_spark.metadata.records import RefusedWrite
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.committing import replay

KEYS = [PartitionKey(TOPIC_ID, 0)]

FENCED = "broker 2 is fenced: its root, and its replicas"

NO_LEADER = f"{TOPIC}-0: it has no leader, on whose log retention and compaction are decided"

KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}

# fmt: off
CASES = [
    pytest.param(partition("1 2 3"),                       "",  {},                            [],                  id="all-are-online"),
    pytest.param(partition("1 2 3", isr="1 3"),            "2", {},                            [FENCED],            id="a-broker-is-fenced"),
    pytest.param(partition("1 2 3", isr="1", unmade="2"),  "2", {},                            [FENCED],            id="nothing-was-made-there"),
    pytest.param(partition("2", leader=None, hw=4),        "2", {},                            [FENCED, NO_LEADER], id="the-only-replica-is-away"),
    pytest.param(partition("1", leader=None, hw=4),        "",  {},                            [NO_LEADER],         id="nobody-leads"),
    pytest.param(partition("1", leader=None, hw=4),        "",  {"cleanup.policy": "compact"}, [NO_LEADER],         id="nobody-leads-what-is-compacted"),
    pytest.param(partition("1", leader=None, hw=4),        "",  KEPT,                          [],                  id="all-is-kept"),
    pytest.param(partition("1", leader=None, hw=4, start=4), "", {},                           [],                  id="nothing-is-left-to-delete"),
]

# fmt: on


@pytest.mark.parametrize("state, fenced, configs, told", CASES)
def test_what_has_no_order_or_no_decision_is_told(state, fenced, configs, told):
    image = image_of(state, fenced=fenced, configs=configs)

    assert not_looked_at(image, KEYS) == told
    visited = {order.address.broker_id for order in plan_upkeep(image, KEYS)}
    missed = set(map(int, fenced.split()))
    assert visited == {each for each in state.replicas if state.is_created(each)} - missed


@pytest.mark.parametrize("size_bytes, works", [(900_000, FREEING), (0, None)])
def test_a_broker_that_is_fenced_since_it_is_full_has_the_upkeep_that_gives_it_room(
    size_bytes, works
):
    """A read-only one has none."""
    image = image_of(partition("1 2 3", isr="1 3"))
    refused = RefusedWrite(size_bytes, ("a",))
    image = replay(image, fence_broker(image, BrokerId(2), "full", refused))

    found = {each.address.broker_id: each.works for each in plan_upkeep(image, KEYS)}

    assert found == {1: None, 3: None} | ({2: works} if works else {})
    assert bool(not_looked_at(image, KEYS)) == (works is None)


def test_a_report_of_what_was_not_looked_at_never_says_that_all_is_done():
    none, one = UpkeepReport(visited=1), UpkeepReport(not_looked_at=(FENCED,))

    assert (none.is_left, one.is_left) == (False, True)
