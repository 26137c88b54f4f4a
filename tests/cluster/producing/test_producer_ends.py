"""How a producer ends: close, the end of its cluster or process, a fork, a kill."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ClusterClosedError, ProducerClosedError, RequestTimedOutError
from kafka_on_spark.produce import append, sender
from kafka_on_spark.produce.sender import Sender
from tests.cluster.disks import values_of

ROOT = Path(__file__).parents[3]
WAIT_S = 600
"""For a process to end: on a busy machine it may take minutes to start."""

PATIENT = {"linger_ms": 60_000, "delivery_timeout_ms": 120_000}


@pytest.fixture
def uncollected():
    """Has no garbage collected: what nobody holds any more goes at once, or not in the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_close_sends_what_has_gathered_and_refuses_what_comes_later(cluster, topic):
    producer = cluster.producer(**PATIENT)
    futures = [producer.send(topic, None, b"v") for _ in range(20)]

    producer.close()

    assert [each.result(0).offset for each in futures] == list(range(20))
    with pytest.raises(ProducerClosedError, match="make another"):
        producer.send(topic, None, b"v")
    producer.close()
    producer.flush()


def test_an_interrupt_leaves_no_record_of_anybody_without_its_answer(cluster, topic, uncollected):
    """At any moment of a send: the thread that it meets may be taking in the record of another."""
    producer, dice = cluster.producer(linger_ms=5), random.Random(1)
    sent, ends, is_met = [], threading.Event(), threading.Event()
    producer.send(topic, None, b"mine").result(60)  # what the first one needs is done

    def send_on():
        while not ends.is_set():
            sent.append(producer.send(topic, None, b"other"))
            time.sleep(0.0005)

    def interrupt(*_):
        is_met.set()  # what it raises is lost in a finalizer
        raise KeyboardInterrupt

    other = threading.Thread(target=send_on)
    other.start()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(200):
            with suppress(KeyboardInterrupt):
                is_met.clear()
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0001, 0.003))
                while not is_met.is_set():
                    producer.send(topic, None, b"mine")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        ends.set()
        other.join()
    producer.flush(120_000)
    producer.close()

    assert all(each.done() and each.exception() is None for each in sent)
    assert values_of(cluster, topic).count(b"other") == len(sent)


def test_a_producer_that_closes_beneath_a_send_takes_its_record_whole_or_not(
    cluster, topic, monkeypatch
):
    producer, given = cluster.producer(**PATIENT), Sender._given

    def closes_meanwhile(sender, record, full_bytes):
        producer.close()
        return given(sender, record, full_bytes)

    monkeypatch.setattr(Sender, "_given", closes_meanwhile)
    with pytest.raises(ProducerClosedError, match="make another"):
        producer.send(topic, None, b"v")

    assert not producer._sender._inbox
    assert values_of(cluster, topic) == []


def test_close_with_a_timeout_tells_what_was_not_sent_and_what_is_unknown(
    cluster, topic, monkeypatch
):
    answer, begun, hold = append.answer_staged, threading.Event(), threading.Event()

    def slow(node, appends, take):
        begun.set()
        hold.wait(60)
        answer(node, appends, take)

    monkeypatch.setattr(sender, "answer_staged", slow)
    producer = cluster.producer(linger_ms=0)
    under_way = producer.send(topic, None, b"a")
    assert begun.wait(30)
    waiting = producer.send(topic, None, b"b")

    producer.close(timeout_ms=10)

    assert isinstance(under_way.exception(0), RequestTimedOutError)
    assert isinstance(waiting.exception(0), ProducerClosedError)
    producer.close()
    hold.set()
    for each in producer._sender._threads:
        each.join(60)
    assert values_of(cluster, topic) == [b"a"]  # the unknown one, unchanged


def test_a_send_that_waits_for_room_ends_with_the_producer(cluster, topic):
    hold, errors = threading.Event(), []
    producer = cluster.producer(linger_ms=0, buffer_memory=200)
    producer.send(topic, None, b"a" * 100, callback=lambda *_: hold.wait(60))

    def wait_for_room():
        try:
            producer.send(topic, None, b"b" * 100)
        except ProducerClosedError as caught:
            errors.append(caught)

    thread = threading.Thread(target=wait_for_room)
    thread.start()
    while not producer._sender._gathering.waiting_count:
        time.sleep(0.001)
    producer._sender.begin_close()
    thread.join()
    hold.set()
    producer.close()

    assert len(errors) == 1


def test_what_a_forgotten_producer_was_given_is_sent(cluster, topic):
    future = cluster.producer(**PATIENT).send(topic, None, b"v")
    gc.collect()

    assert future.result(30).offset == 0


