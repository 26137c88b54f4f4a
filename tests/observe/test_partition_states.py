"""What kafka-topics' filters call a partition: named cases, then every small registration."""

import pytest

from kafka_on_spark.observe.descriptions import PartitionState, stalled_on, states_of
from tests.builders import TOPIC_ID, image_of, partition

UNDER_REPLICATED = PartitionState.UNDER_REPLICATED
UNDER_MIN_ISR = PartitionState.UNDER_MIN_ISR
AT_MIN_ISR = PartitionState.AT_MIN_ISR
UNAVAILABLE = PartitionState.UNAVAILABLE
STALLED_MOVE = PartitionState.STALLED_MOVE


# fmt: off
CASES = [  # partition                                     min, fenced  states
    pytest.param(partition("1 2 3"),                       "2", "",     set(),                                       id="all-is-well"),
    pytest.param(partition("1 2 3", "1 2"),                "1", "",     {UNDER_REPLICATED},                          id="one-out-of-sync"),
    pytest.param(partition("1 2 3", "1 2"),                "2", "",     {UNDER_REPLICATED, AT_MIN_ISR},              id="one-more-and-acks-all-is-refused"),
    pytest.param(partition("1 2 3", "1"),                  "2", "",     {UNDER_REPLICATED, UNDER_MIN_ISR},           id="acks-all-is-refused"),
    pytest.param(partition("1 2 3", "1", None),            "2", "",     {UNDER_REPLICATED, UNDER_MIN_ISR, UNAVAILABLE}, id="nobody-leads"),
    pytest.param(partition("1 2 3"),                       "2", "1",    {UNAVAILABLE},                               id="its-leaders-broker-is-fenced"),
    pytest.param(partition("1 2 3"),                       "3", "",     {AT_MIN_ISR},                                id="all-must-be-in-sync-and-are"),
    # The minimum is at most the number of replicas.
    pytest.param(partition("1"),                           "3", "",     {AT_MIN_ISR},                                id="one-replica"),
    # Replicas that move in don't count (OngoingReassignmentState).
    pytest.param(partition("3 1 2", "1 2", 1, adding="3"), "1", "",     set(),                                       id="moving-replica-is-not-missed"),
    pytest.param(partition("3 1 2", "1", 1, adding="3"),   "2", "",     {UNDER_REPLICATED, UNDER_MIN_ISR},           id="staying-replica-is-missed-while-another-moves"),
    # A move waits for all of its target.
    pytest.param(partition("4 1 2", "1 2", 1, adding="4", removing="2"), "1", "4", {STALLED_MOVE},                   id="the-target-of-a-move-is-fenced"),
    pytest.param(partition("4 1 2", "1 2", 1, adding="4", removing="2"), "1", "2", set(),                            id="one-that-goes-is-fenced"),
    pytest.param(partition("3 2 1", "1 3", 1, adding="3", removing="1"), "1", "2", {STALLED_MOVE},                   id="one-that-stays-is-fenced"),
]
# fmt: on


@pytest.mark.parametrize("registration, minimum, fenced, expected", CASES)
def test_states(registration, minimum, fenced, expected):
    image = image_of(
        registration, ids="1 2 3 4", fenced=fenced, configs={"min.insync.replicas": minimum}
    )

    assert states_of(image, TOPIC_ID, registration) == expected
    assert stalled_on(image, registration) == ((int(fenced),) if STALLED_MOVE in expected else ())
