"""The cache of open clusters: the same cluster, caught up, or one that is opened again."""

from dataclasses import dataclass, field

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.node.opening import Awaits
from kafka_on_spark.spark import sink
from kafka_on_spark.spark.sink import CLUSTERS_MAX, cached_node
from kafka_on_spark.store.storage_options import StorageOptions

OPTIONS = StorageOptions()


@dataclass(frozen=True)
class Image:
    cluster_id: str
    offset: int


@dataclass
class Metadata:
    """Moves on by one with each check; `error` is what a check fails with."""

    image: Image
    error: Exception | None = None
    is_closed: bool = False
    waits: int = 0

    def catch_up(self):
        if self.error is not None:
            raise self.error
        self.image = Image(self.image.cluster_id, self.image.offset + 1)

    def catch_up_waiting(self):
        self.waits += 1
        self.catch_up()

    def close(self):
        self.is_closed = True


@dataclass
class Node:
    metadata: Metadata

    def close(self):
        self.metadata.close()


@dataclass
class Roots:
    """Which cluster lies at which root, or what is wrong with it, and what was opened."""

    clusters: dict[str, str | Exception] = field(default_factory=dict)
    opened: list[tuple[str, Metadata]] = field(default_factory=list)
    awaited: list[Awaits] = field(default_factory=list)

    def open(self, root, options, *, awaits):
        self.awaited.append(awaits)
        found = self.clusters.get(root, f"id of {root}")
        if isinstance(found, Exception):
            raise found
        metadata = Metadata(Image(found, 0))
        self.opened.append((root, metadata))
        return Node(metadata)


@pytest.fixture(autouse=True)
def roots(monkeypatch):
    roots = Roots()
    monkeypatch.setattr(sink, "open_node", roots.open)
    yield roots
    sink._open.clear()


def test_other_credentials_open_the_cluster_again(roots):
    first, _ = cached_node("/m", OPTIONS)

    second, _ = cached_node("/m", StorageOptions({"timeout": "9 seconds"}))

    assert second is not first


def test_only_a_patient_caller_waits_for_a_metadata_root_that_is_away():
    first, _ = cached_node("/m", OPTIONS)

    cached_node("/m", OPTIONS)
    assert first.metadata.waits == 0

    cached_node("/m", OPTIONS, is_patient=True)
    assert first.metadata.waits == 1


def test_a_patient_caller_waits_for_a_root_once_and_not_again_when_it_is_opened_again(
    roots,
):
    first, _ = cached_node("/m", OPTIONS, is_patient=True)
    first.metadata.error = KafkaStorageError("away for ever")

    cached_node("/m", OPTIONS, is_patient=True)

    assert roots.awaited == [Awaits.ROOT, Awaits.NOTHING]


def test_an_error_of_a_root_comes_from_opening_it_and_nothing_stays_cached(roots):
    first, _ = cached_node("/m", OPTIONS)
    first.metadata.error = roots.clusters["/m"] = KafkaStorageError("the disk is away")

    with pytest.raises(KafkaStorageError, match="the disk is away"):
        cached_node("/m", OPTIONS)

    del roots.clusters["/m"]
    assert cached_node("/m", OPTIONS)[1] is None


def test_the_least_recently_used_cluster_is_closed_when_there_are_too_many(roots):
    for number in range(CLUSTERS_MAX):
        cached_node(f"/{number}", OPTIONS)
    cached_node("/0", OPTIONS)

    cached_node("/one more", OPTIONS)

    closed = [root for root, metadata in roots.opened if metadata.is_closed]
    assert closed == ["/1"]
