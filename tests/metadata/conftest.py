"""A metadata log in memory, and services that open it."""

from functools import partial

import pytest

from kafka_on_spark.metadata.metadata_service import MetadataService
from tests.fakes import FakeClock, MemoryMetadataLog


@pytest.fixture
def log():
    return MemoryMetadataLog()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def open_service(log, clock):
    return partial(MetadataService, log, clock, random=lambda: 1.0)
