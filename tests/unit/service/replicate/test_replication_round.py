"""Rounds of replication in memory: back-offs, throttles, and that no partition waits for another."""

import pytest

from kafka_on_spark.controller.moves.reassignment import cancel_reassignments
from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.errors import RootFullError
from kafka_on_spark.ids import BrokerId, LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.metadata.broker import RefusedWrite
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import RemoveTopicRecord
from kafka_on_spark.service.probing.probes import ProbeResult
from tests.builders import TOPIC_ID, address, disk
from tests.fakes import MemoryReplicaLog
from tests.unit.service.rounds import EPOCH, Rounds


def test_a_refused_fetch_is_left_out_until_its_back_off_ends_and_stops_no_other():
    rounds = Rounds(2)
    rounds.append(0, "a")
    rounds.append(1, "b")
    rounds.roots["memory://3"].is_offline = True
    first = rounds.run()
    assert rounds.fetched() == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert len(first.failures) == 2

    second = rounds.run()

    assert rounds.fetched() == [(0, 2), (1, 2)]  # what is not refused is not left out
    assert second.resume_after_ms == 1000
    assert (rounds.end(2, 0), rounds.end(2, 1)) == (1, 1)
    rounds.clock.advance(1000)
    rounds.run()
    assert rounds.fetched() == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_a_follower_whose_root_has_no_room_is_noted_once_it_was_asked_again(monkeypatch):
    """An active controller fences its broker for that; see test_controller_judges."""
    rounds, asked = Rounds(), []
    rounds.append(0, "a")
    commit = MemoryReplicaLog.commit

    def commit_where_is_room(self, *arguments):
        if self._address.broker_id == 3:
            raise RootFullError("no room")
        return commit(self, *arguments)

    def probe(orders):
        asked.append({each.broker_id: each.size_bytes for each in orders})
        codes = {3: RootFullError.code if len(asked) > 1 else 0}
        return [ProbeResult(each.broker_id, codes.get(each.broker_id, 0)) for each in orders]

    monkeypatch.setattr(MemoryReplicaLog, "commit", commit_where_is_room)
    rounds.run_probes = probe
    rounds.run()
    assert rounds.metadata.image.brokers[3].refused is None

    for _ in range(2):
        rounds.clock.advance(60_000)
        rounds.run()

    assert rounds.metadata.image.brokers[3].refused == RefusedWrite(2**20, ("here",))
    assert asked == [{1: 0, 2: 0, 3: 2**20}] * 3


def test_the_slice_does_not_inspect_again_what_fetches_have_inspected_completely():
    rounds = Rounds(2)
    rounds.append(0, "a")

    report = rounds.run()

    assert rounds.fetched(is_inspection=False) == [(0, 2), (0, 3)]
    assert rounds.fetched(is_inspection=True) == [(1, 2), (1, 3)]
    assert all(each.is_uncached for each in rounds.orders)
    assert (report.slice_count, report.not_looked_at, report.is_caught_up) == (2, 0, True)


def test_the_slice_also_inspects_a_partition_of_which_a_fetch_was_refused():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True

    report = rounds.run()

    assert (0, 2) in rounds.fetched(is_inspection=True)
    assert (report.slice_count, report.is_caught_up) == (1, False)


def test_a_fetch_for_one_of_two_followers_is_no_inspection_of_the_partition():
    rounds = Rounds(isr="1 2")

    rounds.run()

    assert rounds.fetched(is_inspection=False) == [(0, 3)]
    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]


def test_what_is_not_due_is_fetched_with_what_the_process_knows_of_its_tables():
    rounds = Rounds()
    rounds.run()
    rounds.append(0, "a")

    rounds.run()

    assert [each.is_uncached for each in rounds.orders] == [False, False]


def test_a_fetch_that_was_refused_is_left_out_for_its_back_off():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True
    waits = []
    for _ in range(3):
        rounds.run()
        waits.append(rounds.run().resume_after_ms)
        rounds.clock.advance(waits[-1])
    rounds.roots["memory://3"].is_offline = False

    assert rounds.run().is_caught_up
    assert waits == [1000, 1000, 1000]


