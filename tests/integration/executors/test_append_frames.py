"""`Cluster.append` of a DataFrame, and clusters whose tasks run on Spark's executors."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    InvalidRecordError,
    InvalidRequestError,
)
from tests.bad_input.refusals import refused
from tests.cluster.disks import isr_of, new_disks, values_of
from tests.integration.format.frames import numbered

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("refuses", partitions=3, replication_factor=3)
        yield disks


@pytest.fixture(scope="module")
def cluster(spark, disks):
    with Cluster.open(disks.metadata_root, spark=spark) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster, request):
    name = request.node.originalname
    cluster.create_topic(name, partitions=3, replication_factor=3)
    return name


def test_a_retry_of_a_frame_is_a_duplicate_however_it_is_split(spark, cluster, topic):
    run = {"producer_id": "frames", "sequence": 0}
    first = cluster.append(topic, numbered(spark, 90, slices=2), **run)

    again = cluster.append(topic, numbered(spark, 90, slices=5), **run)
    with pytest.raises(
        DuplicateSequenceError, match="appended sequence 0 before, with other records"
    ):
        cluster.append(topic, numbered(spark, 91), **run)

    def bases(result):
        return {number: each.base_offset for number, each in result.partitions.items()}

    assert (again.is_duplicate, bases(again)) == (True, bases(first))
    assert sorted(map(int, values_of(cluster, topic))) == list(range(90))


def test_replication_probes_and_making_run_on_executors(spark, disks):
    with new_disks() as lost:
        on_spark = Cluster.open(lost.metadata_root, spark=spark)
        lost.opened.append(on_spark)
        on_spark.create_topic("orders", partitions=12, replication_factor=3)
        on_spark.append("orders", numbered(spark, 60, keys=60))
        lost.take_away(1)
        assert on_spark.run_controller().fenced == (1,)
        on_spark.append("orders", numbered(spark, 60, keys=60))
        lost.give_back(1)
        assert on_spark.run_controller().unfenced == (1,)

        report = on_spark.replicate()

        assert (report.copied_records, report.is_caught_up) == (60, True)
        assert {tuple(isr_of(on_spark, "orders", number)) for number in range(12)} == {(1, 2, 3)}
        assert on_spark.image.controller.controller_id is None


# fmt: off
FRAMES = [
    pytest.param("'v' as value, map('h', 'v') as headers",    InvalidRequestError,  ["headers attribute unsupported type map<string,string>"],          id="headers as a map"),
    pytest.param("'v' as value, 3 as partition",              InvalidRecordError,   ["3 is not in the range [0, 3)"],                                   id="partition out of range"),
]
# fmt: on


@pytest.mark.parametrize("columns, error, words", FRAMES)
def test_a_bad_frame_is_one_sentence_and_nothing_is_written(
    spark, disks, cluster, columns, error, words
):
    with refused(cluster, disks.base, error, *words):
        cluster.append("refuses", spark.sql(f"select {columns}"))
