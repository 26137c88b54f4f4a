"""A copy of a cluster becomes a cluster of its own by `Cluster.fork`: neither works on the other's disks."""

import os
import shutil

import pytest

from kafka_on_spark import Cluster, Record
from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import InvalidRequestError, InvalidRootError
from kafka_on_spark.controller import fork as forking
from tests.cluster.disks import FAST, files_below, isr_of, records, values_of
from tests.cluster.quorum.forks import (
    BROKERS,
    brokers_of,
    check_each_kill,
    check_forked,
    copied_under_load,
    copy,
    copy_live,
    create,
    hold,
    later_brokers,
    logs_of,
    newest_segment,
    roots_of,
    settle,
    table_of,
)


@pytest.fixture(autouse=True)
def _one_race_a_device(monkeypatch):
    monkeypatch.setattr(forking, "check_conditional_puts", lambda root, options: None)


@pytest.fixture
def prod(folder):
    """A cluster of three brokers and one metadata root, closed."""
    with create(folder / "prod") as cluster:
        settle(cluster)
    return folder / "prod"


LONG = pytest.mark.long
OF_VOTERS = [(1, 1), (3, 3), pytest.param(1, 3, marks=LONG), pytest.param(3, 1, marks=LONG)]


@pytest.mark.parametrize("before, after", OF_VOTERS)
def test_a_copy_becomes_a_cluster_that_never_meets_the_original(folder, caplog, before, after):
    with create(folder / "prod", before) as cluster:
        settle(cluster)
    trial = copy(folder / "prod", folder / "trial")

    caplog.clear()
    report = Cluster.fork(roots_of(trial, after), brokers_of(trial))

    assert "leads the metadata quorum" not in caplog.text
    assert (report.unregistered, report.not_whole, report.lost) == ((), (), ())
    untouched = files_below(folder / "prod")
    with Cluster.open(roots_of(trial, after)) as forked:
        assert forked.image.cluster_id == report.cluster_id
        assert logs_of(forked) == ((b"1", b"2", b"3"), (1, 2, 3), 3)
        forked.append("orders", records(b"of the copy"))
        forked.replicate()
        assert forked.fsck().findings == ()
        forked.delete_topic("orders")
        forked.run_controller()
        settle(forked)
    assert files_below(folder / "prod") == untouched
    with Cluster.open(roots_of(folder / "prod", before)) as original:
        original.append("orders", records(b"4"))
        assert values_of(original, "orders") == [b"1", b"2", b"3", b"4"]
        assert original.fsck().findings == ()


def link(place, target):
    place.symlink_to(target)
    return place


REFUSED = {
    "the original": (lambda base, trial: (base, brokers_of(base)), "that is the original"),
    "an original's broker, by a link": (
        lambda base, trial: (trial, {1: link(trial / "link", base / "1")}),
        "that is the original",
    ),
    "two copies of one broker": (
        lambda base, trial: (trial, {1: trial / "1", 2: copy(trial / "1", trial / "again")}),
        "not a copy of broker 2's root of cluster",
    ),
    "another cluster's broker": (
        lambda base, trial: (trial, {1: other_brokers(base.parent)}),
        "not a copy of broker 1's root of cluster",
    ),
    "an empty folder": (
        lambda base, trial: (trial, {1: base.parent / "new"}),
        "not a copy of broker 1's",
    ),
    "no copied metadata": (
        lambda base, trial: (trial / "x", {1: trial / "1"}),
        "no metadata log to fork",
    ),
}


def other_brokers(folder):
    Cluster.create(folder / "other" / "m1", {1: folder / "other" / "1"}).close()
    return folder / "other" / "1"


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_copy_of_this_cluster_is_refused_and_nothing_is_written(folder, prod, name):
    trial = copy(prod, folder / "trial")
    give, sentence = REFUSED[name]
    base, brokers = give(prod, trial)
    before = files_below(folder)

    with pytest.raises(InvalidRootError, match=sentence):
        Cluster.fork(base / "m1", brokers)

    assert files_below(folder) == before


def test_a_fork_is_not_forked_again_under_its_own_roots_and_its_copy_may_be(folder, prod):
    trial = copy(prod, folder / "trial")
    Cluster.fork(trial / "m1", brokers_of(trial))
    with pytest.raises(InvalidRootError, match="a cluster of its own already"):
        Cluster.fork(trial / "m1", brokers_of(trial))
    mixed = copy(prod, folder / "mixed")
    with pytest.raises(InvalidRootError, match="not a copy of broker 1's"):
        Cluster.fork(mixed / "m1", brokers_of(trial))

    again = copy(trial, folder / "again")
    Cluster.fork(again / "m1", brokers_of(again))

    with Cluster.open(again / "m1") as forked:
        assert logs_of(forked) == ((b"1", b"2", b"3"), (1, 2, 3), 3)
        assert forked.fsck().findings == ()


