"""How many requests of one call to stores wait for each other, whatever each of them takes."""

import os
from collections import Counter
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.controller.controller_loop import ControllerLoop
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.quorum import quorum_log
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables
from kafka_on_spark.produce import append_rounds
from tests.fakes import FakeClock
from tests.store.ticking_store import ticking_store

CONFIGS = {"retention.ms": "-1"}


@dataclass
class Cost:
    """What a call cost: its longest chain of waits, and requests by kind."""

    chain: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    last_tick: int = 0


class Warm:
    """A cluster of three brokers on stores, whose tables this process knows."""

    def __init__(self, store, voters):
        self.store = store
        self.roots = ",".join(f"s3://bucket/metadata-{each}" for each in range(voters))
        brokers = {each: f"s3://bucket/broker-{each}" for each in (1, 2, 3)}
        self.cluster = Cluster.create(self.roots, brokers, configs=CONFIGS)
        self.cluster.create_topic("t", partitions=4, replication_factor=3)
        for _ in range(2):
            self.cluster.append("t", keyed(40))

    def cost(self, call):
        self.cluster._node.maintenance.finish()
        tick, count = self.store.tick, len(self.store.requests)
        self.store.is_counting = True
        call()
        self.store.is_counting = False
        kinds = Counter(each.kind for each in self.store.requests[count:])
        return Cost(self.store.tick - tick, kinds, self.store.tick)


@pytest.fixture(scope="module", params=[1, 3], ids=["one voter", "three voters"])
def warm(request):
    replica_store.cache_clear()
    # On a busy machine each tick takes its time, and nobody is to be given up for that.
    with (
        ticking_store() as store,
        patch.object(VoterTables, "answer_ms", lambda tables: 60_000),
        patch.object(append_rounds, "FIRST_TRY_MS", 60_000.0),
        patch.object(append_rounds, "OTHER_TRIES_MS", 60_000.0),
        patch.object(quorum_log, "EARLY_MS_MAX", 60_000),
    ):
        warm = Warm(store, request.param)
        with warm.cluster:
            yield warm


def keyed(count):
    return [(str(each).encode(), b"value") for each in range(count)]


def is_alone(warm):
    return "," not in warm.roots


@pytest.mark.parametrize("count", [1, 50], ids=["one record", "records of four partitions"])
def test_an_append_waits_seven_times_or_ten_with_three_voters(warm, count):
    cost = warm.cost(lambda: warm.cluster.append("t", keyed(count)))

    assert cost.chain <= (7 if is_alone(warm) else 10)
    if count == 1:
        assert cost.requests.total() <= (16 if is_alone(warm) else 26)


def test_a_read_of_four_partitions_waits_three_times(warm):
    found = []
    cost = warm.cost(lambda: found.append(warm.cluster.read("t").num_rows))

    assert cost.chain == 3
    assert found[0] >= 80


def test_a_read_of_a_file_of_more_than_eight_mib_waits_no_longer(warm):
    warm.cluster.append("t", [(b"key", os.urandom(2**20 - 2**10)) for _ in range(9)])

    assert warm.cost(lambda: warm.cluster.read("t")).chain == 3


def test_a_read_after_what_others_have_appended_has_all_of_it(warm):
    before = warm.cluster.read("t").num_rows
    with Cluster.open(warm.roots) as other:
        other.append("t", keyed(40))

    assert warm.cluster.read("t").num_rows == before + 40


def test_a_description_waits_twice(warm):
    assert warm.cost(lambda: warm.cluster.describe_topic("t")).chain == 2


def test_an_opening_and_the_first_append_wait_sixteen_times(warm):
    replica_store.cache_clear()
    opened = []

    def open_and_append():
        opened.append(Cluster.open(warm.roots))
        opened[0].append("t", keyed(1))

    cost = warm.cost(open_and_append)

    opened[0].close()
    assert cost.chain <= (16 if is_alone(warm) else 19)


def test_an_append_after_anothers_waits_three_times_more_for_each_table_that_has_gone_on(warm):
    alone = warm.cost(lambda: warm.cluster.append("t", keyed(50))).chain
    replica_store.cache_clear()
    with Cluster.open(warm.roots) as other:
        other.append("t", keyed(50))

    cost = warm.cost(lambda: warm.cluster.append("t", keyed(50)))

    in_turn = 3 if is_alone(warm) else 4  # the log, leaders', followers'; the log of a voter
    assert cost.chain <= alone + 3 * in_turn


def test_a_commit_whose_version_another_has_taken_is_put_again_after_five_waits(warm):
    with Cluster.open(warm.roots) as other:
        other.append("t", keyed(1), acks=1)  # the metadata log says nothing of it yet
    count = len(warm.store.requests)

    warm.cost(lambda: warm.cluster.append("t", keyed(1)))

    puts = [each for each in warm.store.requests[count:] if each.kind == "PUT"]
    refused, again = [each.tick for each in puts if "/t-" in each.path and "_log" in each.path][:2]
    assert again - refused <= 5


class Passes(ControllerLoop):
    """A controller whose passes are measured."""

    def __init__(self, warm):
        super().__init__(warm.cluster._node, clock=FakeClock())
        self.warm = warm
        self.costs = []

    def _pass(self):
        self.costs.append(self.warm.cost(super()._pass))


def test_a_pass_of_the_controller_over_a_thousand_partitions_waits_six_times(warm):
    warm.cluster.create_topic("many", partitions=1_000, replication_factor=3)
    passes = Passes(warm)

    passes.run(20_000)

    idle = passes.costs[-3:]
    assert min(each.requests["PUT"] for each in idle) >= 3, "each broker was probed"
    assert max(each.chain for each in idle) <= 6
    assert max(each.requests.total() for each in idle) <= 10 + 2 * 3


def test_the_election_of_a_dead_brokers_partitions_waits_ten_times(warm):
    """From the probe whose failure is its session's end to the next look at the log."""
    passes = Passes(warm)
    topic_id = warm.cluster._node.metadata.image.topic("t").topic_id
    leader = warm.cluster._node.metadata.image.topics[topic_id].partitions[0].leader
    warm.store.away = (f"bucket/broker-{leader}/",)
    count = len(warm.store.requests)

    report = passes.run(None)

    warm.store.away = ()
    assert report.fenced == (leader,)
    asked = warm.store.requests[count:]
    last_probe = max(
        each.tick for each in asked if each.path.startswith(f"bucket/broker-{leader}/")
    )
    assert passes.costs[0].last_tick - last_probe + 2 <= 10
