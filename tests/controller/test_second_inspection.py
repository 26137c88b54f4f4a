"""A replica that is found bad is inspected a second time by the same process before it is lost."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    NO_ERROR,
    CommitOutcomeUnknownError,
    CorruptLogError,
    FencedLeaderEpochError,
    InconsistentClusterError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import LOST, BrokerId
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.inspections import (
    Finding,
    UnreadableLeaders,
    inspect_replica,
    plan_second_inspection,
)
from kafka_on_spark.controller.probes import ProbeResult, probe_task
from kafka_on_spark.metadata.partition import PartitionChange
from tests.builders import address, image_of, partition, report, seen, segment, uuid_on
from tests.controller.rounds import Rounds
from tests.fakes import MemoryReplicaLog, folder
from tests.nodes import node_of

FIRST, SECOND, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)


@pytest.fixture
def rounds():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.run(is_sweep=True)
    return rounds


def tables(rounds, broker_id):
    return rounds.roots[f"memory://{broker_id}"].tables


def lose(rounds, broker_id):
    """Take a replica's table away; return what restores it."""
    place = folder(address(broker_id, key=rounds.keys[0]))
    table = tables(rounds, broker_id).pop(place)
    return lambda: tables(rounds, broker_id).update({place: table})


def registration(rounds):
    return rounds.metadata.catch_up().partition(rounds.keys[0])


def inspect(rounds):
    """Inspect every replica once, and decide on that."""
    rounds.second_inspections._delay_ms = lambda: 10**9
    rounds.run(is_sweep=False)
    del rounds.second_inspections._delay_ms
    return registration(rounds)


@pytest.mark.parametrize("broker_id", [FIRST, THIRD])
def test_a_first_inspection_makes_no_verdict_and_a_second_does(rounds, broker_id):
    rounds.append(0, "b")
    lose(rounds, broker_id)

    assert LOST not in inspect(rounds).directories

    rounds.second_inspections.finish()
    after = registration(rounds)
    assert after.directory_of(broker_id) == LOST
    assert broker_id not in after.isr
    assert after.leader != broker_id
    assert rounds.second_inspections.wait_ms() is None


def test_a_round_leaves_what_its_second_inspections_find_anew_to_the_next(rounds):
    found = {each: Finding(rounds.keys[0], each, uuid_on(each)) for each in (FIRST, THIRD)}
    inspected = []

    def find_the_other(orders):
        is_of_third = any(each.follower and each.follower.broker_id == THIRD for each in orders)
        inspected.append(THIRD if is_of_third and len(orders) == 1 else FIRST)
        rounds.second_inspections.record_finding(found[{FIRST: THIRD, THIRD: FIRST}[inspected[-1]]])
        return rounds._run_fetches(orders)

    rounds.second_inspections.record_finding(found[THIRD])
    for expected in ([THIRD], [THIRD, FIRST], [THIRD, FIRST, THIRD]):
        deadline_ms = rounds.clock.monotonic_ms() + 120_000
        rounds.second_inspections.finish(find_the_other, deadline_ms=deadline_ms)
        assert inspected == expected

    assert rounds.second_inspections.wait_ms() is not None


def test_a_root_that_is_another_disk_at_the_second_inspection_says_nothing(rounds):
    rounds.append(0, "b")
    lose(rounds, THIRD)
    inspect(rounds)

    rounds.roots["memory://3"].directory_id = None

    assert rounds.second_inspections.finish() == 0
    assert LOST not in registration(rounds).directories


def test_a_replica_that_was_created_again_between_the_inspections_is_left_alone(rounds):
    rounds.append(0, "b")
    lose(rounds, THIRD)
    inspect(rounds)
    old = registration(rounds)
    uuids = (*old.replica_uuids[:2], "another")
    change = PartitionChange(
        replica_uuids=uuids, directories=(*old.directories[:2], None), isr=frozenset({1, 2})
    )
    image = rounds.metadata.image
    rounds.submit([change_record(image, rounds.keys[0], old, change, "made anew")])

    assert rounds.second_inspections.finish() == 0
    assert LOST not in registration(rounds).directories


def test_a_partition_that_changes_during_the_second_inspection_is_inspected_again(rounds):
    rounds.append(0, "b")
    lose(rounds, THIRD)
    inspect(rounds)

    def change_leader(orders):
        old = registration(rounds)
        if old.leader == FIRST:
            change = PartitionChange(leader=BrokerId(2))
            image = rounds.metadata.image
            results = rounds._run_fetches(orders)
            rounds.submit([change_record(image, rounds.keys[0], old, change, "moved")])
            return results
        return rounds._run_fetches(orders)

    rounds.second_inspections.finish(change_leader)
    assert LOST not in registration(rounds).directories
    rounds.second_inspections.finish(change_leader)

    assert registration(rounds).directory_of(THIRD) == LOST


def test_a_damaged_file_is_read_a_second_time(rounds):
    [batch] = rounds.replicas.open(address(3, key=rounds.keys[0])).load().batches
    [segment] = batch.segments
    files = rounds.roots["memory://3"].files[folder(address(3, key=rounds.keys[0]))]
    finding = Finding.of(address(3, key=rounds.keys[0]), segment)

    rounds.second_inspections.record_finding(finding)
    rounds.second_inspections.finish()
    assert LOST not in registration(rounds).directories

    files[segment.file_name] = b"x"
    rounds.second_inspections.record_finding(finding)
    rounds.second_inspections.finish()
    assert registration(rounds).directory_of(THIRD) == LOST


