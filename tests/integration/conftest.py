"""One Spark session for all tests that need one."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_on_spark.spark.session import build_session, register_data_source


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--s3-rows", type=int, help="run the quickstart on S3, with so many flights")
    parser.addoption("--s3-spark", action="store_true", help="run clusters on S3 through Spark")


@pytest.fixture(scope="session")
def aws_profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of AWS profiles of this process and of all that Spark starts for it: what is
    written to it there, they find."""
    file = tmp_path_factory.mktemp("aws") / "config"
    os.environ["AWS_CONFIG_FILE"] = str(file)
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(file.with_name("none"))
    return file


@pytest.fixture(scope="session")
def spark(aws_profiles: Path) -> Iterator[SparkSession]:
    settings = {"spark.master": "local[2]", "spark.ui.enabled": False}
    session = build_session("tests", **settings)
    session.sparkContext.setLogLevel("ERROR")
    # On a busy machine Spark's own look-up by name may be cut off, and is not tried again.
    register_data_source(session)
    yield session
    session.stop()
