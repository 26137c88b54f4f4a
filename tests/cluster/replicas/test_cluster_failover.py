"""A broker's disk goes away and comes back: who leads, who is in sync, what readers see."""

import threading

import pytest
from deltalake import DeltaTable

from kafka_on_spark.errors import (
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    RequestTimedOutError,
)
from kafka_on_spark.metadata.broker import BrokerState
from tests.cluster.disks import (
    PATIENCE_MS,
    isr_of,
    new_disks,
    partition_of,
    records,
    values_of,
)

REPLICAS = {0: [1, 2, 3]}


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic(
        "orders", replica_assignment=REPLICAS, configs={"min.insync.replicas": 2}
    )
    disks.cluster.append("orders", records(b"a"))
    return disks.cluster


@pytest.mark.smoke
def test_the_partitions_of_a_lost_broker_fail_over_and_appends_go_on(disks, cluster):
    disks.take_away(1)

    report = cluster.run_controller()
    cluster.append("orders", records(b"b"))

    partition = partition_of(cluster, "orders")
    assert (report.fenced, report.leaders_moved) == ((1,), 1)
    assert (partition.leader, partition.leader_epoch, isr_of(cluster, "orders")) == (2, 1, [2, 3])
    assert values_of(cluster, "orders") == [b"a", b"b"]


def test_a_new_leaders_table_is_fenced_by_the_controller_and_not_by_the_next_append(disks, cluster):
    disks.take_away(1)

    cluster.run_controller()

    assert [_fence_on(disks, each) for each in (2, 3)] == [1, 0]


def test_a_deposed_leaders_table_takes_nothing_more_from_the_controllers_commit_on():
    """Its disk is there: a late append of its time finds the fence of the next leadership."""
    with new_disks(configs={"leader.imbalance.per.broker.percentage": "0"}) as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment=REPLICAS)
        cluster.append("orders", records(b"a"))
        cluster.drain_broker(1)
        cluster.resume_broker(1)
        cluster.replicate(is_sweep=True)
        assert partition_of(cluster, "orders").leader == 2

        cluster.run_controller()

        assert partition_of(cluster, "orders").leader == 1
        assert [_fence_on(disks, each) for each in (1, 2, 3)] == [2, 2, 1]


def _fence_on(disks, broker_id):
    return DeltaTable(str(disks.folder(broker_id, "orders"))).transaction_version("leader-epoch")


def test_a_failover_of_many_partitions_is_one_commit(disks):
    disks.cluster.create_topic("orders", partitions=60, replication_factor=3)
    disks.take_away(1)

    disks.cluster.run_controller()

    history = disks.cluster.history("orders")
    moved = [entry for entry in history if (entry.cause or "").startswith("broker 1: probe failed")]
    assert len({entry.partition for entry in moved}) == 60
    offsets = [entry.metadata_offset for entry in moved]
    assert offsets == list(range(offsets[0], offsets[0] + 60))
    assert all(1 not in entry.isr and entry.leader in (2, 3) for entry in moved)


def test_an_append_that_waits_for_a_lost_leader_goes_on_with_the_new_one(disks, cluster):
    disks.take_away(1)
    controller = threading.Timer(0.1, disks.open().run_controller)
    controller.start()

    result = cluster.append(
        "orders", records(b"b"), producer_id="p", sequence=0, timeout_ms=PATIENCE_MS
    )

    controller.join()
    assert result.partitions[0].base_offset == 1
    assert values_of(cluster, "orders") == [b"a", b"b"]
    assert disks.values_on(2, "orders") == disks.values_on(3, "orders") == [b"a", b"b"]


def test_without_a_controller_an_append_to_a_lost_leader_is_unknown_and_a_retry_is_safe(
    disks, cluster
):
    disks.take_away(1)

    with pytest.raises(RequestTimedOutError, match="a retry with the same sequence is safe"):
        cluster.append("orders", records(b"b"), producer_id="p", sequence=0, timeout_ms=100)
    cluster.run_controller()
    cluster.append("orders", records(b"b"), producer_id="p", sequence=0)

    assert values_of(cluster, "orders") == [b"a", b"b"]


def test_with_acks_1_an_append_to_a_lost_leader_goes_on_with_the_next_one(disks, cluster):
    disks.take_away(1)

    cluster.append("orders", records(b"b"), acks=1, timeout_ms=PATIENCE_MS)

    assert partition_of(cluster, "orders").leader == 2
    assert disks.values_on(2, "orders") == [b"a", b"b"]


def test_an_append_to_a_leader_that_nobody_can_replace_is_refused_at_once(disks):
    disks.cluster.create_topic("alone", replica_assignment={0: [1]})
    disks.cluster.append("alone", records(b"a"))
    disks.take_away(1)

    with pytest.raises(KafkaStorageError, match=r"reached no root .*: bring a broker's disk back"):
        disks.cluster.append("alone", records(b"b"))


