"""A disk that answers and has a bad sector: reading one file of a leader fails with EIO, for good.

In a process of its own, whose reads the system fails: strace injects the error into every read of
that one file, whoever asks for it.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_on_spark.store.delta import delta_log
from tests.cluster.disks import isr_of, new_disks, partition_of, records, values_of

REPOSITORY = Path(__file__).parents[3]
READS = "read,pread64,readv,preadv,preadv2"
WORKING = """
import json, sys, time
from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError

answered, failures = 0, 0
with Cluster.open(sys.argv[1]) as cluster:
    while not answered and failures < {tries}:
        try:
            {work}
        except KafkaOnSparkError as error:
            print(error)
            failures += 1
    print(json.dumps({{"answered": answered, "failures": failures}}))
"""
TRIES = {"append": 3, "replicate": 8}
WORK = {
    "append": 'cluster.append("orders", [(b"k", b"new")], producer_id="p", sequence=0);'
    " answered = 1",
    "replicate": 'time.sleep(0.4); cluster.replicate(); answered = cluster.offsets("orders")[0].high_watermark == 5;'
    " failures += not answered",
}


def _why_no_errors() -> str | None:
    """Return why the system can't be made to fail here; None: it can."""
    if shutil.which("strace") is None:
        return "there is no strace, which injects the errors"
    tried = ["strace", "-f", "-o", "/dev/null", "-e", "inject=getpid:error=EIO", "true"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return f"strace may not trace here: {done.stderr}" if done.returncode else None


NO_ERRORS = _why_no_errors()
pytestmark = pytest.mark.skipif(NO_ERRORS is not None, reason=str(NO_ERRORS))


@pytest.fixture
def disks():
    """Brokers whose sessions a traced process, which is slow, can see the end of."""
    configs = {"broker.session.timeout.ms": "1500", "delivery.timeout.ms": "30000"}
    with new_disks(configs=configs) as disks:
        yield disks


def worked_with_a_bad_sector(disks, work, file):
    """Do `work` in a process that can't read `file`; return how often it was met, and its words."""
    trace = disks.base / "trace"
    injected = ["-e", f"trace={READS}", "-e", f"inject={READS}:error=EIO", "-P", str(file)]
    code = WORKING.format(work=WORK[work], tries=TRIES[work])
    traced = [sys.executable, "-c", code, str(disks.metadata_root)]
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), *injected, *traced],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return trace.read_text().count("(INJECTED)"), json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "work, pattern",
    [("append", "_delta_log/*.json"), ("append", "_delta_log/*.checkpoint.parquet")],
    ids=["newest commit", "newest checkpoint"],
)
def test_a_leader_on_a_bad_sector_is_set_aside_by_an_append_and_is_not_lost(
    disks, monkeypatch, work, pattern
):
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    count = 12 if "checkpoint" in pattern else 4
    values = [b"%d" % number for number in range(count)]
    for value in values:
        cluster.append("orders", records(value))
    cluster._node.maintenance.finish()
    uuids = partition_of(cluster, "orders").replica_uuids
    folder = disks.folder(1, "orders")

    met, said = worked_with_a_bad_sector(disks, work, sorted(folder.glob(pattern))[-1])

    assert met > 0
    assert said["answered"] == 1
    assert partition_of(cluster, "orders").leader != 1
    assert partition_of(cluster, "orders").replica_uuids == uuids
    for _ in range(3):
        cluster.run_controller()
        cluster.replicate(is_sweep=True)
    assert isr_of(cluster, "orders") == [1, 2, 3]  # what can be read again is in sync, as it was
    assert disks.folder(1, "orders") == folder
    assert values_of(cluster, "orders") == [*values, b"new"]
