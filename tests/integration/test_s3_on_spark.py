"""Clusters on S3 and on mixed roots, through Spark: a store that fails, goes away and comes back.

By option: pytest tests/integration/test_s3_on_spark.py --s3-spark
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from kafka_on_spark import KafkaOnSparkError
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.observe.replicas import compare_replicas
from kafka_on_spark.store.roots import StorageOptions, filesystem
from tests.integration.format.frames import bytes_of, numbered, sentence_of
from tests.store.s3.faulty_s3 import Kind
from tests.store.s3.object_stores import SECRET, lose, two_stores

pytestmark = pytest.mark.integration

RECORDS = 40
STARTS_MAX = 5
WAIT_S_MAX = 300  # a query's whole life, on a busy machine
VIEWS_S_MAX = 1200.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stores(request, aws_profiles, tmp_path_factory):
    if not request.config.getoption("--s3-spark", default=False):
        pytest.skip("minutes on a busy machine: asked for by --s3-spark")
    with two_stores(tmp_path_factory.mktemp("disk"), aws_profiles) as stores:
        yield stores


@pytest.fixture(autouse=True)
def _recovered(stores):
    yield
    stores.recover()
    replica_store.cache_clear()


def append(cluster, frame, sequence):
    """Append a frame, again and again until the answer is known."""
    told = []
    for _ in range(STARTS_MAX):
        try:
            return cluster.append("orders", frame, producer_id="test", sequence=sequence)
        except KafkaOnSparkError as error:
            told.append(str(error))
    raise AssertionError(told)


def loaded(spark, stores, cluster, topic, *, is_stream=False):
    reader = spark.readStream if is_stream else spark.read
    options = {"cluster": cluster.root, "subscribe": topic, **stores.in_spark()}
    if is_stream:
        options["startingOffsets"] = "earliest"
    return reader.format("kafka_on_spark").options(**options).load()


def save(frame, stores, cluster, topic):
    options = {"cluster": cluster.root, "topic": topic, **stores.in_spark()}
    frame.write.format("kafka_on_spark").mode("append").options(**options).save()


def copy(spark, stores, cluster, topic):
    """Have a stream copy all of "orders" to a topic; what the stores end is started again."""
    frame = loaded(spark, stores, cluster, "orders", is_stream=True).select("key", "value")
    options = {"cluster": cluster.root, "topic": topic, **stores.in_spark()}
    writer = frame.writeStream.format("kafka_on_spark").options(**options)
    writer = writer.option("checkpointLocation", str(stores.folder / "checkpoint"))
    told = []
    for _ in range(STARTS_MAX):
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(WAIT_S_MAX)
            return
        except StreamingQueryException as error:
            told.append(str(error))
    raise AssertionError(told)


def values_by_key(rows):
    """Return each key's values as numbers, in the order of the log."""
    found = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        found.setdefault(bytes_of(row["key"]), []).append(int(bytes_of(row["value"])))
    return found


def expected(appends, count=RECORDS, keys=7):
    values = [number for _ in range(appends) for number in range(count)]
    return {
        f"key-{key}".encode(): [each for each in values if each % keys == key]
        for key in range(keys)
    }


def objects_with(stores, text):
    """Return the paths of all objects and files that hold `text`, and how many were searched."""
    found, count = [], 0
    for store in (stores.north, stores.south):
        files = filesystem(stores.url(store, ""), StorageOptions(stores.options))
        for path in files.find(f"s3://{store.bucket}"):
            count += 1
            found += [path] * (text.encode() in files.cat_file(path))
    for folder, _, names in os.walk(stores.folder):
        for name in names:
            path = os.path.join(folder, name)
            count += 1
            with open(path, "rb") as file:
                found += [path] * (text.encode() in file.read())
    return found, count


STORM = (Kind.BUSY, Kind.ERROR_AFTER, Kind.SLOW, Kind.ERROR_BEFORE, Kind.DROP_AFTER)


def test_cluster_on_three_kinds_of_roots_loses_a_store_and_nothing_else(stores, spark, capfd):
    metadata = stores.url(stores.north, "life/metadata")
    with stores.create("life", metadata, spark) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [3, 1, 2], 1: [2, 3, 1]})
        for store in (stores.north, stores.south):
            store.storm, store.storm_every = STORM, 7
        append(cluster, numbered(spark, RECORDS), 0)
        assert {*STORM} <= {*stores.north.struck, *stores.south.struck}
        stores.recover()
        lose(stores.south)
        fenced = cluster.run_controller().fenced
        save(numbered(spark, RECORDS), stores, cluster, "orders")
        cluster.create_topic("copies", replica_assignment={0: [1, 2], 1: [2, 1]})
        stores.north.storm = STORM
        copy(spark, stores, cluster, "copies")
        assert fenced == (3,)
        assert {each.isr for each in cluster.describe_topic("orders").partitions} == {(1, 2)}

        stores.recover()
        assert cluster.run_controller().unfenced == (3,)
        cluster.replicate()
        assert all(len(each.isr) == 3 for each in cluster.describe_topic("orders").partitions)
        read = {
            name: loaded(spark, stores, cluster, name).collect() for name in ("orders", "copies")
        }

        for rows in read.values():
            assert values_by_key([row.asDict() for row in rows]) == expected(2)
        assert cluster.fsck().is_clean
        compared = compare_replicas(cluster.image, "orders", stores.options, is_deep=True)
        assert [each.replica_count for each in compared] == [3, 3]
        assert not [difference for each in compared for difference in each.differences]
    found, count = objects_with(stores, SECRET)
    assert found == []
    assert count > 50
    assert SECRET not in "".join(capfd.readouterr())


def test_query_whose_credentials_are_missing_says_which_in_one_sentence(stores, spark):
    options = {"cluster": "s3://kos-north/none", "subscribe": "orders"}
    reader = spark.read.format("kafka_on_spark").options(**options)

    with pytest.raises(PySparkException) as refusal:
        reader.option("storage.s3://kos-north", "profile:nobody").load().count()

    said = sentence_of(refusal.value)
    assert "s3://kos-north/none" in said
    assert "profile:nobody, which can't be read (ProfileNotFound)" in said
    assert "on executors too" in said


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_all_holds_of_views_that_the_jvm_scans(stores, tmp_path, master):
    """The cases of s3_view_cases; Maven Central has to be reached."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--basetemp", str(tmp_path / "run")]
    left_out = ("PYTEST_", "AWS_")
    environment = {n: v for n, v in os.environ.items() if not n.startswith(left_out)}

    done = subprocess.run(
        [*command, "tests/integration/s3_view_cases.py"],
        cwd=ROOT,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1", "S3_VIEW_MASTER": master},
        capture_output=True,
        text=True,
        timeout=VIEWS_S_MAX,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "3 passed" in done.stdout