def test_a_process_that_may_not_write_the_metadata_drops_its_findings(rounds, monkeypatch):
    lose(rounds, THIRD)
    rounds.second_inspections.record_finding(Finding(rounds.keys[0], THIRD, uuid_on(3)))

    def refuse(*_, **__):
        raise RootAccessDeniedError("can't write")

    monkeypatch.setattr(rounds.metadata, "submit", refuse)

    assert rounds.second_inspections.finish() == 0
    assert rounds.second_inspections.wait_ms() is None


def test_what_could_not_be_committed_is_kept(rounds, monkeypatch):
    lose(rounds, THIRD)
    rounds.second_inspections.record_finding(Finding(rounds.keys[0], THIRD, uuid_on(3)))

    def fail(*_, **__):
        raise CommitOutcomeUnknownError("the store failed")

    with monkeypatch.context() as patched:
        patched.setattr(rounds.metadata, "submit", fail)
        with pytest.raises(CommitOutcomeUnknownError):
            rounds.second_inspections.finish()

    rounds.second_inspections.finish()
    assert registration(rounds).directory_of(THIRD) == LOST


def test_no_second_inspection_is_made_before_its_time(rounds):
    delay_ms = rounds.second_inspections._delay_ms()
    rounds.append(0, "b")
    lose(rounds, THIRD)
    inspect(rounds)
    rounds.orders = []
    for _ in range(delay_ms - 1):
        rounds.clock.advance(1)
        assert rounds.second_inspections.inspect_due() == 0

    assert rounds.orders == []
    assert LOST not in registration(rounds).directories

    rounds.clock.advance(1)
    assert rounds.second_inspections.inspect_due() == 1
    assert LOST in registration(rounds).directories


# fmt: off
PLANS = [  # whose replica, its file         fetches by
    pytest.param(FIRST, None,                [None, 2, 3], id="a leader: by each that may have failed to copy it"),
    pytest.param(FIRST, segment("a"),        [None],       id="a leader's file: read there"),
    pytest.param(THIRD, None,                [3],          id="a follower"),
    pytest.param(THIRD, segment("a"),        [3],          id="a follower's file"),
]

# fmt: on


@pytest.mark.parametrize("broker_id, file, followers", PLANS)
def test_a_second_inspection_fetches_as_the_first_one_did(broker_id, file, followers):
    found = Finding.of(address(broker_id), file)

    orders = plan_second_inspection(image_of(partition("1 2 3")), found)

    assert [each.follower and each.follower.broker_id for each in orders] == followers
    assert {each.suspect for each in orders} == {file}


def is_lost_by_findings_that_differ(rounds):
    """Return whether a damaged file that is whole again, and then a log that is gone, are taken for
    one finding, and the replica for lost: each was found once."""
    place = address(3, key=rounds.keys[0])
    [segment] = rounds.replicas.open(place).load().batches[0].segments
    rounds.second_inspections.record_finding(Finding.of(place, segment))
    lose(rounds, THIRD)

    rounds.clock.advance(5000)
    rounds.second_inspections.inspect_due()
    return LOST in registration(rounds).directories


def test_what_is_found_must_be_the_same_twice(rounds):
    assert not is_lost_by_findings_that_differ(rounds)

    rounds.second_inspections.finish()
    assert registration(rounds).directory_of(THIRD) == LOST


def test_a_file_that_the_log_no_longer_names_after_the_look_is_no_loss(rounds, monkeypatch):
    place = address(3, key=rounds.keys[0])
    [segment] = rounds.replicas.open(place).load().batches[0].segments
    load = MemoryReplicaLog.load
    merged = []

    def check(store, of, file):
        merged.append(file)
        raise CorruptLogError("it is gone", segment=file.file_name)

    def loaded(log):
        state = load(log)
        return replace(state, batches=()) if merged and log._address == place else state

    monkeypatch.setattr(type(rounds.segments), "check", check)
    monkeypatch.setattr(MemoryReplicaLog, "load", loaded)
    orders = plan_second_inspection(rounds.metadata.image, Finding.of(place, segment))
    [result] = rounds._run_fetches(orders)

    assert merged == [segment]
    assert not any(seen.bad_file for seen in result.report.followers)


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
            node_of(
                self.metadata,
                self.clock,
                given={probe_task: self._probes, inspect_replica: self._inspections},
                root_generation=self._generation_of,
            )
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
        found = {each.address.broker_id: inspect_replica(each, self) for each in orders}
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


def test_one_inspection_that_succeeds_resets_the_count(reading):
    reading.inspect(1, times=2)
    reading.inspect()
    reading.inspect(1, times=2)

    assert reading.unread.replace_lasting() == 0


def test_inspections_under_an_older_leadership_do_not_count(reading):
    reading.inspect(1, times=3)
    reading.submit(fence_broker(reading.metadata.image, 1, "it is away").records)

    assert reading.unread.replace_lasting() == 0
    assert sorted(reading.now.isr) == [2, 3]


def test_members_that_are_away_do_not_say_that_the_metadata_went_back(reading):
    reading.unreadable.update((2, 3))
    reading.inspect(1, of=FENCED, times=3)

    assert reading.unread.replace_lasting() == 0
    assert reading.now.leader == 1