def test_a_producer_that_is_collected_as_its_thread_is_about_to_wait_ends(cluster, monkeypatch):
    monkeypatch.setattr(sender, "IDLE_SECONDS", 0.01)
    producer = cluster.producer()
    ended, work = producer._sender, producer._sender._work
    wait = work.wait

    def end_and_wait(timeout):
        ended.begin_close()  # in the thread that is about to wait, as a finalizer may
        return wait(timeout)

    monkeypatch.setattr(work, "wait", end_and_wait)
    with work:
        work.notify()
    ended._thread.join(60)

    assert not ended._thread.is_alive()


def test_a_forked_childs_producer_raises_and_the_parents_goes_on(cluster, topic):
    def in_child(pipe):
        errors = []
        for work in (lambda: producer.send(topic, None, b"child"), producer.flush):
            try:
                work()
            except ClusterClosedError as caught:
                errors.append(str(caught))
        producer.close()
        pipe.send(errors)

    with cluster.producer(**PATIENT) as producer:
        producer.send(topic, None, b"parent")
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=in_child, args=(theirs,))
        child.start()
        errors = ours.recv()
        child.join()

    assert len(errors) == 2
    assert "forked" in errors[0]
    assert values_of(cluster, topic) == [b"parent"]


SENDING = """
import sys
from kafka_on_spark import Cluster

cluster = Cluster.open(sys.argv[1])
"""


def run(disks, code):
    return subprocess.run(
        [sys.executable, "-c", SENDING + code, str(disks.metadata_root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_a_process_that_ends_sends_for_a_moment_and_is_quiet_about_a_consumer_in_a_partition(disks):
    disks.cluster.create_topic("orders", replication_factor=3)
    disks.cluster.append("orders", [("k", "a"), ("k", "b")])

    done = run(
        disks,
        "from kafka_on_spark.produce import sender\n"
        # Where the process hardly runs, the moment is longer, and calls to roots take long.
        f"sender.EXIT_SECONDS = {WAIT_S}\n"
        "p = cluster.producer(linger_ms=60_000, delivery_timeout_ms=600_000)\n"
        "for n in range(1000): p.send('orders', None, str(n))\n"
        "c = cluster.consumer('orders', auto_offset_reset='earliest')\n"
        "print(next(c).value.decode())\n",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")
    assert len(values_of(disks.cluster, "orders")) == 1002


@pytest.mark.long
def test_a_process_that_ends_says_how_many_records_it_could_not_send(disks):
    disks.cluster.create_topic("orders", replication_factor=3)

    done = run(
        disks,
        "import os\n"
        "p = cluster.producer(linger_ms=0, delivery_timeout_ms=600_000)\n"
        "p.send('orders', None, b'before').result()\n"
        "for n in (1, 2, 3):\n"
        f"    os.rename(f'{disks.base}/broker-{{n}}', f'{disks.base}/away-{{n}}')\n"
        "for n in range(7): p.send('orders', None, str(n))\n",
    )

    disks.give_back(1, 2, 3)
    assert done.returncode == 0
    assert "before 7 records of producers were acknowledged" in done.stderr
    assert values_of(disks.cluster, "orders") == [b"before"]


@pytest.mark.long
def test_a_process_that_is_killed_loses_no_acknowledged_record_and_doubles_none(disks):
    disks.cluster.create_topic("orders", partitions=3, replication_factor=3)
    code = SENDING + (
        "import os\n"
        "def note(number):\n"
        "    return lambda metadata, error: os.write(1, b'%d %d %d\\n'"
        " % (number, metadata.partition, metadata.offset))\n"
        "with cluster.producer(linger_ms=1) as p:\n"
        "    for n in range(10**9): p.send('orders', str(n % 50), str(n), callback=note(n))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(disks.metadata_root)], cwd=ROOT, stdout=subprocess.PIPE
    )
    seen = [process.stdout.readline() for _ in range(5000)]
    os.kill(process.pid, signal.SIGKILL)
    seen += process.stdout.read().splitlines(keepends=True)
    process.wait()
    process.stdout.close()

    cluster: Cluster = disks.open()
    rows = cluster.read("orders").to_pylist()
    stands = {(row["partition"], row["offset"]): int(row["value"]) for row in rows}
    for line in seen:
        if line.endswith(b"\n"):
            number, partition, offset = map(int, line.split())
            assert stands[partition, offset] == number
    assert len(set(stands.values())) == len(stands) >= 5000
    for key in range(50):
        numbers = [each for each in stands.values() if each % 50 == key]
        assert numbers == sorted(numbers)
    assert cluster.fsck().findings == ()