def test_a_newer_leadership_ends_a_back_off_at_once():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True
    rounds.run()
    image = rounds.metadata.image
    change = elect_preferred_again(image, rounds.keys[0])
    rounds.submit([change])

    rounds.run()

    assert (0, 3) in rounds.fetched()


def elect_preferred_again(image, key):
    before = image.partition(key)
    return change_record(image, key, before, PartitionChange(leader=BrokerId(1)), "again")


def test_a_sweep_asks_everybody():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True
    rounds.run()

    rounds.run(is_sweep=True)

    assert rounds.fetched() == [(0, 2), (0, 3)]


def test_a_fetcher_that_is_fenced_waits_for_a_newer_leadership_and_not_for_time():
    rounds = Rounds()
    rounds.append(0, "a")
    replica = rounds.replicas.open(address(3))
    state = replica.load()
    replica.commit(
        state,
        operations.adopt(state, leader_epoch=LeaderEpoch(6), truncate_to=None, floor=Offset(0)),
    )
    first = rounds.run()
    rounds.clock.advance(10**9)

    second = rounds.run()

    assert "FencedLeaderEpoch" in first.failures[0]
    assert rounds.fetched(is_inspection=False) == [(0, 2)]
    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]  # whether it is still so
    assert second.resume_after_ms is None


def test_a_round_over_a_topic_that_was_deleted_meanwhile_says_so():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True
    run_fetches = rounds._run_fetches

    def delete_the_topic_first(orders):
        rounds.submit([RemoveTopicRecord(topic_id=TOPIC_ID)])
        return run_fetches(orders)

    rounds._run_fetches = delete_the_topic_first

    report = rounds.run()

    assert len(report.failures) == 1
    assert report.failures[0].startswith("deleted-0 on broker 3: UnknownTopicId: the topic was")
    assert (report.resume_after_ms, rounds.run().resume_after_ms) == (None, None)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttle_holds_over_all_fetches_of_a_job(side):
    """350 bytes a second, batches of 100, six of them for each of two followers of two logs."""
    rounds = Rounds(2, isr="1")
    rounds.append(0, "a", 6)
    rounds.append(1, "b", 6)
    rate = {f"{side}_replication_throttled_rate": 350, "replica_fetch_max_bytes": 100}
    copied = []
    for _ in range(10):
        copied.append(rounds.run(**rate).copied_bytes)
        rounds.clock.advance(1000)

    # A second's worth at once, and whole batches: what is too much is waited off afterwards.
    so_far = [sum(copied[: number + 1]) for number in range(10)]
    assert all(each <= 350 * (number + 1) + 100 for number, each in enumerate(so_far))
    assert so_far[-1] == 2400
    assert [rounds.end(each, number) for each in (2, 3) for number in (0, 1)] == [6] * 4
    assert rounds.run(**rate).is_caught_up


def test_with_the_rate_spent_a_round_copies_nothing_and_inspects_everything():
    rounds = Rounds()
    rounds.append(0, "a", 3)
    rate = {"follower_replication_throttled_rate": 100, "replica_fetch_max_bytes": 100}
    assert rounds.run(**rate).copied_bytes == 100

    report = rounds.run(**rate)

    assert report.copied_bytes == 0
    assert rounds.fetched() == [(0, 2), (0, 3)]
    assert report.resume_after_ms == 10  # a byte's time
    assert {rounds.replicas.open(address(each)).load().leader_epoch for each in (2, 3)} == {EPOCH}
    assert rounds.metadata.image.partition(rounds.keys[0]).isr == {1, 2, 3}


def test_a_batch_larger_than_the_rate_gets_through():
    rounds = Rounds()
    rounds.append(0, "a")

    report = rounds.run(follower_replication_throttled_rate=1)

    assert report.copied_bytes == 100


def test_replicas_that_are_not_named_are_not_throttled():
    names = {"follower.replication.throttled.replicas": "0:3"}
    rounds = Rounds(configs=names)
    rounds.append(0, "a", 5)

    rounds.run(follower_replication_throttled_rate=100, replica_fetch_max_bytes=100)

    assert (rounds.end(2), rounds.end(3)) == (5, 1)


