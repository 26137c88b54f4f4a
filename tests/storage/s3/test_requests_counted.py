"""What the ledger counts: on S3 the requests that its server gets, and on a disk the same ones."""

from collections import Counter
from unittest.mock import patch

import pytest

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import BrokerId, DirectoryId
from kafka_on_spark.ports.ledger import RequestKind
from kafka_on_spark.storage.delta.files.commit_files import CommitFiles
from kafka_on_spark.storage.identity.root_clock import root_now_ms
from kafka_on_spark.storage.identity.root_identity import encode_properties, probe_root
from kafka_on_spark.storage.ledger import as_on_s3
from kafka_on_spark.storage.ledger.ledger import Ledger
from kafka_on_spark.storage.replicas.evidence import inspect_root
from kafka_on_spark.storage.replicas.view_table import file_sizes
from kafka_on_spark.storage.roots import object_files
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions
from tests.storage.s3.faulty_s3 import BUCKET, Kind, faulty_s3
from tests.storage.tables import create, live, opened

TABLE = f"orders-{'a' * 32}/0-{'b' * 32}"
DIRECTORY = DirectoryId("c" * 32)


@pytest.fixture(scope="module")
def store():
    with faulty_s3() as store:
        yield store


@pytest.fixture
def roots(store, request, tmp_path):
    """Return the same root on a disk and on S3, with the same files on it."""
    files = [
        RootFiles(str(tmp_path), StorageOptions()),
        RootFiles(
            f"s3://{BUCKET}/{abs(hash(request.node.name))}",
            StorageOptions(store.options(max_retries="3")),
        ),
    ]
    (tmp_path / TABLE / "_delta_log").mkdir(parents=True)
    for each in files:
        each.write(f"{each.url}/meta.properties", identity())
        each.write(f"{each.url}/{TABLE}/one", b"12345")
        each.write(f"{each.url}/{TABLE}/empty", b"")
        each.write(f"{each.url}/{TABLE}/_delta_log/{0:020}.json", b"{}\n")
    return files


def identity():
    return encode_properties("cluster", f"broker.id={BrokerId(1)}", DIRECTORY)


def log_of(files):
    return CommitFiles(f"{files.url}/{TABLE}", files)


def inspected(files, work):
    with inspect_root(files.url, DIRECTORY, files.options) as inspection:
        return work(inspection)


def in_table(name):
    return lambda files: f"{files.url}/{TABLE}/{name}"


one, empty, none, new = map(in_table, ("one", "empty", "none", "new"))


def by_requests_of(count, work):
    """Have a request fetch so many bytes at most."""
    with (
        patch.object(as_on_s3, "FETCH_BYTES", count),
        patch.object(object_files, "FETCH_BYTES", count),
    ):
        return work()


# fmt: off
CALLS = {
    "read":                         lambda files: files.read(one(files), 100),
    "read what is empty":           lambda files: files.read(empty(files), 100),
    "read what is not there":       lambda files: files.read(none(files), 100),
    "read in pieces":               lambda files: [bytes(each) for each in files.pieces(one(files), 100)],
    "read by five requests":        lambda files: by_requests_of(1, lambda: files.read(one(files), 100)),
    "read in pieces, by three":     lambda files: by_requests_of(2, lambda: b"".join(map(bytes, files.pieces(one(files), 100)))),
    "ask for a size":               lambda files: files.size(one(files)),
    "ask for no size":              lambda files: files.size(none(files)),
    "list":                         lambda files: files.names(f"{files.url}/{TABLE}"),
    "list what is not there":       lambda files: files.names(none(files)),
    "write":                        lambda files: files.write(new(files), b"123"),
    "write two":                    lambda files: files.write_all([(new(files), [b"1", b"23"]), (none(files), [b"4"])]),
    "write if absent":              lambda files: files.write_if_absent(new(files), b"123"),
    "write what is there":          lambda files: files.write_if_absent(one(files), b"123"),
    "delete a file":                lambda files: files.delete_file(one(files)),
    "delete no file":               lambda files: files.delete_file(none(files)),
    "delete a folder":              lambda files: files.delete(f"{files.url}/{TABLE}"),
    "commit":                       lambda files: log_of(files).put(1, b"{}\n{}\n", is_flushed=True),
    "commit where one stands":      lambda files: log_of(files).put(0, b"{}\n{}\n", is_flushed=True),
    "read a commit":                lambda files: log_of(files).read(0).content,
    "read no commit":               lambda files: log_of(files).read(1),
    "read commits at once":         lambda files: log_of(files).contents([0, 1]),
    "look at commits":              lambda files: [each is None for each in log_of(files).stamps((0, 1))],
    "sizes of files":               lambda files: file_sizes(files.url, f"{files.url}/{TABLE}", files.options)["one"],
    "inspect: read":                lambda files: inspected(files, lambda root: root.read(f"{TABLE}/one", 100)),
    "inspect: read nothing":        lambda files: inspected(files, lambda root: root.read(f"{TABLE}/none", 100)),
    "inspect: size":                lambda files: inspected(files, lambda root: root.size(f"{TABLE}/one")),
    "inspect: no size":             lambda files: inspected(files, lambda root: root.size(f"{TABLE}/none")),
    "inspect: list":                lambda files: inspected(files, lambda root: "one" in root.names(TABLE)),
    "probe":                        lambda files: probe_root(files.url, DIRECTORY, files.options),
    "clock":                        lambda files: root_now_ms(files.url, DIRECTORY, files.options) > 0,
    "open a table":                 lambda files: opened(f"{files.url}/t", files.options).version,
}
# fmt: on


