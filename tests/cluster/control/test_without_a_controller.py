"""Nobody controls the cluster: an append decides for what it waits for, and harms nobody else."""

import json
import os
import re
import shutil
import signal
import threading
import time
from functools import partial
from typing import ClassVar

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.errors import InvalidConfigError, RequestTimedOutError
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.spark.run import tasks
from kafka_on_spark.storage.calls.deadlines import within
from tests.cluster.control.alone import appends
from tests.cluster.disks import isr_of, new_disks, partition_of, records, values_of
from tests.cluster.scripts import Started

NOBODY = 65534
SESSION_S = 4.0
BEGUN_S = 0.5
"""By then a process has begun to wait, as a rule."""

SESSION = {"broker.session.timeout.ms": str(int(SESSION_S * 1000))}
SHORT_SESSION_S = 0.9
"""Not so short that a busy machine misses a third of it."""

FOR_EVER_MS = 3_600_000
"""A session that ends in no test, however long a test's process or machine stands still."""


@pytest.fixture
def disks():
    """A cluster of short sessions, whose appends have the time that a busy machine needs."""
    session_ms = int(SHORT_SESSION_S * 1000)
    configs = {
        "broker.session.timeout.ms": session_ms,
        "delivery.timeout.ms": 240_000,
        "replica.lag.time.max.ms": 600_000,  # who is away leaves an ISR by a decision alone
    }
    with new_disks(configs=configs) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    """Two topics of two partitions: brokers 1 and 2 lead one of each."""
    return _prepared(disks)


def _prepared(disks):
    cluster = disks.cluster
    for name in ("orders", "others"):
        cluster.create_topic(
            name,
            replica_assignment={0: [1, 2, 3], 1: [2, 3, 1]},
            configs={"min.insync.replicas": 2},
        )
        cluster.append(name, [{"value": b"a", "partition": each} for each in (0, 1)])
    return cluster


def to_partition(number, value=b"b"):
    return [{"value": value, "partition": number}]


def states(cluster):
    return {each.state for each in cluster.image.brokers.values()}


def refused_in_time(words, append, *, timeout_ms):
    """Have `append` wait in vain until it says why, in these words.

    What it says rests on probes over a whole session. A process that stands still meanwhile has
    made too few when its time is up, and is given more.
    """
    for patience_ms in (timeout_ms, 4 * timeout_ms, 16 * timeout_ms):
        with pytest.raises(RequestTimedOutError) as caught:
            append(patience_ms)
        if re.search(words, str(caught.value)):
            return
    raise AssertionError(f"it says {caught.value}, and not {words}")


@pytest.mark.parametrize("broker_id, leader", [(1, 2), (3, 1)], ids=["leader", "follower"])
def test_an_append_goes_on_without_a_disk_that_is_gone(disks, cluster, broker_id, leader):
    disks.take_away(broker_id)

    result = cluster.append("orders", to_partition(0))

    assert result.partitions[0].base_offset == 1
    assert partition_of(cluster, "orders").leader == leader
    assert broker_id not in isr_of(cluster, "orders")
    assert not disks.root(broker_id).exists()


def test_only_what_is_waited_for_moves_and_no_broker_is_fenced(disks, cluster):
    disks.take_away(1)

    cluster.append("orders", to_partition(0))

    assert isr_of(cluster, "orders", 0) == [2, 3]
    untouched = [("orders", 1), ("others", 0), ("others", 1)]
    assert all(isr_of(cluster, *each) == [1, 2, 3] for each in untouched)
    assert states(cluster) == {BrokerState.ACTIVE}
    assert cluster.image.controller.controller_id is None


def test_an_append_decides_for_all_its_partitions_in_one_commit(disks, cluster):
    disks.take_away(1)

    cluster.append("orders", [*to_partition(0), *to_partition(1)])

    entries = [each for each in cluster.history("orders") if "nobody controls" in each.cause]
    assert [each.partition for each in entries] == [0, 1]
    assert entries[1].metadata_offset - entries[0].metadata_offset == 1
    assert f"process {os.getpid()} on " in entries[0].cause


def test_a_broker_that_comes_back_is_in_sync_again_by_replication_alone(disks, cluster):
    disks.take_away(1)
    cluster.append("orders", to_partition(0))
    disks.give_back(1)

    cluster.replicate()

    assert isr_of(cluster, "orders") == [1, 2, 3]
    assert disks.values_on(1, "orders") == [b"a", b"b"]


def test_a_topic_that_is_made_while_a_disk_is_gone_can_be_appended_to(disks, cluster):
    disks.take_away(1)
    cluster.create_topic("late", replica_assignment={0: [1, 2, 3]})

    cluster.append("late", records(b"b"))

    assert (isr_of(cluster, "late"), values_of(cluster, "late")) == ([2, 3], [b"b"])
    assert not disks.root(1).exists()


