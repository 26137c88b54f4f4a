"""What is counted of requests: on S3 those that its server gets, elsewhere each call to a root."""

import re
from collections import Counter
from pathlib import Path

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.store.counts import count_request, current_operation, operating, requests_sent
from kafka_on_spark.store.deadlines import DaemonThreads, within
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.cluster.disks import FAST, records
from tests.store.s3.faulty_s3 import BUCKET, Kind, faulty_s3
from tests.store.tables import create, live

PAGE = Path(__file__).parents[3] / "docs" / "watching.md"


@pytest.fixture(scope="module")
def store():
    with faulty_s3() as store:
        yield store


@pytest.fixture
def s3(store, request):
    options = StorageOptions(store.options(max_retries="3"))
    files = RootFiles(f"s3://{BUCKET}/{abs(hash(request.node.name))}", options)
    files.write(f"{files.url}/one", b"12345")
    return files


def counted(work):
    """Return the answer of `work`, and what it has sent as an operation of its own, by kind."""
    before = requests_sent()
    with operating("test"):
        answer = work()
    found = requests_sent() - before
    return answer, Counter(
        {kind: n for (operation, kind), n in found.items() if operation == "test"}
    )


def as_billed(requests):
    """Return how many requests of each kind a server got, of lines as `METHOD /path`."""
    kinds = Counter()
    for each in requests:
        method, path = each.split()
        if path == f"/{BUCKET}":
            method = {"GET": "LIST", "POST": "DELETE"}.get(method, method)
        kinds[method] += 1
    return kinds


# fmt: off
CALLS = {
    "read":                   lambda files: files.read(f"{files.url}/one", 100),
    "read what is not there": lambda files: files.read(f"{files.url}/none", 100),
    "ask for a size":         lambda files: files.size(f"{files.url}/one"),
    "list":                   lambda files: files.names(files.url),
    "write":                  lambda files: files.write(f"{files.url}/new", b"123"),
    "write if absent":        lambda files: files.write_if_absent(f"{files.url}/new", b"123"),
    "write what is there":    lambda files: files.write_if_absent(f"{files.url}/one", b"123"),
    "delete a file":          lambda files: files.delete_file(f"{files.url}/one"),
    "delete a folder":        lambda files: files.delete(files.url),
    "commit":                 lambda files: live(create(f"{files.url}/t", files.options), 1),
}
# fmt: on


@pytest.mark.parametrize("name", CALLS)
def test_requests_to_s3_count_as_its_server_gets_them(name, s3, store):
    store.requests.clear()

    _, kinds = counted(lambda: CALLS[name](s3))

    assert kinds == as_billed(store.requests)
    assert kinds


def test_each_try_of_a_request_counts_and_one_that_fails_for_good(s3, store):
    store.order(Kind.BUSY, method="GET", suffix="one", count=2)

    assert counted(lambda: CALLS["read"](s3)) == (b"12345", {"GET": 3})

    store.order(Kind.DENIED, method="GET", suffix="one")
    store.requests.clear()
    with pytest.raises(KafkaStorageError), operating("denied"):
        CALLS["read"](s3)
    assert requests_sent()["denied", "GET"] == as_billed(store.requests)["GET"] == 1


def test_an_operation_within_another_counts_alone_and_threads_count_for_theirs():
    threads = DaemonThreads(2, "test")

    def ask():
        count_request("GET", "/disk/file")

    def work():
        with operating("inner"):
            ask()
        ask()
        within("/disk", ask)
        threads.submit(ask).result()
        threads.submit(lambda: within("/disk", ask)).result()

    before = requests_sent()["inner", "GET"]
    _, kinds = counted(work)
    threads.submit(ask).result()  # for nobody any more
    threads.shutdown()

    assert kinds == {"GET": 4}
    assert requests_sent()["inner", "GET"] == before + 1
    with pytest.raises(ZeroDivisionError), operating("fails"):
        raise ZeroDivisionError
    assert current_operation() == "(other)"


@pytest.mark.long
def test_an_append_costs_on_s3_what_the_page_says(store):
    rows = re.findall(r"^\| ([123]) \| (\d+) \| (\d+) \|", PAGE.read_text(), re.M)
    told = {int(replicas): {"PUT": int(puts), "HEAD": int(looks)} for replicas, puts, looks in rows}
    replica_store.cache_clear()
    root = f"s3://{BUCKET}/costs"
    brokers = {each: f"{root}/{each}" for each in (1, 2, 3)}

    measured = {}
    with Cluster.create(
        f"{root}/m", brokers, configs=FAST, storage_options=store.options(max_retries="3")
    ) as cluster:
        for replicas in (1, 2, 3):
            topic = f"by-{replicas}"
            cluster.create_topic(topic, partitions=1, replication_factor=replicas)
            for value in ("first", "second"):
                cluster.append(topic, records(value))
            cluster._node.maintenance.finish()
            before = requests_sent()
            cluster.append(topic, records("third"))
            measured[replicas] = {
                kind: count for (_, kind), count in (requests_sent() - before).items()
            }

    assert measured == told