@pytest.mark.parametrize("producer", [{}, {"producer_id": "p", "sequence": 0}])
def test_with_acks_0_nobody_waits_for_the_error_of_a_lost_leader(disks, cluster, producer):
    disks.take_away(1)

    lost = cluster.append("orders", records(b"b"), acks=0, **producer)

    assert lost.partitions == {}
    assert not disks.root(1).exists()
    cluster.run_controller()
    cluster.append("orders", records(b"c"), **producer)
    assert values_of(cluster, "orders") == [b"a", b"c"]


def test_with_acks_0_a_record_that_is_not_allowed_is_refused_all_the_same(disks, cluster):
    cluster.alter_topic_configs("orders", {"max.message.bytes": 100})

    with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes=100"):
        cluster.append("orders", records(b"b" * 1000), acks=0)


@pytest.mark.parametrize("acks", ["all", 1])
def test_a_root_that_is_away_during_an_append_gets_no_folder(disks, cluster, acks):
    disks.take_away(1, 3)

    with pytest.raises((KafkaStorageError, RequestTimedOutError)):
        cluster.append("orders", records(b"b"), acks=acks, timeout_ms=100)

    assert not disks.root(1).exists()
    assert not disks.root(3).exists()


def test_below_the_minimum_of_in_sync_replicas_nothing_is_written(disks, cluster):
    disks.take_away(2, 3)
    cluster.run_controller()
    before = cluster.image.offset

    with pytest.raises(NotEnoughReplicasError, match="bring brokers back, or append with acks=1"):
        cluster.append("orders", records(b"b"))

    assert cluster.image.offset == before
    assert disks.values_on(1, "orders") == [b"a"]


def test_acks_1_is_taken_below_the_minimum_and_committed_once_it_is_met_again(disks, cluster):
    disks.take_away(2, 3)
    cluster.run_controller()

    cluster.append("orders", records(b"b"), acks=1)
    assert values_of(cluster, "orders") == [b"a"]
    disks.give_back(2, 3)
    cluster.run_controller()
    cluster.replicate()
    cluster.replicate()

    assert values_of(cluster, "orders") == [b"a", b"b"]
    assert isr_of(cluster, "orders") == [1, 2, 3]


@pytest.mark.smoke
def test_a_broker_that_returns_catches_up_rejoins_and_leads_again(disks, cluster):
    disks.take_away(1)
    cluster.run_controller()
    cluster.append("orders", records(b"b", b"c"))
    disks.give_back(1)

    report = cluster.run_controller()
    assert report.unfenced == (1,)
    assert isr_of(cluster, "orders") == [2, 3]
    replicated = cluster.replicate()

    assert (replicated.copied_records, replicated.is_caught_up) == (2, True)
    assert isr_of(cluster, "orders") == [1, 2, 3]
    assert cluster.elect_leaders("preferred") == [("orders", 0)]
    assert partition_of(cluster, "orders").leader == 1
    assert disks.values_on(1, "orders") == [b"a", b"b", b"c"]
    cluster.append("orders", records(b"d"))
    assert disks.values_on(3, "orders") == [b"a", b"b", b"c", b"d"]


def test_the_controller_gives_preferred_leaders_their_partitions_back():
    with new_disks(configs={"leader.imbalance.per.broker.percentage": 10}) as disks:
        disks.cluster.create_topic("orders", replica_assignment=REPLICAS)
        disks.take_away(1)
        disks.cluster.run_controller()
        disks.give_back(1)
        disks.cluster.run_controller()
        assert partition_of(disks.cluster, "orders").leader == 2

        disks.cluster.replicate()
        report = disks.cluster.run_controller()

        assert report.leaders_moved == 1
        assert partition_of(disks.cluster, "orders").leader == 1
        assert disks.cluster.history("orders", 0)[-1].cause == (
            "preferred leaders: broker 1 lacks 100 % of its leaderships"
            " (leader.imbalance.per.broker.percentage=10)"
        )


def test_preferred_leaders_are_elected_once(disks, cluster):
    disks.take_away(1)
    cluster.run_controller()
    disks.give_back(1)
    cluster.run_controller()
    assert cluster.elect_leaders("preferred", [("orders", 0)]) == []  # not in sync yet
    cluster.replicate()

    assert cluster.elect_leaders("preferred", [("orders", 0)]) == [("orders", 0)]
    assert cluster.elect_leaders("preferred", [("orders", 0)]) == []