class HangingStore:
    """A store of replicas of which those on one root hang, as on a mount that is dead."""

    def __init__(self, store, root, event):
        self._store, self._root, self._event = store, root, event

    def open(self, address):
        if address.root == self._root:
            within(self._root, self._event.wait, 1.0)
        return self._store.open(address)


def test_a_root_that_hangs_is_no_other_than_one_that_fails(disks, cluster, monkeypatch):
    root, event, probe = str(disks.root(1)), threading.Event(), tasks.probe_root

    def probe_or_hang(probed, *rest):
        if probed == root:
            event.wait()
        probe(probed, *rest)

    monkeypatch.setattr(tasks, "probe_root", probe_or_hang)
    appender = cluster._services.appends._appender
    monkeypatch.setattr(appender, "_replicas", HangingStore(appender._replicas, root, event))

    cluster.append("orders", to_partition(0))
    event.set()

    assert partition_of(cluster, "orders").leader == 2


def test_a_lost_replica_that_is_whole_is_taken_back_by_the_append_that_needs_it(disks):
    """Nobody else has its records; an append of another process is the first to see it."""
    disks.cluster.create_topic("alone", replica_assignment={0: [1]})
    disks.cluster.append("alone", records(b"a"))
    disks.cluster.lose_replica("alone", 0, 1)
    assert partition_of(disks.cluster, "alone").leader is None

    disks.cluster.append("alone", records(b"b"))

    assert values_of(disks.cluster, "alone") == [b"a", b"b"]


def test_a_fenced_last_member_that_answers_again_leads_by_the_append_that_waits_for_it(disks):
    disks.cluster.create_topic("alone", replica_assignment={0: [1]})
    disks.cluster.append("alone", records(b"a"))
    disks.take_away(1)
    disks.cluster.run_controller()
    disks.give_back(1)
    assert partition_of(disks.cluster, "alone").leader is None

    disks.cluster.append("alone", records(b"b"))

    assert values_of(disks.cluster, "alone") == [b"a", b"b"]
    assert states(disks.cluster) == {BrokerState.ACTIVE}


def test_an_append_whose_last_replica_is_lost_says_what_can_be_done(disks):
    disks.cluster.create_topic("alone", replica_assignment={0: [1]})
    disks.cluster.append("alone", records(b"a"))
    shutil.rmtree(disks.folder(1, "alone"))

    refused_in_time(
        "on broker 1, is lost: give its disk back",
        lambda patience_ms: disks.cluster.append("alone", records(b"b"), timeout_ms=patience_ms),
        timeout_ms=8000,
    )


def test_nothing_is_decided_where_too_few_would_be_left(disks, cluster):
    disks.take_away(1, 3)

    # Of two that fail, each is the one that is left until both are silent at once.
    refused_in_time(
        r"1 left, and min\.insync\.replicas asks for 2|left in the ISR, do not answer",
        lambda patience_ms: cluster.append("orders", to_partition(0), timeout_ms=patience_ms),
        timeout_ms=6000,
    )

    assert isr_of(cluster, "orders") == [1, 2, 3]


@pytest.mark.parametrize("is_of_call", [True, False], ids=["call", "cluster"])
def test_the_cluster_or_the_call_may_forbid_it(disks, cluster, is_of_call):
    off = {"auto.controller": False}
    if not is_of_call:
        cluster.alter_cluster_configs(off)
    disks.take_away(1)

    refused_in_time(
        r"auto\.controller=false.*: run a controller",
        lambda patience_ms: cluster.append(
            "orders",
            to_partition(0),
            timeout_ms=patience_ms,
            configs=off if is_of_call else None,
        ),
        timeout_ms=5000,
    )

    assert isr_of(cluster, "orders") == [1, 2, 3]


def test_a_call_can_only_switch_it_off(cluster):
    with pytest.raises(InvalidConfigError, match="only off"):
        cluster.append("orders", to_partition(0), configs={"auto.controller": True})
    with pytest.raises(InvalidConfigError, match=r"takes 'auto\.controller' alone"):
        cluster.append("orders", to_partition(0), configs={"min.insync.replicas": 1})


@pytest.mark.parametrize("what", ["read", "as_of"])
def test_a_process_that_does_not_append_decides_nothing(disks, cluster, what):
    disks.take_away(1)
    before = cluster.image.offset

    if what == "read":
        assert values_of(cluster, "orders") == [b"a", b"a"]
    else:
        with Cluster.open(disks.metadata_root, as_of=before) as past:
            assert values_of(past, "orders") == [b"a", b"a"]

    assert cluster.image.offset == before