MOVE = {"adding_replicas": (2, 3), "throttle_bytes_per_s": 300}


def test_moves_with_the_same_throttle_keep_to_it_together():
    rounds = Rounds(2, isr="1", **MOVE)
    rounds.append(0, "a", 4)
    rounds.append(1, "b", 4)
    copied = []
    for _ in range(8):
        copied.append(rounds.run(replica_fetch_max_bytes=100).copied_bytes)
        rounds.clock.advance(1000)

    so_far = [sum(copied[: number + 1]) for number in range(8)]
    assert all(each <= 300 * (number + 1) + 100 for number, each in enumerate(so_far))
    assert so_far[-1] == 1600


def test_a_reassignments_throttle_holds_for_adding_replicas_only():
    rounds = Rounds(isr="1", adding_replicas=(3,), throttle_bytes_per_s=100)
    rounds.append(0, "a", 5)

    report = rounds.run(replica_fetch_max_bytes=100)

    assert (rounds.end(2), rounds.end(3)) == (5, 1)
    assert report.resume_after_ms is None
    assert rounds.run(replica_fetch_max_bytes=100).resume_after_ms == 10


def test_a_replica_that_came_and_is_in_sync_keeps_up_unthrottled():
    rounds = Rounds(isr="1 2 3", **MOVE)
    rounds.append(0, "a", 9)

    assert rounds.run(replica_fetch_max_bytes=100).copied_bytes == 1800


def test_a_cluster_wide_throttle_holds_for_a_move_as_well():
    rounds = Rounds(isr="1", adding_replicas=(3,), throttle_bytes_per_s=500)
    rounds.append(0, "a", 9)

    rounds.run(replica_fetch_max_bytes=100, follower_replication_throttled_rate=200)

    assert rounds.end(2) + rounds.end(3) == 2


def test_a_throttle_ends_with_its_move():
    rounds = Rounds(isr="1", **MOVE)
    rounds.append(0, "a", 9)
    assert rounds.run(replica_fetch_max_bytes=100).copied_bytes == 400  # whole batches
    key = rounds.keys[0]
    image = rounds.metadata.image
    rounds.submit(cancel_reassignments(image, [key], cause="enough").records)

    partition = rounds.metadata.image.partition(key)
    assert (partition.replicas, partition.throttle_bytes_per_s) == ((1,), None)


def test_a_move_that_a_round_left_out_does_not_begin_with_a_new_second():
    rounds = Rounds(isr="1", **MOVE)
    rounds.append(0, "a", 9)
    assert rounds.run(replica_fetch_max_bytes=100).copied_bytes == 400
    planned = rounds.pace.plan(rounds.metadata.image, [], {}, is_sweep=False)
    assert planned == ([], None)

    assert rounds.run(replica_fetch_max_bytes=100).copied_bytes == 0


def test_in_sync_followers_are_served_first():
    rounds = Rounds(isr="1 3")
    rounds.append(0, "a", 5)

    rounds.run(follower_replication_throttled_rate=300, replica_fetch_max_bytes=300)

    assert (rounds.end(2), rounds.end(3)) == (0, 3)


def test_a_round_in_which_nothing_changes_commits_nothing():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.run()
    commits = len(rounds.log.batches)
    versions = [rounds.replicas.open(address(each)).load().version for each in (1, 2, 3)]

    for _ in range(3):
        assert rounds.run(is_sweep=True).partition_count == 1

    assert len(rounds.log.batches) == commits
    assert [rounds.replicas.open(address(each)).load().version for each in (1, 2, 3)] == versions


def test_followers_whose_leader_was_never_created_are_inspected_once_it_is():
    rounds = Rounds(directories=(None, disk(2), disk(3)))
    rounds.roots["memory://1"].is_offline = True

    in_vain = rounds.run()
    rounds.roots["memory://1"].is_offline = False
    report = rounds.run()

    assert (in_vain.not_looked_at, in_vain.is_caught_up) == (1, False)
    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]
    assert (report.not_looked_at, report.is_caught_up) == (0, True)
