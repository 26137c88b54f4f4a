"""Roots that can't be used, clusters that aren't there, sessions that can't run tasks."""

import socket

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidRootError,
    ProtocolError,
)
from tests.bad_input.refusals import check_sentence
from tests.cluster.disks import new_disks

CONNECT = ["Spark Connect", "no mapPartitions", "classic SparkSession"]


@pytest.fixture
def nobody():
    """The options of an S3 endpoint without a server."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port.getsockname()[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "canary-Hd8sQpLw",
            "AWS_REGION": "us-east-1",
            "timeout": "200ms",
            "connect_timeout": "200ms",
            "max_retries": "0",
        }


def file_in(disks):
    path = disks.base / "a-file"
    path.write_text("no folder")
    return path


def foreign(disks):
    path = disks.base / "foreign"
    path.mkdir(exist_ok=True)
    (path / "meta.properties").write_text("something=else\n")
    return path


# fmt: off
ROOTS = [
    pytest.param(4, file_in,                            InvalidRootError,                 ["a-file can't be a root", "give a folder"],               id="a file"),
    pytest.param(4, lambda disks: file_in(disks) / "x", InvalidRootError,                 ["a-file/x can't be", "give a folder"],                    id="below a file"),
    pytest.param(4, lambda _: "/proc/kafka",            InvalidRootError,                 ["/proc/kafka can't be", "give a folder"],                 id="a place that can't be written"),
    pytest.param(4, lambda _: "",                       InvalidRootError,                 ["'' is not a root", "give a folder or a URL"],            id="no text"),
    pytest.param(4, lambda _: None,                     InvalidRootError,                 ["None is not a root", "give a folder or a URL"],          id="nothing"),
    pytest.param(4, lambda _: "ftp://host/x",          InvalidRootError,                 ["'ftp://host/x' is not a root", "such as s3://"],         id="an unknown scheme"),
    pytest.param(4, lambda _: "s3://me:secret@host/x",  InvalidRootError,                 ["give credentials as storage options"],                   id="a URL with a password"),
    pytest.param(4, foreign,                            InvalidRootError,                 ["meta.properties is not a broker's", "an empty folder"],  id="not a root of ours"),
    pytest.param(4, lambda disks: disks.root(2),        DuplicateBrokerRegistrationError, ["belongs to broker 2, not to 4", "a root of its own"],    id="another broker's"),
    pytest.param(2, lambda disks: disks.root(2),        DuplicateBrokerRegistrationError, ["broker 2 is registered already", "give a new broker another id"], id="registered already"),
]
# fmt: on


@pytest.mark.parametrize("broker_id, root, error, words", ROOTS)
def test_a_root_that_cannot_be_registered(disks, refused, broker_id, root, error, words):
    path = root(disks)

    with refused(error, *words):
        disks.cluster.register_broker(broker_id, path)


# fmt: off
REGISTRATIONS = [
    pytest.param(2,   None, DuplicateBrokerRegistrationError, ["broker 2 is registered already", "only after it was fenced"], id="an id that is taken"),
    pytest.param(-1,  None, InvalidRequestError,              ["broker id -1", "ids are 0 or more"],                          id="a negative id"),
    pytest.param("4", None, InvalidRequestError,              ["a broker id can't be '4'", "give a whole number"],            id="an id in digits"),
    pytest.param(4,   7,    InvalidRequestError,              ["the rack of broker 4 can't be 7", "give a text"],             id="a number for a rack"),
]
# fmt: on


@pytest.mark.parametrize("broker_id, rack, error, words", REGISTRATIONS)
def test_a_refused_registration_leaves_a_free_root_free(
    disks, refused, broker_id, rack, error, words
):
    free = disks.base / "free"

    with refused(error, *words):
        disks.cluster.register_broker(broker_id, free, rack=rack)

    assert not free.exists()


@pytest.mark.parametrize("is_broker", [True, False], ids=["a broker", "its metadata"])
@pytest.mark.parametrize("root", ["a-file", "", "ftp://host/x"])
def test_a_cluster_is_not_created_on_what_cannot_be_a_root(disks, refused, root, is_broker):
    path = file_in(disks) if root == "a-file" else root
    metadata = disks.base / "new-meta" if is_broker else path
    brokers = {1: disks.base / "new", 2: path} if is_broker else {1: disks.base / "new"}

    with refused(InvalidRootError, "give a folder"):
        Cluster.create(metadata, brokers)

    assert not (disks.base / "new").exists()


def test_a_root_of_another_cluster(disks, refused):
    with new_disks(brokers=1) as others, refused(
        InconsistentClusterIdError, "belongs to cluster", "give each cluster roots of its own"
    ):  # fmt: skip
        disks.cluster.register_broker(1, others.root(1))


# fmt: off
USES = [
    pytest.param(lambda disks, options: Cluster.open(disks.metadata_root, storage_options=options).register_broker(4, "s3://b/4"), id="register"),
    pytest.param(lambda disks, options: Cluster.create(disks.base / "new-meta", {1: "s3://b/1"}, storage_options=options),         id="create"),
    pytest.param(lambda disks, options: Cluster.open("s3://b/meta", storage_options=options),                                      id="open"),
]
# fmt: on


@pytest.mark.parametrize("use", USES)
def test_a_store_that_does_not_answer(disks, nobody, use):
    with pytest.raises(ProtocolError) as caught:
        use(disks, nobody)

    check_sentence(str(caught.value), "s3://b/")
    assert "canary" not in repr(caught.value) + str(caught.value.__cause__)
    assert not (disks.base / "new-meta").exists()
    assert 4 not in disks.cluster.image.brokers


@pytest.mark.parametrize("path", ["missing", "broker-1", "a-file"])
def test_a_cluster_folder_that_does_not_exist(disks, refused, path):
    file_in(disks)

    with refused(
        ClusterNotFoundError,
        f"no cluster at {disks.base / path}",
        "Cluster.create",
        "check the path",
    ):
        Cluster.open(disks.base / path)

    assert not (disks.base / "missing").exists()


def connect(module, name):
    """Return an object of a class that looks like one of Spark Connect's."""
    return type(name, (), {"__module__": f"pyspark.sql.connect.{module}"})()


def test_a_spark_connect_session_is_refused(disks, refused):
    with refused(InvalidRequestError, *CONNECT):
        Cluster.open(disks.metadata_root, spark=connect("session", "SparkSession"))


def test_a_spark_connect_frame_is_refused(cluster, refused):
    with refused(InvalidRequestError, *CONNECT, "collect it to an Arrow table"):
        cluster.append("orders", connect("dataframe", "DataFrame"))
