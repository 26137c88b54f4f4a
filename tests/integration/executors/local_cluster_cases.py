"""What holds on executors that are processes of their own, some of which are killed.

Run by test_local_cluster, in a process of its own: a Spark session of another master is none of
the other tests'. By hand: `./spark-submit.sh pytest -n 0 --long tests/integration/executors/local_cluster_cases.py`.
"""

import json
import shutil
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

from jobs import append, controller, replicate
from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.controller import replication_round
from kafka_on_spark.spark import frames
from kafka_on_spark.spark.session import build_session
from tests import jvms
from tests.cluster.disks import isr_of, new_disks, values_of
from tests.integration.executors.executor_deaths import (
    fetch_and_die,
    rows_until_death,
    stage_and_die,
)
from tests.integration.executors.lacking_python import write_python
from tests.integration.format.frames import Batches, Started, bytes_of, numbered, source, stream

PARTITIONS, TASKS, COUNT = 4, 4, 8_000
WAIT_S_MAX = 300  # nothing is timed here, and executors start slowly on a busy machine
BROKERS = [1, 2, 3]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return write_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def spark(python):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYSPARK_PYTHON", str(python))
        # The launcher's home has no zip of pyspark, and a Python that lacks everything needs it.
        patched.delenv("SPARK_HOME", raising=False)
        session = build_session(
            "local-cluster",
            **{
                "spark.master": "local-cluster[2,1,1024]",
                "spark.driver.memory": "1g",
                "spark.ui.enabled": False,
                "spark.executor.extraJavaOptions": jvms.QUICK,
                "spark.executorEnv.ON_EXECUTOR": "yes",
                "spark.sql.execution.arrow.maxRecordsPerBatch": 100,
            },
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        context = session.sparkContext
        home = Path(context._jvm.System.getenv("SPARK_HOME"))
        work = home / "work" / context.applicationId
        session.stop()
        shutil.rmtree(work, ignore_errors=True)


@pytest.fixture
def disks(spark):
    with new_disks(configs={"delivery.timeout.ms": "120000"}) as disks:
        cluster = Cluster.open(disks.metadata_root, spark=spark)
        disks.opened.insert(0, cluster)
        cluster.create_topic(
            "orders",
            partitions=PARTITIONS,
            replication_factor=3,
            configs={"min.insync.replicas": 2},
        )
        yield disks


def check_all(disks, *appends):
    """Check that what was appended stands once, in order, on equal replicas that are in sync."""
    cluster = disks.cluster
    table = cluster.read("orders")
    of_key = defaultdict(list)
    for row in table.select(["key", "value"]).to_pylist():
        of_key[row["key"]].append(int(row["value"]))
    expected = {
        f"key-{key}".encode(): [n for append in appends for n in append if n % 7 == key]
        for key in range(7)
    }
    assert dict(of_key) == expected
    for number in range(PARTITIONS):
        assert isr_of(cluster, "orders", number) == BROKERS
        here = table["partition"].to_numpy() == number
        values = table.filter(here)["value"].to_pylist()
        assert [disks.values_on(each, "orders", number) for each in BROKERS] == [values] * 3
        offsets = table.filter(here)["offset"].to_pylist()
        assert offsets == list(range(len(offsets)))
    assert cluster.fsck().findings == ()


def died(mark):
    """Return whether somebody was killed, who is gone."""
    return not Path(f"/proc/{mark.read_text()}/exe").exists()


def test_an_append_whose_executor_is_killed_stands_once(spark, disks, tmp_path):
    mark = tmp_path / "mark"
    frame = numbered(spark, COUNT, slices=TASKS)
    dying = partial(rows_until_death, mark=str(mark), task=1, after=COUNT // TASKS // 200)

    result = disks.cluster.append("orders", frame.mapInArrow(dying, frame.schema))

    assert died(mark)
    assert result.record_count == COUNT
    disks.cluster.append("orders", frame, acks=1)  # on the executor that is left, or a new one
    disks.cluster.replicate()
    check_all(disks, range(COUNT), range(COUNT))


def test_a_worker_that_is_killed_when_all_is_staged_stages_again(
    spark, disks, tmp_path, monkeypatch
):
    mark = tmp_path / "mark"
    monkeypatch.setattr(frames, "_stage_task", partial(stage_and_die, mark=str(mark)))

    result = disks.cluster.append("orders", numbered(spark, COUNT, slices=TASKS))

    assert died(mark)
    assert result.record_count == COUNT
    check_all(disks, range(COUNT))


@pytest.mark.parametrize("point", ["copied", "committed"])
def test_a_round_whose_executor_is_killed_copies_once(spark, disks, tmp_path, monkeypatch, point):
    mark = tmp_path / "mark"
    disks.cluster.append("orders", numbered(spark, COUNT, slices=TASKS), acks=1)
    monkeypatch.setattr(
        replication_round, "fetch_task", partial(fetch_and_die, mark=str(mark), point=point)
    )

    disks.cluster.replicate()

    assert died(mark)
    monkeypatch.undo()
    disks.cluster.replicate()  # a replica that was fenced off meanwhile is inspected once more
    check_all(disks, range(COUNT))


def test_the_jobs_run_there(spark, disks, tmp_path):
    for number in range(4):
        lines = [{"k": f"key-{n % 7}", "v": n} for n in range(number * 50, number * 50 + 50)]
        (tmp_path / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))
    words = [tmp_path, "--cluster", "c", "--topic", "orders", "--id", "load", "--format", "json"]
    words += ["--key", "k", "--value", "v", "--checkpoint", disks.base / "checkpoint"]
    given = append.parse([str(each) for each in words])

    assert [append.append(spark, disks.cluster, given) for _ in range(2)] == [0, 0]
    assert controller.control(disks.cluster, None)[0].startswith("1 pass: fenced no broker")
    line, code = replicate.replicate(disks.cluster, replicate.parse(["--cluster", "c"]))

    assert (code, line[-17:]) == (0, "all are caught up")
    check_all(disks, range(200))


@pytest.mark.long
def test_queries_read_and_write_there(spark, disks, tmp_path):
    frame, batches = numbered(spark, COUNT, slices=TASKS), Batches()
    disks.cluster.create_topic("copies", partitions=2, replication_factor=3)
    disks.cluster.append("orders", frame)

    seen = batches.start(
        stream(spark, disks, "orders", startingOffsets="earliest"),
        tmp_path / "seen",
        availableNow=True,
    )
    assert seen.awaitTermination(WAIT_S_MAX)
    query = Started(
        stream(spark, disks, "orders", startingOffsets="earliest")
        .select("key", "value")
        .writeStream.format("kafka_on_spark")
        .option("cluster", disks.metadata_root)
        .option("topic", "copies")
        .option("checkpointLocation", str(tmp_path / "copied"))
        .trigger(availableNow=True)
    )

    assert query.awaitTermination(WAIT_S_MAX)
    committed = values_of(disks.cluster, "orders")
    assert batches.seen == committed
    copies = source(spark, disks, "copies").select("value").collect()
    assert sorted(bytes_of(row.value) for row in copies) == sorted(committed)


def test_executors_that_lack_the_package_say_so_in_one_sentence(spark, disks, monkeypatch):
    monkeypatch.setitem(spark.sparkContext.environment, "LACKS", "the package")

    with pytest.raises(InvalidRequestError) as refused:
        disks.cluster.append("orders", numbered(spark, 10))

    assert "has no kafka_on_spark" in refused.value.message
    assert "PYSPARK_PYTHON=./environment/bin/python" in refused.value.message
