"""A follower that differs from its leader where no cut is allowed: who of the two is bad."""

from dataclasses import replace

import pytest

from kafka_on_spark.ids import BrokerId, LeaderEpoch
from tests.builders import log, text_of
from tests.conformance.adapters.fetching import Pair

# The same offset, the same epoch, and another batch: one of the two was set back and went on.
LEADER, FOLLOWER = log("0:aabb"), log("0:aac")


# fmt: off
CASES = [  # epoch  ISR    ELR   bad
    pytest.param(0, "1",   "",   {1},   id="in the leader's own epoch, the leader has lost what it wrote"),
    pytest.param(0, "1 2", "",   {1},   id="the same, whoever the follower is"),
    pytest.param(1, "1",   "",   {2},   id="in an older epoch, a follower on whom nothing rests"),
    pytest.param(1, "1 2", "",   set(), id="of two in sync, nobody knows which is right"),
    pytest.param(1, "1",   "2",  set(), id="nor with an eligible one"),
]
# fmt: on


@pytest.mark.parametrize("epoch, isr, elr, bad", CASES)
def test_a_difference_under_one_epoch_names_who_lost_commits(epoch, isr, elr, bad):
    pair = Pair(LEADER, FOLLOWER)
    pair.partition = replace(
        pair.partition,
        leader_epoch=LeaderEpoch(epoch),
        isr=frozenset(BrokerId(int(each)) for each in isr.split()),
        elr=frozenset(BrokerId(int(each)) for each in elr.split()),
    )

    result = pair.fetch()

    seen = [result.report.leader, *result.report.followers]
    assert {each.broker_id for each in seen if each.is_bad} == bad
    assert not any(each.is_matched for each in result.report.followers)
    assert result.copied_records == 0
    assert text_of(pair.follower()) == text_of(FOLLOWER)
