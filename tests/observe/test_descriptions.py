"""What the metadata say of replicas and brokers, in the words of people."""

from operator import itemgetter

import pytest

from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.observe.descriptions import Part, cell_of, describe_brokers, grid_of
from tests.builders import broker, image_of, partition

L, S, X, M, F = Part.LEADER, Part.IN_SYNC, Part.OUT_OF_SYNC, Part.REASSIGNING, Part.OFFLINE

# fmt: off
CELLS = [
    # partition                                              broker  state       part  words
    pytest.param(partition("1 2 3"),                          1, "active",   L, "leader",                                  id="leader"),
    pytest.param(partition("1 2 3"),                          2, "active",   S, "in sync",                                 id="in sync"),
    pytest.param(partition("1 2 3", "1 3"),                   2, "active",   X, "out of sync",                             id="out of sync"),
    pytest.param(partition("1 2 3", "1", elr="2"),            2, "active",   X, "out of sync, may lead",                   id="eligible"),
    pytest.param(partition("1 2 3"),                          2, "draining", S, "in sync",                                 id="draining"),
    pytest.param(partition("1 2 3", "1 3"),                   2, "fenced",   F, "broker does not answer, out of sync",     id="fenced"),
    pytest.param(partition("1 2", "2", None),                 2, "fenced",   F, "broker does not answer, in sync",         id="the last in sync, fenced"),
    pytest.param(partition("1 2 3", "1 3", lost="2"),         2, "active",   F, "disk lost, out of sync",                  id="disk lost"),
    pytest.param(partition("1 2 3", "1 3"),                   2, None,       F, "broker does not answer, out of sync",     id="no broker any more"),
    pytest.param(partition("1 2 3", "1 2", adding="3"),       3, "active",   M, "out of sync, moving in",                  id="comes"),
    pytest.param(partition("1 2 3", adding="3"),              3, "active",   M, "in sync, moving in",                      id="has come"),
    pytest.param(partition("3 1 2", removing="2"),            2, "active",   M, "in sync, moving out",                     id="goes"),
    pytest.param(partition("1 2 3", removing="1"),            1, "active",   L, "leader, moving out",                      id="leads while it goes"),
    pytest.param(partition("1 2 3", "1 2", adding="3"),       3, "fenced",   F, "broker does not answer, out of sync, moving in", id="comes, fenced"),
]
# fmt: on


@pytest.mark.parametrize("registration, broker_id, state, part, words", CELLS)
def test_part_of_a_replica(registration, broker_id, state, part, words):
    register = None if state is None else broker(broker_id, state=BrokerState(state))

    cell = cell_of(registration, broker_id, register)

    assert (cell.part, cell.words) == (part, words)
    assert cell.is_coming == ("moving in" in words)
    assert cell.is_leaving == ("moving out" in words)


# fmt: off
PROBLEMS = [
    pytest.param(partition("1 2 3"),                         (),                                                        id="none"),
    pytest.param(partition("1 2 3", "1 2"),                  ("under-replicated (2 of 3)",),                            id="one out of sync"),
    pytest.param(partition("1 2 3", "1"),                    ("under min ISR (1 of 2)", "under-replicated (1 of 3)"),   id="below the minimum"),
    pytest.param(partition("1 2 3", "2", None),              ("no leader", "under min ISR (1 of 2)", "under-replicated (1 of 3)"), id="no leader"),
    pytest.param(partition("1 2 3", "1 2", adding="3"),      (),                                                        id="a replica that comes is not missed"),
    pytest.param(partition("1"),                             (),                                                        id="the minimum is at most all"),
]
# fmt: on


@pytest.mark.parametrize("registration, problems", PROBLEMS)
def test_problems_of_a_partition_the_worst_first(registration, problems):
    image = image_of(registration, configs={"min.insync.replicas": "2"})

    [row] = grid_of(image).rows

    assert row.problems == problems


def counts(image):
    return {
        row["broker"]: itemgetter("leaders", "preferred", "replicas", "in_sync", "lost")(row)
        for row in describe_brokers(image)
    }


def test_brokers_have_counts_of_leaderships_preferred_leaderships_and_replicas():
    image = image_of(
        partition("1 2 3", isr="2 3", leader=2, lost="1"),
        partition("2 1", isr="1 2", leader=2),
        partition("1", isr="1", leader=None),
        ids="1 2 3 4",
        fenced="4",
    )

    #                        leads, preferred, replicas, in sync, lost
    assert counts(image) == {
        1: (0, 2, 3, 2, 1),
        2: (2, 1, 2, 2, 0),
        3: (0, 0, 1, 1, 0),
        4: (0, 0, 0, 0, 0),
    }
