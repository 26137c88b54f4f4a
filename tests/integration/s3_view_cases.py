"""Views of a cluster on a disk and on two S3 endpoints, which the JVM scans by Hadoop's own client.

Run by test_s3_on_spark, in processes of their own: the client's jars have to be there when a JVM
starts. By hand, where Maven Central is reached: `S3_VIEW_MASTER='local[2]' ./spark-submit.sh pytest
-n 0 tests/integration/s3_view_cases.py`.
"""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.spark.session import build_session
from kafka_on_spark.store.roots import StorageOptions, filesystem
from tests.integration.format.frames import bytes_of
from tests.pages import page
from tests.store.s3.faulty_s3 import faulty_s3
from tests.store.s3.object_stores import SECRET, two_stores

ROOT = Path(__file__).parents[2]
MASTER = os.environ.get("S3_VIEW_MASTER", "local[2]")
ASSIGNMENT = {0: [2, 1, 3], 1: [3, 2, 1], 2: [1, 2, 3]}
COUNT = 60


def settings_of_the_page():
    found = re.findall(
        r"^ +--conf (spark\.jars\.\w+)=(\S+)", page("docs/clusters-and-stores.md"), re.M
    )
    assert [name for name, _ in found] == ["spark.jars.packages", "spark.jars.excludes"]
    return dict(found)


@pytest.fixture(scope="module")
def stores(aws_profiles, tmp_path_factory):
    """The endpoints; the keys stand where both kinds of clients look for them."""
    with two_stores(tmp_path_factory.mktemp("disk"), aws_profiles) as stores:
        keys = aws_profiles.with_name("credentials")
        keys.write_text(
            "".join(
                f"[{name}]\naws_access_key_id = {store.key_id}\naws_secret_access_key = {SECRET}\n"
                for name, store in (("north", stores.north), ("south", stores.south))
            )
        )
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
            yield stores


@pytest.fixture(scope="module")
def spark(stores):
    session = build_session(
        "views on S3",
        **{
            "spark.master": MASTER,
            "spark.ui.enabled": False,
            "spark.jars.ivySettings": (ROOT / "conf" / "ivysettings.xml").as_uri(),
            # A client that is not let in is not tried for minutes.
            "spark.hadoop.fs.s3a.attempts.maximum": 1,
            "spark.hadoop.fs.s3a.retry.limit": 1,
            **settings_of_the_page(),
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    context = session.sparkContext
    work = Path(context._jvm.System.getenv("SPARK_HOME")) / "work" / context.applicationId
    session.stop()
    shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(stores, spark):
    """A topic whose partitions are led from the disk and from either endpoint."""
    metadata = stores.url(stores.north, "views/metadata")
    with stores.create("views", metadata, spark) as cluster:
        cluster.create_topic("orders", replica_assignment=ASSIGNMENT)
        cluster.append("orders", rows(range(COUNT // 2)))
        cluster.append("orders", rows(range(COUNT // 2, COUNT)))
        yield cluster


def rows(numbers):
    """Return records to all partitions in turn, whose values are the numbers."""
    return pa.table(
        {
            "value": pa.array([b"%d" % each for each in numbers], pa.binary()),
            "partition": pa.array([each % len(ASSIGNMENT) for each in numbers], pa.int32()),
        }
    )


def numbers_in(frame):
    return sorted(int(bytes_of(row.value)) for row in frame.select("value").collect())


def test_a_view_is_scanned_from_a_disk_and_two_endpoints_with_the_clusters_own_names(
    stores, spark, cluster, capfd
):
    before = len(stores.north.requests), len(stores.south.requests)

    view = cluster.view("orders", "orders_on_s3")

    stood = {urlsplit(name)[:2] for name in view.inputFiles()}
    assert stood == {("file", ""), ("s3a", "kos-north"), ("s3a", "kos-south")}
    assert numbers_in(view) == list(range(COUNT))
    counted = spark.sql("SELECT partition, count(*) AS n FROM orders_on_s3 GROUP BY 1").collect()
    assert {row.partition: row.n for row in counted} == dict.fromkeys(ASSIGNMENT, COUNT // 3)
    assert numbers_in(cluster.view("orders", start={0: 5, 1: 20, 2: 20})) == list(
        range(15, COUNT, 3)
    )
    for store, count in zip((stores.north, stores.south), before, strict=True):
        assert any(each.endswith(".parquet") for each in store.requests[count:])
    assert SECRET not in view._jdf.queryExecution().toString() + "".join(capfd.readouterr())


def test_on_other_machines_the_views_own_table_is_on_s3_as_well(
    stores, spark, cluster, monkeypatch
):
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")

    view = cluster.view("orders")

    files = filesystem(cluster.root, StorageOptions(stores.options))
    assert files.find(f"{cluster.root}/views")
    assert numbers_in(view) == list(range(COUNT))


def test_a_bucket_that_denies_spark_is_named_in_one_sentence(spark, tmp_path):
    """It is one that the session knows itself, and wrongly: what it says holds."""
    replica_store.cache_clear()
    with faulty_s3("kos-other") as store:
        options = store.options(timeout="30s", connect_timeout="30s")
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        said = {"endpoint": store.endpoint, "access.key": "nobody", "secret.key": SECRET}
        for name, text in {**said, "path.style.access": "true"}.items():
            conf.set(f"fs.s3a.bucket.kos-other.{name}", text)
        roots = {1: "s3://kos-other/broker-1"}
        with Cluster.create(
            tmp_path / "metadata", roots, spark=spark, storage_options=options
        ) as cluster:
            cluster.create_topic("orders", replica_assignment={0: [1]})
            cluster.append("orders", [(None, b"1")])

            with pytest.raises(InvalidRequestError) as refused:
                cluster.view("orders")

    message = refused.value.message
    assert message.startswith("Spark itself can't read s3a://kos-other (")
    assert "Status Code: 403" in message
    assert (
        "by spark.hadoop.fs.s3a.bucket.kos-other.* (docs/clusters-and-stores.md), or read with"
        in message
    )
    assert "\n" not in message
    assert SECRET not in message
