"""Roots that hang instead of failing, processes that were forked or refused.

Each in a process of its own, which is ended if it hangs.
"""

import subprocess
import sys
import textwrap

import pytest

from tests.cluster.folders import quick_folder
from tests.cluster.scripts import SECONDS, printed_by

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
def leaders():
    return [each.leader for each in cluster.describe_topic("orders").partitions]
def pipe(path):
    if os.path.exists(path):
        os.unlink(path)
    os.mkfifo(path)
append(b"a"); append(b"b")
"""


@pytest.fixture
def base():
    with quick_folder() as folder:
        yield folder


def lines_of(base, script):
    """Return what a script prints, line by line; it must end, and by itself."""
    return printed_by(PRELUDE + textwrap.dedent(script), str(base)).splitlines()


def lines_of_an_interpreter(base, script):
    """Return the same of a whole interpreter, whose end is what is tested."""
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
    lines = lines_of_an_interpreter(
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


REFUSED = """
def refused(path):
    for place, _, names in os.walk(path):
        os.chmod(place, 0o555)
        for name in names:
            os.chmod(f"{place}/{name}", 0o444)
def become_nobody():
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
def open_to_all():
    os.chmod(base, 0o777)
    for place, _, names in os.walk(base):
        os.chmod(place, 0o777)
        for name in names:
            os.chmod(f"{place}/{name}", 0o666)
def say(work):
    began = time.monotonic()
    try:
        print(work(), flush=True)
    except KafkaOnSparkError as error:
        # A call that had waited would have done so for all of delivery.timeout.ms.
        print(type(error).__name__, time.monotonic() - began < 100, error, flush=True)
open_to_all()
append(b"warm", producer_id="p", sequence=0)
"""


@pytest.fixture
def open_base():
    """A folder that other users reach, too."""
    from shutil import rmtree
    from tempfile import mkdtemp

    folder = mkdtemp()
    yield folder
    rmtree(folder)


@pytest.mark.parametrize("place", ["meta", "b1"])
def test_what_a_root_refuses_fails_at_once_and_says_that_nothing_was_appended(open_base, place):
    script = f"""
refused(f"{{base}}/{place}")
become_nobody()
say(lambda: cluster.append("orders", [{{"value": b"c", "partition": 0}}]))
say(lambda: cluster.read("orders").num_rows)
os._exit(0)
"""
    lines = lines_of(open_base, REFUSED + script)

    assert lines[0].startswith("RootAccessDeniedError True ")
    assert "same sequence" not in lines[0]
    assert lines[1] == "9"
