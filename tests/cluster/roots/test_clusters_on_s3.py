"""Clusters on S3 without Spark: stores that fail at every kind of request, lose data, or know others."""

import pytest

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.base.errors import InvalidRootError, KafkaStorageError
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.store.s3.faulty_s3 import Kind
from tests.store.s3.object_stores import SECRET, two_stores

PATIENCE = 30
"""Tries of an append; under a storm, one or two are needed."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_CONFIG_FILE", str(folder / "profiles"))
        environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
        with two_stores(folder, folder / "profiles") as stores:
            yield stores
    replica_store.cache_clear()


@pytest.fixture(scope="module")
def cluster(stores):
    """Metadata on the local disk, one broker there, one on each store."""
    with stores.create("shared", str(stores.folder / "shared" / "metadata")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _recovered(stores):
    yield
    stores.recover()


def persistently(act):
    """Have something done that may be told to have failed, or not to be known; return the answer."""
    told = []
    for _ in range(PATIENCE):
        try:
            return act()
        except KafkaOnSparkError as error:
            told.append(str(error))
    raise AssertionError(told)


def values_of(table):
    return [int(each) for each in table.column("value").to_pylist()]


# The kinds come in turn, at whatever request is the next one: reads, lists, puts and deletes.
STORMS = [
    (Kind.ERROR_BEFORE, Kind.ERROR_AFTER, Kind.BUSY, Kind.SLOW),
    (Kind.DROP_AFTER, Kind.CONFLICT_AFTER, Kind.DROP_BEFORE),
]


@pytest.mark.parametrize(
    "storm",
    [
        pytest.param(STORMS[0], marks=pytest.mark.long, id="errors"),
        pytest.param(STORMS[1], id="lost answers"),
    ],
)
def test_nothing_is_lost_doubled_or_moved_while_the_stores_fail(stores, cluster, storm):
    topic = f"storm-{STORMS.index(storm)}"
    cluster.create_topic(topic, replica_assignment={0: [2, 3, 1]})
    stores.south.order(Kind.HANG)
    for store in (stores.north, stores.south):
        store.storm, store.storm_every = storm, 11
        store.struck.clear()

    for number in range(5):
        persistently(
            lambda number=number: cluster.append(
                topic, [("k", str(2 * number)), ("k", str(2 * number + 1))],
                producer_id=topic, sequence=number, timeout_ms=20_000,
            )
        )  # fmt: skip
    found = values_of(persistently(lambda: cluster.read(topic)))

    assert found == list(range(10))
    assert {*storm} <= {*stores.north.struck, *stores.south.struck}
    stores.recover()
    cluster.run_controller()
    cluster.replicate()
    assert values_of(cluster.read(topic)) == list(range(10))
    assert {len(each.isr) for each in cluster.describe_topic(topic).partitions} == {3}


def test_store_that_forgets_everything_is_away_and_not_empty(stores, cluster):
    cluster.create_topic("emptied", replica_assignment={0: [3, 2, 1]})
    cluster.append("emptied", [("k", "0")])
    root = stores.roots("shared")[3]
    south = RootFiles(root, StorageOptions(stores.options))
    kept = south.read(f"{root}/meta.properties", 10**6)

    south.delete(root)
    cluster.run_controller()

    assert cluster.image.brokers[3].state is BrokerState.FENCED
    partition = cluster.describe_topic("emptied").partitions[0]
    assert 3 not in partition.isr
    assert partition.leader == 2
    assert south.names(root) == []  # nothing is written where the disk is another one
    cluster.append("emptied", [("k", "1")])
    assert values_of(cluster.read("emptied")) == [0, 1]

    # The name of the disk alone is not what was on it: the replica is lost, and fetched anew.
    south.write(f"{root}/meta.properties", kept)
    for _ in range(3):
        cluster.run_controller()
        cluster.replicate()

    partition = cluster.describe_topic("emptied").partitions[0]
    assert set(partition.isr) == {1, 2, 3}
    assert values_of(cluster.read("emptied")) == [0, 1]


# fmt: off
WRONG = [
    pytest.param("profile:nobody", ["profile:nobody", "ProfileNotFound"], id="no profile"),
    pytest.param("env:NOBODY",     ["env:NOBODY", "NOBODY_AWS_ACCESS_KEY_ID"], id="no variables"),
    pytest.param("profile:south",  ["Forbidden"],                           id="another's"),
]
# fmt: on


@pytest.mark.parametrize("name, words", WRONG)
def test_wrong_credentials_are_one_sentence_with_the_root_and_nothing_is_written(
    stores, name, words
):
    named = {"credentials": name, "aws_endpoint_url": stores.north.endpoint}
    options = stores.options | {"s3://kos-north": named}
    root = stores.url(stores.north, "wrong/broker")

    with pytest.raises(InvalidRootError) as refusal:
        Cluster.create(stores.folder / "wrong", {1: root}, storage_options=options)

    said = str(refusal.value)
    assert "\n" not in said
    assert not [word for word in [root, *words] if word not in said]
    assert SECRET not in said
    assert not (stores.folder / "wrong").exists()
    with pytest.raises(KafkaStorageError, match="s3://kos-north"):
        Cluster.open("s3://kos-north/x", storage_options=options)
