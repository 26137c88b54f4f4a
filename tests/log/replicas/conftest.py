"""Roots of two brokers."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.store.new_roots import prepare_root
from tests.builders import address
from tests.log.replicas.rewriting import OPTIONS


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    found = {}
    for number in (1, 2):
        root = str(tmp_path_factory.mktemp("root") / str(number))
        directory = prepare_root(root, "a-cluster", BrokerId(number), OPTIONS).directory_id
        found[number] = replace(address(number), root=root, directory_id=directory)
    return found
