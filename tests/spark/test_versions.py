"""Which versions of Spark and Delta are taken, and what is said of others."""

import pyspark
import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.spark import versions
from kafka_on_spark.spark.versions import check_stream, check_versions

CASES = [
    pytest.param("4.2.0", "4.4.1", None, id="what works"),
    pytest.param("4.2.7", "missing", "pyspark 4.2.7, delta-spark missing", id="no Delta"),
    pytest.param("4.0.1", "4.4.0", "pyspark 4.0.1, delta-spark 4.4.0", id="an older Spark"),
    pytest.param(
        "4.2.0", "4.3.0", "pyspark 4.2.0, delta-spark 4.3.0", id="a Delta for another Spark"
    ),
]


@pytest.mark.parametrize("spark, delta, said", CASES)
def test_versions_that_are_not_in_the_table_are_named_with_those_that_are(
    monkeypatch, spark, delta, said
):
    monkeypatch.setattr(pyspark, "__version__", spark)
    monkeypatch.setattr(versions, "SUPPORTED", {"4.2": "4.4"})
    monkeypatch.setattr(versions, "version", lambda name: delta)

    if said is None:
        check_versions(delta=True)
        return
    with pytest.raises(InvalidRequestError) as refusal:
        check_versions(delta=True)
    assert refusal.value.message == (
        f"kafka_on_spark can't run on this Spark ({said}): install pyspark 4.2 with delta-spark 4.4"
    )


def test_a_process_that_only_reads_and_writes_by_format_needs_no_delta_spark(monkeypatch):
    monkeypatch.setattr(versions, "version", lambda name: pytest.fail("it was looked for"))

    check_versions()


# fmt: off
STREAMS = [
    pytest.param("4.0.1", "write", "4.1", "a stream can't write topics on Spark 4.0: install pyspark 4.1 or later, or write batches, as foreachBatch does", id="too old"),
    pytest.param("4.1.4", "write", "4.1", None, id="old enough"),
    pytest.param("4.2.0", "write", "4.1", None, id="newer"),
]
# fmt: on


@pytest.mark.parametrize("spark, what, since, said", STREAMS)
def test_a_stream_is_refused_on_a_spark_that_is_too_old_for_it(
    monkeypatch, spark, what, since, said
):
    monkeypatch.setattr(pyspark, "__version__", spark)

    if said is None:
        check_stream(what, since)
        return
    with pytest.raises(InvalidRequestError) as refusal:
        check_stream(what, since)
    assert refusal.value.message == said