def counted(call, files):
    ledger = Ledger()
    with ledger.operating("test"):
        answer = call(files)
    return answer, {
        row.topic: (dict(row.requests), row.bytes_in, row.bytes_out)
        for row in ledger.rows()
        if row.requests
    }


def as_billed(requests):
    """Return how many requests of each kind a server got, of lines as `METHOD /path`."""
    kinds = Counter()
    for each in requests:
        method, path = each.split()
        is_of_bucket = path == f"/{BUCKET}"
        if method == "GET" and is_of_bucket:
            kinds[RequestKind.LIST] += 1
        elif method == "POST" and is_of_bucket:
            kinds[RequestKind.DELETE] += 1
        else:
            kinds[RequestKind(method)] += 1
    return kinds


@pytest.mark.parametrize("name", CALLS)
def test_a_call_to_a_disk_counts_what_s3_is_asked_for_it(name, roots, store):
    disk, s3 = roots
    if name == "open a table":
        for each in roots:
            create(f"{each.url}/t", each.options)

    on_disk = counted(CALLS[name], disk)
    store.requests.clear()
    on_s3 = counted(CALLS[name], s3)

    assert on_disk == on_s3
    requests = sum((Counter(each[0]) for each in on_s3[1].values()), Counter())
    assert requests == as_billed(store.requests)


def test_each_try_of_a_request_counts(roots, store):
    s3 = roots[1]
    store.order(Kind.BUSY, method="GET", suffix="one", count=2)
    store.requests.clear()

    content, rows = counted(CALLS["read"], s3)

    assert content == b"12345"
    assert rows == {"orders": ({RequestKind.GET: 3}, 0, 5)}
    assert len(store.requests) == 3


def test_a_request_that_fails_for_good_counts(roots, store):
    s3 = roots[1]
    store.order(Kind.DENIED, method="GET", suffix="one")
    store.requests.clear()
    ledger = Ledger()

    with ledger.operating("test"), pytest.raises(KafkaStorageError):
        s3.read(one(s3), 100)

    [row] = [each for each in ledger.rows() if each.requests]
    assert row.bytes_out == 0
    assert Counter(row.requests) == as_billed(store.requests)
    assert row.requests[RequestKind.GET] == 1


@pytest.mark.parametrize("checkpoints", [1, 2])
def test_a_checkpoint_counts_what_delta_rs_asks_for_it(roots, store, checkpoints, monkeypatch):
    interval = 4
    monkeypatch.setattr(
        "kafka_on_spark.storage.delta.conditional_commit.CHECKPOINT_INTERVAL", interval
    )
    tables = [create(f"{each.url}/t", each.options) for each in roots]
    for each in tables:
        live(each, interval * checkpoints - 1)
    found = []
    for files, table in zip(roots, tables, strict=True):
        store.requests.clear()
        found.append(counted(lambda _, table=table: live(table, 1), files)[1])

    assert found[0] == found[1]
    [(requests, _, _)] = found[1].values()
    assert Counter(requests) == as_billed(store.requests)
