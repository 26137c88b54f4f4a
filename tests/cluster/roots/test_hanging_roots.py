"""Roots that hang instead of failing, and processes that were forked.

Each in a process of its own, which is ended if it hangs.
"""

import subprocess
import sys
import textwrap

import pytest

from tests.cluster.folders import quick_folder

SECONDS = 300

PRELUDE = """
import os, sys, threading, time
from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.store import deadlines

base = sys.argv[1]
roots = {number: f"{base}/b{number}" for number in (1, 2, 3)}
configs = {
    "broker.session.timeout.ms": 1000, "delivery.timeout.ms": 120000, "min.insync.replicas": 2
}
cluster = Cluster.create(f"{base}/meta", roots, configs=configs)
cluster.create_topic("orders", replica_assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
def append(value, **more):
    each = [{"value": value, "partition": number} for number in range(3)]
    return cluster.append("orders", each, **more).record_count
append(b"a"); append(b"b")
"""


@pytest.fixture
def base():
    with quick_folder() as folder:
        yield folder


def lines_of(base, script):
    """Return what an interpreter prints, line by line; it must end, and by itself."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script), str(base)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
@pytest.mark.parametrize("is_frozen", [True, False], ids=["its writes", "every call"])
def test_a_root_that_hangs_stops_no_partition_that_others_hold_whatever_deadlines_its_calls_have(
    base, is_frozen
):
    """Nor its own ones once its broker is fenced: here by the producer itself. One that is nowhere
    else waits alone."""
    lines = lines_of(
        base,
        f"""
        from kafka_on_spark.log import segments
        cluster.create_topic("mine", replica_assignment={{0: [1, 2], 1: [1, 3], 2: [3, 1]}},
            configs={{"min.insync.replicas": 1}})
        cluster.create_topic("alone", replica_assignment={{0: [3]}},
            configs={{"min.insync.replicas": 1}})
        producer = cluster.producer(linger_ms=100)
        def sent():
            places = [("mine", 0), ("mine", 1), ("mine", 2), ("alone", 0)]
            return [producer.send(topic, None, b"v", partition=each) for topic, each in places]
        for each in sent():
            each.result(60)
        for module, name in ((os, "open"), (os, "stat"), (os, "listdir"), (os, "scandir")):
            whole = getattr(module, name)
            def hang(path, *more, whole=whole, **named):
                is_write = bool(more and whole.__name__ == "open" and more[0] & os.O_CREAT)
                if isinstance(path, str) and path.startswith(roots[3]):
                    if is_write or not {is_frozen}:
                        threading.Event().wait()
                return whole(path, *more, **named)
            setattr(module, name, hang)
        deadlines.SHORT.disk = deadlines.LONG.disk = 3600.0
        segments.IMPATIENT_PART = 3600
        *late, alone = sent()
        print(late[0].result(60).offset, [each.done() for each in late])
        print(producer.send("mine", None, b"v", partition=0).result(60).offset)
        print([each.result(60).offset for each in late], alone.done())
        names = [each.name for each in threading.enumerate()]
        print(0 < names.count(roots[3]) <= 2 * deadlines.THREADS_A_ROOT)
        sys.stdout.flush()
        os._exit(0)
        """,
    )

    assert lines == ["1 [True, False, False]", "2", "[1, 1, 1] False", "True"]


def test_a_cluster_is_closed_in_a_forked_process_and_none_is_opened_there(base):
    lines = lines_of(
        base,
        """
        def child(work):
            sys.stdout.flush()
            pid = os.fork()
            if not pid:
                try:
                    print(work(), flush=True)
                except KafkaOnSparkError as error:
                    print(type(error).__name__, error, flush=True)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        child(lambda: append(b"x"))
        child(lambda: cluster.read("orders"))
        child(lambda: Cluster.open(f"{base}/meta"))
        child(lambda: cluster.close())
        print(append(b"c"))
        """,
    )

    assert lines[3:] == ["None", "3"]
    for line in lines[:3]:
        assert line.startswith("ClusterClosedError no cluster can be used in this process")
        assert "forkserver" in line
