"""Stop and delete: which tables are gone from the disks after a pass, and which never are."""

import shutil
import threading

import pytest

from kafka_on_spark.controller.commands import lease
from kafka_on_spark.errors import NotControllerError
from tests.cluster.disks import new_disks, partition_of, records, values_of
from tests.cluster.replicas.test_cluster_failover import REPLICAS


@pytest.fixture
def disks():
    with new_disks(brokers=4, configs={"file.delete.delay.ms": 0}) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic("orders", replica_assignment=REPLICAS)
    disks.cluster.append("orders", records(b"a"))
    return disks.cluster


def tables(disks, *broker_ids):
    """Return the folders of replicas on brokers' disks."""
    brokers = broker_ids or (1, 2, 3, 4)
    return {folder for each in brokers for folder in disks.root(each).glob("*-*/*-*")}


def move(cluster, *target):
    """Move the topic's only partition, all the way."""
    cluster.reassign({("orders", 0): list(target)})
    for _ in range(2):
        cluster.replicate()
        cluster.run_controller()
    assert cluster.reassignments() == []


def assert_sound(disks):
    """Check everything that is on the disks, as a process that has just come would see it."""
    report = disks.open().fsck()
    assert (report.findings, report.orphans) == ((), ())


def test_tables_of_a_deleted_topic_are_removed_by_the_next_pass(disks, cluster):
    cluster.create_topic("kept", replica_assignment=REPLICAS)
    cluster.append("kept", records(b"k"))
    kept = {disks.folder(each, "kept") for each in (1, 2, 3)}
    cluster.run_controller()

    cluster.delete_topic("orders")
    report = cluster.run_controller()

    assert report.tables_removed == 3
    assert tables(disks) == kept
    assert not list(disks.root(1).glob("orders-*"))
    assert values_of(cluster, "kept") == [b"k"]
    assert_sound(disks)


def test_two_topics_with_names_as_long_as_may_be_have_folders_of_their_own(disks):
    cluster, names = disks.cluster, ["a" * 249, "a" * 248 + "b"]
    for each in names:
        cluster.create_topic(each, replica_assignment=REPLICAS)
        cluster.append(each, records(each[-1].encode()))
    assert [values_of(cluster, each) for each in names] == [[b"a"], [b"b"]]
    assert_sound(disks)

    cluster.delete_topic(names[0])
    assert cluster.run_controller().tables_removed == 3
    assert (len(tables(disks)), values_of(cluster, names[1])) == (3, [b"b"])
    assert_sound(disks)


def test_what_a_process_that_died_did_not_remove_the_next_controller_does(disks, cluster):
    cluster.delete_topic("orders")

    report = disks.open().run_controller()

    assert report.tables_removed == 3
    assert tables(disks) == set()
    assert_sound(disks)


def test_a_namesake_is_never_touched(disks, cluster):
    old = tables(disks)
    cluster.delete_topic("orders")
    cluster.create_topic("orders", replica_assignment=REPLICAS)
    cluster.append("orders", records(b"new"))

    assert cluster.run_controller().tables_removed == 3

    assert tables(disks) == {disks.folder(each, "orders") for each in (1, 2, 3)}
    assert tables(disks).isdisjoint(old)
    assert values_of(cluster, "orders") == [b"new"]
    assert_sound(disks)


def test_a_topic_deleted_and_made_again_while_a_broker_is_away_loses_its_old_table_there_at_last(
    disks, cluster
):
    old = disks.folder(3, "orders")
    disks.take_away(3)
    cluster.run_controller()
    cluster.delete_topic("orders")
    cluster.create_topic("orders", replica_assignment={0: [1, 3]})
    cluster.append("orders", records(b"new"))
    assert cluster.run_controller().tables_removed == 2

    disks.give_back(3)
    assert old.is_dir()
    report = cluster.run_controller()
    cluster.replicate()

    assert (report.unfenced, report.tables_removed) == ((3,), 1)
    assert tables(disks) == {disks.folder(each, "orders") for each in (1, 3)}
    assert disks.values_on(3, "orders") == [b"new"]
    assert_sound(disks)


def test_tables_of_removed_partitions_are_removed(disks, cluster):
    cluster.add_partitions("orders", to=3)
    for _ in range(4):
        cluster.append("orders", [(bytes([number]), b"x") for number in range(64)])
    kept = {disks.folder(each, "orders") for each in (1, 2, 3)}
    cluster.remove_partitions("orders", to=1, records="drop")

    assert cluster.run_controller().tables_removed == 6

    assert tables(disks) == kept
    assert_sound(disks)


def test_partitions_that_are_added_again_are_sound(disks, cluster):
    """Their leader epochs begin anew, and their leaders are other replicas."""
    many = [(bytes([number]), b"x") for number in range(64)]
    cluster.add_partitions("orders", to=3)
    cluster.append("orders", many)
    cluster.remove_partitions("orders", to=1, records="drop")
    cluster.run_controller()

    cluster.add_partitions("orders", to=3)
    cluster.append("orders", many)

    assert_sound(disks)