class Process:
    """A process, or several, of tests/cluster/control/alone.py.

    Attributes:
        running: Those of the test that runs.
    """

    running: ClassVar[list["Process"]] = []

    def __init__(self, disks, topic, count=1, times=1, **options):
        body = partial(appends, str(disks.metadata_root), topic, count, times, **options)
        self._started = Started(body)
        self.running.append(self)

    def wait_for(self, word):
        assert self._started.stdout.readline() == f"{word}\n"

    def signal(self, number):
        os.killpg(self._started.process.pid, number)

    def answers(self):
        lines = self._started.rest(240).splitlines()
        return [json.loads(each) for each in lines if each.startswith("{")]

    def end(self):
        self._started.end()
        self._started.stdout.close()


@pytest.fixture(autouse=True)
def no_process_outlives_its_test():
    """One that is stopped for ever would be waited for when this process ends."""
    yield
    while Process.running:
        Process.running.pop().end()


@pytest.fixture
def slow_disks():
    """A cluster whose sessions are long enough to do something within one."""
    configs = {**SESSION, "delivery.timeout.ms": "120000", "replica.lag.time.max.ms": "600000"}
    with new_disks(configs=configs) as disks:
        _prepared(disks)
        yield disks


def test_a_process_that_is_killed_while_it_waits_leaves_nothing_behind(disks, cluster):
    cluster.alter_cluster_configs({"broker.session.timeout.ms": FOR_EVER_MS})
    before = cluster.history("orders"), cluster.image.controller
    disks.take_away(1)
    process = Process(disks, "orders")
    process.wait_for("open")
    time.sleep(BEGUN_S)
    process.signal(signal.SIGKILL)
    process.answers()
    # That a leader's log has grown may be told by then; decided is nothing.
    assert (cluster.history("orders"), cluster.image.controller) == before

    cluster.alter_cluster_configs({"broker.session.timeout.ms": int(SHORT_SESSION_S * 1000)})
    cluster.append("orders", [*to_partition(0), *to_partition(1)])

    assert isr_of(cluster, "orders") == [2, 3]


def test_a_process_that_was_stopped_while_it_probed_harms_nobody(disks, cluster):
    """The disk was away while it looked, and is back before it goes on.

    It stops itself, at its second probe that fails: the test may be too late to do so.
    """
    disks.take_away(1)
    process = Process(disks, "orders", stop_at_failure=2)
    process.wait_for("open")
    process.wait_for("stops")
    disks.give_back(1)
    time.sleep(SHORT_SESSION_S + 1)
    process.signal(signal.SIGCONT)

    [answer] = process.answers()

    assert (answer["appended"], answer["error"]) == (1, None)
    assert {number: isr_of(cluster, "orders", number) for number in (0, 1)} == {
        0: [1, 2, 3],
        1: [1, 2, 3],
    }
    assert not [each for each in cluster.history("orders") if "nobody controls" in each.cause]


@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.long)])
def test_many_processes_at_once_make_one_decision(slow_disks, count):
    disks, cluster = slow_disks, slow_disks.cluster
    disks.take_away(1)

    answers = Process(disks, "orders", count).answers()

    assert [each["error"] for each in answers] == [None] * count
    decided = [each for each in cluster.history("orders") if "nobody controls" in each.cause]
    assert len({each.partition for each in decided}) == len(decided)
    values = values_of(cluster, "orders")
    assert len(values) == len(set(values)) + 1 == count + 2  # both partitions began with b"a"
    assert isr_of(cluster, "others") == [1, 2, 3]
    assert states(cluster) == {BrokerState.ACTIVE}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("does_control", [False, True], ids=["append", "controller"])
def test_a_process_that_may_only_read_the_brokers_judges_none(slow_disks, does_control):
    """It does not wait for a session to pass either: that is longer than the test waits for it."""
    disks, cluster = slow_disks, slow_disks.cluster
    cluster.alter_cluster_configs({"broker.session.timeout.ms": 600_000})
    os.chmod(disks.base, 0o755)
    for folder, _, files in os.walk(disks.base):
        is_metadata = folder.startswith(str(disks.metadata_root))
        os.chmod(folder, 0o777 if is_metadata else 0o755)
        for each in files:
            os.chmod(f"{folder}/{each}", 0o666 if is_metadata else 0o644)

    [answer] = Process(disks, "orders", uid=NOBODY, does_control=does_control).answers()

    assert answer["error"].startswith("RootAccessDeniedError: ")
    assert states(cluster) == {BrokerState.ACTIVE}
    leaders = {number: partition_of(cluster, "orders", number).leader for number in (0, 1)}
    assert leaders == {0: 1, 1: 2}
