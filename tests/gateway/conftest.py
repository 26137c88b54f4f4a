import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.gateway.gateway import Gateway, listening_at
from tests.gateway.raw_client import RawClient

CONFIGS = {"retention.ms": "-1", "group.consumer.heartbeat.interval.ms": "200"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    brokers = {each: folder / str(each) for each in (1, 2, 3)}
    with Cluster.create(folder / "metadata", brokers, configs=CONFIGS) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(cluster):
    made = Gateway(cluster._node, listening_at("127.0.0.1:0"))
    made.begin()
    yield made
    made.end()


@pytest.fixture
def client(gateway):
    with RawClient((gateway.host, gateway.port)) as connected:
        yield connected


@pytest.fixture
def topic(cluster, request):
    """The name of a topic of two partitions that only this test has."""
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    cluster.create_topic(name, partitions=2, replication_factor=3)
    return name
