"""A leader that can't be read, on a root that answers, leads no more, and is not lost."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    NO_ERROR,
    FencedLeaderEpochError,
    InconsistentClusterError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import LOST
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.inspections import inspect_replica
from kafka_on_spark.controller.probes import ProbeResult
from kafka_on_spark.controller.second_inspection import UnreadableLeaders
from tests.builders import report, seen
from tests.controller.rounds import Rounds

SESSION_MS = 9000
UNREAD = {"error_code": KafkaStorageError.code, "error": "EIO", "fence": None}
FENCED = {"error_code": FencedLeaderEpochError.code, "error": "a later leadership", "fence": None}
DENIED = {"error_code": RootAccessDeniedError.code, "error": "EACCES", "fence": None}


class Reading(Rounds):
    """Rounds with one record that all three have; `silent` brokers don't answer probes."""

    def __init__(self, **given):
        super().__init__(**given)
        self.append(0, "a")
        self.run(is_sweep=True)
        self.silent = set()
        self.unreadable = set()
        self.fences = {}
        self.unread = UnreadableLeaders(
            self.metadata,
            self.clock,
            run_probes=self._probes,
            run_inspections=self._inspections,
            timeout_ms=1000,
            generation_of=self._generation_of,
        )
        self.generations = {}

    def _generation_of(self, root):
        found = self.generations.get(root, 0)
        if isinstance(found, Exception):
            raise found
        return found

    def _probes(self, orders):
        code = KafkaStorageError.code
        return [
            ProbeResult(each.broker_id, code if each.broker_id in self.silent else NO_ERROR)
            for each in orders
        ]

    def _inspections(self, orders):
        found = {each.address.broker_id: inspect_replica(each, self.replicas) for each in orders}
        return [
            None
            if broker_id in self.unreadable
            else replace(seen_now, fence=self.fences.get(broker_id, seen_now.fence))
            for broker_id, seen_now in found.items()
        ]

    @property
    def now(self):
        return self.metadata.catch_up().partition(self.keys[0])

    def inspect(self, *failed, of=UNREAD, times=1, apart_ms=SESSION_MS / 2):
        """Inspect so often, with an error at the replicas of these brokers."""
        for _ in range(times):
            rows = [seen(each, 1, **(of if each in failed else {})) for each in (1, 2, 3)]
            now = self.now
            self.unread.record(
                report(*rows, key=self.keys[0], version=now.partition_epoch, epoch=now.leader_epoch)
            )
            self.clock.advance(apart_ms)


@pytest.fixture
def reading():
    return Reading()


def test_a_leader_that_is_unreadable_for_a_session_leaves_isr_and_leadership_and_keeps_its_disk(
    reading,
):
    before = reading.now.directories
    reading.inspect(1, times=3)

    assert reading.unread.replace_lasting() == 1

    assert 1 not in reading.now.isr
    assert reading.now.leader == 2
    assert reading.now.directories == before
    assert LOST not in before


def test_a_follower_that_is_unreadable_is_left_to_its_lag(reading):
    reading.inspect(3, times=9)

    assert reading.unread.replace_lasting() == 0
    assert 3 in reading.now.isr


# fmt: off
TOO_LITTLE = [
    pytest.param({"times": 2},                        id="two inspections"),
    pytest.param({"times": 9, "apart_ms": 10},        id="less than a session"),
    pytest.param({"times": 9, "of": DENIED},          id="the caller has no permission"),
]
# fmt: on


@pytest.mark.parametrize("inspections", TOO_LITTLE)
def test_an_error_that_may_pass_or_refuses_the_caller_sets_no_replica_aside(reading, inspections):
    reading.inspect(1, **inspections)

    assert reading.unread.replace_lasting() == 0
    assert sorted(reading.now.isr) == [1, 2, 3]


def test_one_inspection_that_succeeds_resets_the_count(reading):
    reading.inspect(1, times=2)
    reading.inspect()
    reading.inspect(1, times=2)

    assert reading.unread.replace_lasting() == 0


def test_a_root_that_does_not_answer_is_the_controllers_business(reading):
    reading.silent.add(1)
    reading.inspect(1, times=3)

    assert reading.unread.replace_lasting() == 0
    assert reading.now.leader == 1


def test_the_last_member_that_can_be_read_is_not_guessed(reading):
    reading.unreadable.update((2, 3))
    reading.inspect(1, times=3)

    assert reading.unread.replace_lasting() == 0
    assert reading.now.leader == 1


def test_only_a_member_that_this_process_can_read_leads(reading):
    reading.unreadable.add(2)
    reading.inspect(1, times=3)

    assert reading.unread.replace_lasting() == 1
    assert reading.now.leader == 3


def test_it_rejoins_like_any_follower(reading):
    reading.inspect(1, times=3)
    reading.unread.replace_lasting()
    assert sorted(reading.now.isr) == [2, 3]

    reading.run(is_sweep=True)

    assert sorted(reading.now.isr) == [1, 2, 3]


def test_a_fence_of_a_later_generation_of_the_cluster_stops_everything(reading):
    reading.generations["memory://1"] = 1
    reading.inspect(1, of=FENCED, times=3)

    with pytest.raises(InconsistentClusterError, match="the cluster was forced"):
        reading.unread.replace_lasting()
    assert reading.now.leader == 1


@pytest.mark.parametrize("generation", [0, KafkaStorageError("EIO")], ids=["same", "not known"])
def test_a_fence_that_nobody_decided_is_an_error_that_lasts(reading, generation):
    reading.generations["memory://1"] = generation
    reading.inspect(1, of=FENCED, times=3)

    assert reading.unread.replace_lasting() == 1
    assert reading.now.leader == 2
    assert LOST not in reading.now.directories


def test_fences_above_the_metadata_on_all_members_say_that_the_metadata_went_back(reading):
    reading.fences = {2: 9, 3: 9}
    reading.inspect(1, of=FENCED, times=3)

    with pytest.raises(InconsistentClusterError, match="went back; stop and restore it"):
        reading.unread.replace_lasting()
    assert reading.now.leader == 1


def test_a_member_with_a_fence_above_the_metadata_does_not_lead(reading):
    reading.fences = {2: 9}
    reading.inspect(1, of=FENCED, times=3)

    assert reading.unread.replace_lasting() == 1
    assert reading.now.leader == 3


def test_inspections_under_an_older_leadership_do_not_count(reading):
    reading.inspect(1, times=3)
    reading.submit(fence_broker(reading.metadata.image, 1, "it is away").records)

    assert reading.unread.replace_lasting() == 0
    assert sorted(reading.now.isr) == [2, 3]


def test_a_replica_that_was_just_decided_on_is_not_asked_again(reading):
    """Each asking probes roots and reads logs."""
    asked, probes = [], reading.unread._run_probes

    def noted(orders):
        asked.append(reading.clock.monotonic_ms())
        return probes(orders)

    reading.unread._run_probes = noted
    reading.unreadable.update((2, 3))
    reading.inspect(1, times=3)
    for _ in range(36):
        assert reading.unread.replace_lasting() == 0
        reading.inspect(1, apart_ms=500)

    assert [each - asked[0] for each in asked] == [0, SESSION_MS]


def test_members_that_are_away_do_not_say_that_the_metadata_went_back(reading):
    reading.unreadable.update((2, 3))
    reading.inspect(1, of=FENCED, times=3)

    assert reading.unread.replace_lasting() == 0
    assert reading.now.leader == 1
