"""Which roots of a list tell who a cluster's voters are, where some of them fail or hang."""

import threading
from time import sleep

import pytest

from kafka_on_spark.base.errors import ClusterNotFoundError, KafkaStorageError
from kafka_on_spark.metadata import cluster_roots
from kafka_on_spark.metadata.cluster_roots import create_metadata_log, given_roots
from kafka_on_spark.metadata.metadata_root import identity_of
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions

OPTIONS = StorageOptions()


@pytest.fixture
def roots(tmp_path):
    roots = tuple(f"{tmp_path}/{name}" for name in ("m1", "m2", "m3"))
    create_metadata_log(cluster_url(roots), OPTIONS, "a-cluster")
    return roots


class HangingRoots:
    """Roots that hang until `ends` is set."""

    def __init__(self):
        self.names, self.ends = set(), threading.Event()

    def identity_of(self, root, options):
        if root in self.names:
            self.ends.wait(60)
        return identity_of(root, options)


@pytest.fixture
def hanging(monkeypatch):
    hanging = HangingRoots()
    monkeypatch.setattr(cluster_roots, "identity_of", hanging.identity_of)
    yield hanging
    hanging.ends.set()


def test_all_that_answer_come_in_the_order_of_the_list(roots):
    assert [*given_roots(roots, OPTIONS)] == [*roots]
    assert [*given_roots(roots[::-1], OPTIONS)] == [*roots[::-1]]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_opening_goes_on_without_one_that_hangs(roots, hanging, monkeypatch, place):
    hanging.names.add(roots[place])

    def wait(futures, seconds):
        """Wait until that time is over, and two have answered: this machine may be slow."""
        assert seconds == 0.1
        while sum(each.done() for each in futures) < 2:
            sleep(0.01)

    monkeypatch.setattr(cluster_roots, "wait", wait)

    found = given_roots(roots, OPTIONS, patience_ms=100)

    assert [*found] == [root for root in roots if root != roots[place]]
    assert not hanging.ends.is_set()


def test_an_opening_waits_on_where_no_more_than_half_answer(roots, hanging):
    hanging.names.update(roots[:2])
    threading.Timer(0.2, hanging.ends.set).start()

    assert [*given_roots(roots, OPTIONS, patience_ms=1)] == [*roots]


def test_why_the_first_does_not_answer_is_said_where_none_does(tmp_path, monkeypatch):
    def away(root, options):
        raise errors[root](f"{root} is away")

    errors = {"/m1": ClusterNotFoundError, "/m2": KafkaStorageError}
    monkeypatch.setattr(cluster_roots, "identity_of", away)

    for roots in (("/m1", "/m2"), ("/m2", "/m1"), ("/m1",)):
        with pytest.raises(errors[roots[0]], match=roots[0]):
            given_roots(roots, OPTIONS)
