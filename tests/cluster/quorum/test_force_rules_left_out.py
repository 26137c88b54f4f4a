"""The rules of a force, each left out: an acknowledged record is lost and nobody says so, or the new
generation can't go on."""

import shutil
from functools import partial

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller import election, forced_generation
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.partition import PartitionChange
from tests.cluster.disks import FAST, PATIENCE_MS, records, values_of
from tests.cluster.folders import quick_folder, roots_in
from tests.cluster.voters import bring_up, end_calls

LEFT = "m3"


@pytest.fixture
def left():
    """What is left: the third voter, which has not seen that the ISR shrank to brokers 1 and 2, that
    broker 2 leads, and that one more record was acknowledged; and broker 3, which has not got it.
    """
    with quick_folder() as folder:
        roots = roots_in(folder)
        brokers = {number: folder / str(number) for number in (1, 2, 3)}
        with Cluster.create(roots, brokers, configs=FAST) as cluster:
            topic_id = cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
            cluster.append("orders", records(b"a"))
            bring_up(cluster)
            _away(folder, "m3")
            _away(folder, "3")
            cluster.run_controller()
            cluster.append("orders", records(b"acknowledged"))
            for broker in (2, 1, 2, 1, 2):
                cluster.reassign({("orders", 0): [broker, 3 - broker, 3]})
                cluster.elect_leaders("preferred", [("orders", 0)])
            cluster.append("orders", records(b"acknowledged, too"))
            assert cluster.image.partition(PartitionKey(topic_id, 0)).leader_epoch >= 4
            end_calls(cluster)  # none brings up the third root once it is back
        for name in ("m1", "m2"):
            shutil.rmtree(folder / name)
        _back(folder, "m3")
        yield folder


def _away(folder, name):
    (folder / name).rename(folder / f"{name}-away")


def _back(folder, name):
    (folder / f"{name}-away").rename(folder / name)


def is_loss_told(folder):
    """Force where only broker 3 answers; return whether what it lacks is told as lost."""
    for name in ("1", "2"):
        _away(folder, name)
    _back(folder, "3")

    Cluster.force_controller(folder / LEFT, 3)

    with Cluster.open(folder / LEFT) as opened:
        for _ in range(3):  # brokers that are away are fenced first
            opened.run_controller()
        [partition] = opened.image.topics[opened.image.topic_ids["orders"]].partitions.values()
        return partition.leader != 3 or partition.unclean_generation == 1


def goes_on(folder, timeout_ms=PATIENCE_MS):
    """Force where all brokers answer; return whether all is there, and the cluster goes on: within
    `timeout_ms`, which a mutant waits for in vain."""
    _back(folder, "3")

    Cluster.force_controller(folder / LEFT, 3)

    with Cluster.open(folder / LEFT) as opened:
        try:
            opened.append("orders", records(b"new"), timeout_ms=timeout_ms)
        except KafkaOnSparkError:
            return False
        return values_of(opened, "orders") == [
            *(b"a", b"acknowledged", b"acknowledged, too", b"new")
        ]


def isr_is_trusted(patch):
    """The replicas that were in sync, as far as the voter that is left knows, still are."""
    patch.setattr(forced_generation, "_has_replicas", lambda partition: False)


def proof_of_some_is_enough(patch):
    """The high watermark that is known is taken for the highest, whoever does not answer."""
    patch.setattr(election, "_have_all_answered", lambda partition, inspections: True)


def fences_are_not_looked_at(patch):
    """The next leadership is the one after the last that is known."""
    patch.setattr(
        forced_generation, "raise_above", lambda now, fences, cause: ControllerResult([], 0)
    )
    patch.setattr(forced_generation, "ROUNDS_MAX", 1)
    patch.setattr(forced_generation, "_fenced", lambda replicas, image, each: 0)


def any_replica_is_as_good(patch):
    """The first replica that answers leads."""

    def unclean(now, found, forced):
        key = found[0].key
        [worst] = sorted(found, key=lambda each: each.log_end_offset)[:1]
        partition = now.partition(key)
        change = PartitionChange(leader=worst.broker_id, isr=frozenset({worst.broker_id}))
        record = forced_generation.change_record(now, key, partition, change, "a mutant")
        return ControllerResult([record], [key])

    patch.setattr(forced_generation, "elect_by_inspections", unclean)


# fmt: off
MUTANTS = {
    isr_is_trusted:           is_loss_told,
    proof_of_some_is_enough:  is_loss_told,
    fences_are_not_looked_at: partial(goes_on, timeout_ms=1500),
    any_replica_is_as_good:   partial(goes_on, timeout_ms=1500),
}
# fmt: on


@pytest.mark.parametrize("holds", [is_loss_told, goes_on], ids=lambda each: each.__name__)
def test_a_force_keeps_its_rules(left, holds):
    assert holds(left)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_rule_of_a_force_that_is_left_out_is_told(left, mutant, monkeypatch):
    mutant(monkeypatch)

    assert not MUTANTS[mutant](left), mutant.__doc__
