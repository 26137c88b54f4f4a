"""One Spark session for all tests that need one."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafka_on_spark.spark.session import build_session, register_data_source


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = build_session("tests", **{"spark.master": "local[2]"})
    session.sparkContext.setLogLevel("ERROR")
    # On a busy machine Spark's own look-up by name may be cut off, and is not tried again.
    register_data_source(session)
    yield session
    session.stop()
