"""One Spark session for all tests that need one."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafka_on_spark.spark.session import build_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = build_session("tests", **{"spark.master": "local[2]"})
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