def test_the_history_names_every_cause(disks, cluster):
    disks.take_away(1)
    cluster.run_controller()
    cluster.append("orders", records(b"b"))
    disks.give_back(1)
    cluster.run_controller()
    cluster.replicate()
    cluster.elect_leaders("preferred")

    # fmt: off
    lives = [
        (1, 0, (1, 2, 3), "topic created by request"),
        (1, 0, (1, 2, 3), "replicas made on brokers 1, 2, 3"),
        (2, 1, (2, 3),    "broker 1: probe failed "),
        (2, 1, (1, 2, 3), "broker 1: caught up at offset 2 in epoch 1"),
        (1, 2, (1, 2, 3), "preferred leaders by request"),
    ]
    # fmt: on
    history = cluster.history("orders", 0)
    assert [(each.leader, each.leader_epoch, each.isr) for each in history] == [
        life[:3] for life in lives
    ]
    for entry, life in zip(history, lives, strict=True):
        assert entry.cause.startswith(life[3])
    assert [each.partition_epoch for each in history] == [0, 1, 2, 3, 4]
    assert [each.time for each in history] == sorted(each.time for each in history)
    assert cluster.history("orders") == history


def test_uncommitted_records_of_a_deposed_leader_are_cut_when_it_returns(disks, cluster):
    # acks=1 while the followers' disks are away: the leader alone has them.
    disks.take_away(2, 3)
    cluster.append("orders", records(b"lost", b"lost too"), acks=1)
    disks.take_away(1)
    disks.give_back(2, 3)
    cluster.run_controller()
    cluster.append("orders", records(b"kept"))
    disks.give_back(1)
    assert disks.values_on(1, "orders") == [b"a", b"lost", b"lost too"]

    cluster.run_controller()
    report = cluster.replicate()

    assert (report.truncated_records, report.copied_records) == (2, 1)
    assert [disks.values_on(each, "orders") for each in (1, 2, 3)] == [[b"a", b"kept"]] * 3
    assert values_of(cluster, "orders") == [b"a", b"kept"]
    assert isr_of(cluster, "orders") == [1, 2, 3]


def test_a_log_that_was_deposed_twice_is_cut_to_what_it_shares_with_the_newest_leader(
    disks, cluster
):
    # KIP-279: one question for the end of its epoch is not enough after two fast failovers.
    disks.take_away(2, 3)
    cluster.append("orders", records(b"of 1, lost"), acks=1)
    disks.take_away(1)
    disks.give_back(2)
    cluster.run_controller()
    cluster.append("orders", records(b"of 2, lost"), acks=1)
    disks.take_away(2)
    disks.give_back(3)
    cluster.run_controller()
    # Not in sync, but it left when the high watermark stood still: an eligible leader (KIP-966).
    assert partition_of(cluster, "orders").leader == 3
    cluster.append("orders", records(b"of 3"), acks=1)
    disks.give_back(1, 2)
    cluster.run_controller()
    cluster.replicate()  # the ISR grows to its minimum
    cluster.replicate()  # and commits what it has

    held = [disks.values_on(each, "orders") for each in (1, 2, 3)]
    assert held == [[b"a", b"of 3"]] * 3
    assert values_of(cluster, "orders") == [b"a", b"of 3"]
    assert isr_of(cluster, "orders") == [1, 2, 3]


@pytest.mark.smoke
def test_when_every_disk_is_away_the_last_in_sync_one_leads_again_when_it_returns(disks, cluster):
    disks.take_away(2, 3)
    cluster.run_controller()
    disks.take_away(1)
    cluster.run_controller()
    assert (partition_of(cluster, "orders").leader, isr_of(cluster, "orders")) == (None, [1])

    disks.give_back(1)
    cluster.run_controller()

    assert partition_of(cluster, "orders").leader == 1
    assert values_of(cluster, "orders") == [b"a"]


def test_a_read_is_served_by_another_replica_before_the_controller_has_noticed(disks, cluster):
    disks.take_away(1)

    assert values_of(cluster, "orders") == [b"a"]
    assert values_of(disks.open(), "orders") == [b"a"]

    disks.take_away(2, 3)
    with pytest.raises(KafkaStorageError, match="can't be read from any replica: broker 1: "):
        values_of(cluster, "orders")


def test_a_follower_whose_disk_was_away_for_an_append_keeps_its_replica(disks, cluster):
    # There is no meta.properties on the root, so the broker is absent and its replica not bad.
    folder = disks.folder(3, "orders")
    disks.take_away(3)
    with pytest.raises(RequestTimedOutError):
        cluster.append("orders", records(b"b"), timeout_ms=100)
    cluster.run_controller()
    disks.give_back(3)
    cluster.run_controller()

    report = cluster.replicate()

    assert report.copied_records == 1
    assert disks.folder(3, "orders") == folder
    assert cluster.image.brokers[3].state is BrokerState.ACTIVE


def test_controllers_of_two_processes_wait_for_each_other(disks, cluster):
    other = disks.open()
    reports = []
    threads = [
        threading.Thread(target=lambda each=each: reports.append(each.run_controller()))
        for each in (cluster, other)
    ]

    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert [report.passes for report in reports] == [1, 1]
    assert cluster.image.controller.controller_id is None