def test_of_two_forks_of_one_copy_at_a_time_one_goes_on(folder, prod, monkeypatch):
    trial = copy(prod, folder / "trial")
    create_root, first = forking.create_root, []

    def after_another_fork(root):
        if not first:
            first.append(None)
            first[0] = Cluster.fork(trial / "m1", brokers_of(trial))
        create_root(root)

    monkeypatch.setattr(forking, "create_root", after_another_fork)
    with pytest.raises(InvalidRequestError, match="another fork"):
        Cluster.fork(trial / "m1", brokers_of(trial))

    with Cluster.open(trial / "m1") as forked:
        assert forked.image.cluster_id == first[0].cluster_id
        assert logs_of(forked) == ((b"1", b"2", b"3"), (1, 2, 3), 3)


def test_a_replica_that_a_reassignment_adds_has_what_others_lack(folder):
    with create(folder / "prod") as cluster:
        cluster.create_topic("moved", replica_assignment={0: [1]})
        cluster.append("moved", records(b"a"))
        os.rename(folder / "prod" / "3", folder / "away")
        cluster.reassign({("moved", 0): [2, 3]})
        cluster.replicate()
        os.rename(folder / "away", folder / "prod" / "3")
        settle(cluster)
    trial = copy(folder / "prod", folder / "trial")
    [table] = (trial / "1").glob("moved-*")
    shutil.rmtree(table)

    report = Cluster.fork(trial / "m1", brokers_of(trial))

    assert report.lost == ()
    with Cluster.open(trial / "m1") as forked:
        assert values_of(forked, "moved") == [b"a"]


def test_a_dry_run_says_what_would_become_of_a_copy_and_writes_nothing(folder, prod):
    trial = copy(prod, folder / "trial")
    before = files_below(folder)

    report = Cluster.fork(trial / "m1", brokers_of(trial, (1, 2)), is_dry_run=True)

    assert (report.cluster_id, report.unregistered, report.lost) == (None, (3,), ())
    assert files_below(folder) == before


def test_brokers_without_a_copy_are_unregistered_and_what_only_they_had_needs_a_yes(folder):
    with create(folder / "prod") as cluster:
        cluster.create_topic("alone", replica_assignment={0: [3]})
        cluster.append("alone", records(b"a", b"b"))
        settle(cluster)
    trial = copy(folder / "prod", folder / "trial")
    given = (trial / "m1", brokers_of(trial, (1, 2)))
    before = files_below(folder)

    with pytest.raises(InvalidRequestError, match=r"alone-0: .* offsets 0 to 1 are lost"):
        Cluster.fork(*given)
    assert files_below(folder) == before
    report = Cluster.fork(*given, accepts_losses=True)

    assert report.unregistered == (3,)
    with Cluster.open(trial / "m1") as forked:
        assert logs_of(forked) == ((b"1", b"2", b"3"), (1, 2), 3)
        forked.append("alone", records(b"c"))
        assert values_of(forked, "alone") == [b"c"]
        assert forked.fsck().findings == ()


def shorten(base, broker_id):
    """Have a broker's copy be of before the last append."""
    log = table_of(base, broker_id) / "_delta_log"
    newest = sorted(log.glob("*.json"))
    while newest and b'"add"' not in newest[-1].read_bytes():
        newest.pop().unlink()
    newest.pop().unlink()