def test_replicas_moved_away_are_removed_after_the_last_row_and_not_before(disks, cluster):
    old = disks.folder(1, "orders")
    cluster.run_controller()
    cluster.reassign({("orders", 0): [4, 2, 3]})
    cluster.replicate()
    assert cluster.reassignments()[0].waits_for == ()
    assert old.is_dir()

    report = cluster.run_controller()

    assert (report.tables_removed, old.exists()) == (1, False)
    assert partition_of(cluster, "orders").replicas == (4, 2, 3)
    assert values_of(cluster, "orders") == [b"a"]
    assert_sound(disks)


def test_a_cancelled_reassignment_leaves_nothing_of_the_replicas_that_came(disks, cluster):
    kept = tables(disks)
    cluster.reassign({("orders", 0): [4, 2, 3]})
    cluster.replicate()
    assert len(tables(disks)) == 4
    cluster.cancel_reassignment()

    assert cluster.run_controller().tables_removed == 1

    assert tables(disks) == kept
    assert_sound(disks)


def test_a_replica_that_comes_back_to_where_it_was_is_another_one(disks, cluster):
    old = disks.folder(1, "orders")
    move(cluster, 4, 2, 3)
    move(cluster, 1, 2, 3)

    assert disks.folder(1, "orders").name != old.name
    assert tables(disks) == {disks.folder(each, "orders") for each in (1, 2, 3)}
    assert_sound(disks)


def test_readers_have_the_delay_to_end_what_they_read(disks, cluster):
    cluster.alter_topic_configs("orders", {"file.delete.delay.ms": 3_600_000})
    old = disks.folder(1, "orders")
    move(cluster, 4, 2, 3)
    assert old.is_dir()
    cluster.alter_topic_configs("orders", {"file.delete.delay.ms": 0})

    disks.open().run_controller()

    assert not old.exists()


def test_what_the_log_has_never_heard_of_is_left_alone(disks, cluster):
    unknown = disks.root(1) / f"{disks.folder(1, 'orders').parent.name}/0-{'f' * 32}"
    shutil.copytree(disks.folder(1, "orders"), unknown)
    foreign = disks.root(2) / f"other-{'e' * 32}/0-{'d' * 32}"
    foreign.mkdir(parents=True)
    (disks.root(3) / "notes").mkdir()

    assert cluster.run_controller().tables_removed == 0
    assert disks.open().run_controller().tables_removed == 0

    assert unknown.is_dir()
    assert foreign.is_dir()
    assert (disks.root(3) / "notes").is_dir()


def test_a_lost_replica_keeps_its_table_while_it_may_be_the_only_one_with_its_records(
    disks, cluster
):
    cluster.create_topic("single", replica_assignment={0: [4]})
    cluster.append("single", records(b"only"))
    folder = disks.folder(4, "single")
    disks.take_away(4)
    cluster.run_controller()
    disks.root(4).mkdir()
    cluster.register_broker(4, disks.root(4))
    shutil.copytree(disks.base / "away-4" / folder.relative_to(disks.root(4)), folder)

    report = disks.open().run_controller()

    assert report.tables_removed == 0
    assert cluster.image.brokers[4].is_online
    assert partition_of(cluster, "single").leader is None
    assert folder.is_dir()


def test_a_table_behind_a_link_is_not_followed(disks, cluster):
    topic_folder = disks.folder(1, "orders").parent
    elsewhere = disks.base / "elsewhere"
    topic_folder.rename(elsewhere)
    topic_folder.symlink_to(elsewhere)
    cluster.delete_topic("orders")

    assert cluster.run_controller().tables_removed == 2

    assert len(list(elsewhere.iterdir())) == 1


def test_a_deposed_controller_removes_nothing(disks, cluster):
    """It finds the tables, and between that and their removal another one takes over."""
    cluster.delete_topic("orders")
    zombie, rival = disks.open(), disks.open()
    services = zombie._services
    loop = services.keeping.controller_loop()
    listed = services.keeping.cleaner._run_lists

    def list_slowly(orders):
        found = listed(orders)
        image = rival.image
        rival._metadata.submit(
            lambda newest: lease.claim(newest, "rival", "the other is slow", seen=image.controller),
            timeout_ms=1000,
        )
        return found

    services.keeping.cleaner._run_lists = list_slowly

    with pytest.raises(NotControllerError):
        loop.run(None)

    assert len(tables(disks)) == 3


def test_readers_and_writers_go_on_while_replicas_move_and_their_tables_go(disks, cluster):
    """With no delay at all: who reads a table that goes finds its records with another replica."""
    seen, errors, over = [], [], threading.Event()

    def read():
        reader = disks.open()
        while not over.is_set():
            try:
                seen.append(values_of(reader, "orders"))
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    expected = [b"a"]
    for number, target in enumerate([(4, 2, 3), (4, 1, 3), (1, 4, 2), (2, 3, 1)]):
        expected.append(b"%d" % number)
        cluster.append("orders", records(expected[-1]))
        move(cluster, *target)
    over.set()
    thread.join()

    assert errors == []
    assert all(each == expected[: len(each)] for each in seen)
    assert values_of(cluster, "orders") == expected
    assert tables(disks) == {disks.folder(each, "orders") for each in (1, 2, 3)}
    assert_sound(disks)
