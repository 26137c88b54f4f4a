"""Rounds of replication in memory: back-offs, throttles, and that no partition waits for another."""

from itertools import product

import pytest

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    UNKNOWN_SERVER_ERROR,
    FencedLeaderEpochError,
    RootFullError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.fetch_plan import awaits_metadata
from kafka_on_spark.controller.isr import conclude
from kafka_on_spark.controller.probes import ProbeResult
from kafka_on_spark.log import operations
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import RefusedWrite, RemoveTopicRecord
from tests.builders import KEY, TOPIC_ID, address, disk, image_of, partition, report, seen
from tests.committing import replay
from tests.controller.rounds import EPOCH, Rounds
from tests.fakes import MemoryReplicaLog


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


def test_a_cluster_wide_throttle_holds_for_a_move_as_well():
    rounds = Rounds(isr="1", adding_replicas=(3,), throttle_bytes_per_s=500)
    rounds.append(0, "a", 9)

    rounds.run(replica_fetch_max_bytes=100, follower_replication_throttled_rate=200)

    assert rounds.end(2) + rounds.end(3) == 2


def after(image, *reports):
    """Return the partition after what `reports` lead to was committed."""
    return replay(image, conclude(image, reports)).partition(KEY)


@pytest.mark.parametrize("end", [10, 15])
def test_after_a_late_report_replication_still_knows_of_what_was_appended_since(end):
    """Of two appends with acks=1, the first one reports last."""
    image = image_of(partition("1 2 3", hw=10, leo=20))

    found = after(image, report(*(seen(each, end) for each in (1, 2, 3)), known_end=5))

    assert (found.high_watermark, found.log_end_offset) == (end, 20)
    assert found.needs_work


def test_after_every_small_round_each_member_of_the_isr_has_what_is_committed():
    """I1, for every end of two followers, every ISR, every minimum."""
    checked = 0
    for second, third, isr, minimum in product(range(4), range(4), ["1", "1 2", "1 2 3"], "123"):
        ends = {1: 3, 2: second, 3: third}
        members = [int(each) for each in isr.split()]
        before = partition("1 2 3", isr=isr, hw=min(ends[each] for each in members), leo=3)
        image = image_of(before, configs={"min.insync.replicas": minimum})
        checked += 1

        found = after(image, report(seen(1, 3), seen(2, second), seen(3, third)))

        assert found.high_watermark >= before.high_watermark
        assert all(ends[each] >= found.high_watermark for each in found.isr)
        assert found.high_watermark == before.high_watermark or len(before.isr) >= int(minimum)
        assert found.high_watermark <= Offset(3)
    assert checked == 144


def test_an_inspection_creates_the_leader_that_its_followers_wait_for():
    rounds = Rounds(directories=(None, disk(2), disk(3)))

    report = rounds.run()

    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]
    assert (report.not_looked_at, report.is_caught_up) == (0, True)


def test_replicas_without_a_leader_do_not_count_as_inspected_when_they_have_one_again():
    rounds = Rounds(leader=None)
    leaderless = rounds.run()
    key = rounds.keys[0]
    image = rounds.metadata.image
    change = PartitionChange(leader=BrokerId(1))
    rounds.submit([change_record(image, key, image.partition(key), change, "elected")])

    report = rounds.run()

    assert (leaderless.not_looked_at, leaderless.is_caught_up) == (1, False)
    assert rounds.fetched(is_inspection=True) == [(0, 2), (0, 3)]
    assert (report.not_looked_at, report.is_caught_up) == (0, True)


def test_only_a_fence_of_the_newest_epoch_waits_for_a_newer_leadership():
    waiting = [
        each for each in (*ERROR_BY_CODE, UNKNOWN_SERVER_ERROR) if awaits_metadata(each, 5, 5)
    ]

    assert waiting == [FencedLeaderEpochError.code]
    assert not awaits_metadata(FencedLeaderEpochError.code, 4, 5)


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
