"""Figures of the metadata quorum: what each process tells, and what the controller alone knows."""

from kafka_on_spark.observe.metric import HELP
from kafka_on_spark.observe.state_metrics import quorum_metrics
from tests.observe.quorums import quorum_of


def figures(quorum, *, is_controller):
    metrics = list(quorum_metrics(quorum, is_controller=is_controller))
    assert {(each.type, each.name) for each in metrics} <= HELP.keys()
    return {each.name: each.value for each in metrics}


def test_the_controller_tells_of_voters_that_are_lost_or_behind():
    found = figures(quorum_of(0, 4, None), is_controller=True)

    assert (found["current-leader"], found["number-of-voters"]) == (1, 3)
    assert (found["lost-voters"], found["max-follower-lag"]) == (1, 4)


def test_who_asks_few_voters_tells_of_none_how_it_is():
    found = figures(quorum_of(0, None, None), is_controller=False)

    assert found.keys() == {"current-leader", "current-epoch", "high-watermark", "number-of-voters"}