BROKEN = {
    "a log that is shorter than what is committed": (shorten, "does not prove to have"),
    "a missing file": (lambda base, b: newest_segment(table_of(base, b)).unlink(), "is missing or"),
    "a file that is cut short": (
        lambda base, b: os.truncate(newest_segment(table_of(base, b)), 100),
        "is missing or cut short",
    ),
    "a missing table": (lambda base, b: shutil.rmtree(table_of(base, b)), "there is no table"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_replica_that_is_not_whole_leaves_the_isr_and_is_made_whole_from_others(
    folder, prod, name
):
    trial = copy(prod, folder / "trial")
    break_it, sentence = BROKEN[name]
    break_it(trial, 2)

    report = Cluster.fork(trial / "m1", brokers_of(trial))

    [said] = report.not_whole
    assert said.startswith("orders-0 on broker 2: ")
    assert sentence in said
    with Cluster.open(trial / "m1") as forked:
        assert logs_of(forked) == ((b"1", b"2", b"3"), (1, 3), 3)
        for _ in range(5):
            forked.run_controller()
            forked.replicate(is_sweep=True)
        assert isr_of(forked, "orders") == [1, 2, 3]


def test_what_no_copied_replica_has_is_lost_only_by_a_yes(folder, prod):
    trial = copy(prod, folder / "trial")
    for broker_id in BROKERS:
        shorten(trial, broker_id)

    with pytest.raises(InvalidRequestError, match="unclean election, offsets 2 to 2 are lost"):
        Cluster.fork(trial / "m1", brokers_of(trial))
    Cluster.fork(trial / "m1", brokers_of(trial), accepts_losses=True)

    with Cluster.open(trial / "m1") as forked:
        assert logs_of(forked) == ((b"1", b"2"), (1,), 2)
        forked.replicate()
        assert isr_of(forked, "orders") == [1, 2, 3]
        assert forked.fsck().findings == ()


def test_leaders_are_above_all_fences_of_logs_that_were_copied_later(folder):
    trial = later_brokers(folder)

    report = Cluster.fork(trial / "m1", brokers_of(trial))

    assert ["the log is cut there" in each for each in report.not_whole] == [True, True]
    with Cluster.open(trial / "m1") as forked:
        assert isr_of(forked, "orders") == [1, 2, 3]
        forked.append("orders", records(b"of the copy"))
        later = [b"later"] * 3
        assert values_of(forked, "orders") == [b"1", b"2", b"3", *later, b"last", b"of the copy"]
        forked.replicate()
        assert isr_of(forked, "orders") == [1, 2, 3]
        assert forked.fsck().findings == ()


def test_records_that_were_deleted_after_the_metadata_was_copied_stay_deleted(folder):
    trial = folder / "trial"
    with create(folder / "prod") as cluster:
        settle(cluster)
        copy(folder / "prod" / "m1", trial / "m1")
        cluster.delete_records({("orders", 0): 2})
        cluster.replicate(is_sweep=True)
        settle(cluster)
    for broker_id in BROKERS:
        copy(folder / "prod" / str(broker_id), trial / str(broker_id))

    assert Cluster.fork(trial / "m1", brokers_of(trial)).lost == ()

    with Cluster.open(trial / "m1") as forked:
        forked.append("orders", records(b"4"))
        assert values_of(forked, "orders") == [b"3", b"4"]


EACH_WRITE = [
    (1, 3, 12),
    pytest.param(1, 1, 1, marks=LONG),
    pytest.param(1, 3, 1, marks=LONG),
    pytest.param(3, 3, 1, marks=LONG),
]
"""Voters before and after, and one of how many writes it dies at."""


@pytest.mark.parametrize("before, after, step", EACH_WRITE)
def test_a_fork_that_is_killed_at_a_write_is_refused_until_it_is_called_again(
    folder, before, after, step
):
    check_each_kill(later_brokers(folder, before), folder, after, step)


def upkeep_of(cluster):
    """Have all upkeep done that may be done, in the ways that processes do it."""
    cluster.run_controller()
    cluster.maintain()
    cluster._node.metadata.maintain()


def test_nothing_is_deleted_merged_or_decided_while_deletes_are_held(folder):
    configs = {**FAST, "file.delete.delay.ms": "0", "retention.ms": "1"}
    with Cluster.create(folder / "m1", brokers_of(folder, (1,)), configs=configs) as cluster:
        cluster.create_topic("orders")
        for _ in range(12):
            cluster.append("orders", [Record(b"k", b"v", timestamp=1000)])
        cluster.create_topic("gone")
        cluster.append("gone", records(b"a"))
        cluster.delete_topic("gone")
        settle(cluster)
        hold(cluster, 60_000)
        before = files_below(folder)

        upkeep_of(cluster)
        settle(cluster)

        assert before.keys() <= files_below(folder).keys()
        assert cluster.offsets("orders")[0].log_start_offset == 0
        assert cluster.maintain().not_looked_at == ("all: deletes are held (delete.hold.until.ms)",)
        hold(cluster, 0)
        upkeep_of(cluster)
        assert cluster.offsets("orders")[0].log_start_offset == 12


@pytest.mark.parametrize(
    "until_ms, is_held", [(0, False), (1001, True), (1000, False), (10**9, False)]
)
def test_deletes_are_held_up_to_a_time_that_is_at_most_a_day_ahead(until_ms, is_held):
    assert Settings(({"delete.hold.until.ms": str(until_ms)},)).holds_deletes(1000) is is_held


def test_a_copy_that_was_made_under_load_has_all_that_was_acknowledged_before(folder):
    before = copied_under_load(folder / "prod", folder / "trial", copy_live)

    check_forked(folder / "trial", before)
