"""The ledger of what is asked of roots: by operation and topic, across threads, in bounded memory."""

import threading

import pytest

from kafka_on_spark.ports.ledger import (
    METADATA,
    NO_TOPIC,
    OTHER,
    LedgerReport,
    LedgerRow,
    RequestKind,
)
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.calls.deadlines import within
from kafka_on_spark.storage.ledger import ledger as ledger_module
from kafka_on_spark.storage.ledger.ledger import (
    Ledger,
    asked,
    count_for_current,
    current_operation,
    for_topic,
    on_a_disk_alone,
    pages_of,
    topic_of,
    within_operation,
)

ID, UUID = "a" * 32, "b" * 32
ORDERS = f"/disk/orders-{ID}/0-{UUID}"

# fmt: off
PATHS = [
    pytest.param(f"{ORDERS}/3-{UUID}-{ID}.parquet",             "orders",   id="a segment"),
    pytest.param(f"{ORDERS}/_delta_log/{0:020}.json",           "orders",   id="a commit"),
    pytest.param(ORDERS,                                        "orders",   id="a replica's folder"),
    pytest.param(f"{ORDERS}/_delta_log",                        "orders",   id="its log"),
    pytest.param(f"bucket/b/orders-{ID}/0-{UUID}/_delta_log/",  "orders",   id="a prefix"),
    pytest.param(f"/disk/orders-{ID}",                          "orders",   id="a topic's folder"),
    pytest.param(f"/disk/a-b.c_d-{ID}/12-{UUID}/x",             "a-b.c_d",  id="a name with dashes"),
    pytest.param(f"/disk/7-{ID}/12-{UUID}/x",                   "7",        id="a topic that is a number"),
    pytest.param(f"/disk/7-{ID}",                               "7",        id="the folder of such a topic"),
    pytest.param(f"/m/{METADATA}-0-{ID}/_delta_log/x.json",     METADATA,   id="the metadata log"),
    pytest.param("/m/snapshots/00000000000000000007-1.parquet", METADATA,   id="a snapshot"),
    pytest.param("/m/groups/billing",                           METADATA,   id="heartbeats"),
    pytest.param("/disk/meta.properties",                       NO_TOPIC,   id="an identity"),
    pytest.param(f"/disk/_probe-{ID}",                          NO_TOPIC,   id="a probe"),
    pytest.param("/disk",                                       NO_TOPIC,   id="a root"),
    pytest.param("",                                            NO_TOPIC,   id="nothing"),
]
# fmt: on


@pytest.mark.parametrize("path, topic", PATHS)
def test_a_path_tells_the_topic(path, topic):
    assert topic_of(path) == topic


def test_what_is_asked_counts_for_the_operation_and_the_topic_of_the_path():
    ledger = Ledger()

    with ledger.operating("append"):
        asked(RequestKind.PUT, f"{ORDERS}/x", bytes_in=7)
        asked(RequestKind.PUT, f"{ORDERS}/y", bytes_in=5)
        asked(RequestKind.GET, "/disk/meta.properties", bytes_out=3)

    by_topic = {row.topic: row for row in ledger.rows()}
    assert {row.operation for row in by_topic.values()} == {"append"}
    assert by_topic["orders"].requests == {RequestKind.PUT: 2}
    assert by_topic["orders"].bytes_in == 12
    assert by_topic[NO_TOPIC].requests == {RequestKind.GET: 1}
    assert by_topic[NO_TOPIC].bytes_out == 3


def requests_of(ledger):
    return {row.operation: sum(row.requests.values()) for row in ledger.rows() if row.requests}


def test_an_operation_within_another_counts_alone():
    ledger = Ledger()

    with ledger.operating("control"):
        asked(RequestKind.GET, ORDERS)
        with within_operation("probe"):
            asked(RequestKind.PUT, ORDERS)
            asked(RequestKind.PUT, ORDERS)
        asked(RequestKind.GET, ORDERS)

    assert requests_of(ledger) == {"control": 2, "probe": 2}


def test_an_operation_that_fails_is_over():
    ledger = Ledger()

    with pytest.raises(ValueError, match="it fails"), ledger.operating("append"):
        raise ValueError("it fails")

    assert current_operation() == OTHER


def test_threads_that_work_for_an_operation_count_for_it():
    ledger, threads = Ledger(), DaemonThreads(2, "test")

    def ask():
        asked(RequestKind.GET, ORDERS)

    with ledger.operating("read"):
        within("/disk", ask)
        threads.submit(ask).result()
        threads.submit(lambda: within("/disk", ask)).result()
    threads.submit(ask).result()  # for nobody any more
    threads.shutdown()

    assert requests_of(ledger) == {"read": 3}


def test_two_clusters_of_a_process_have_a_ledger_each():
    one, other = Ledger(), Ledger()

    with one.operating("append"):
        asked(RequestKind.PUT, ORDERS)
        with other.operating("append"):
            asked(RequestKind.PUT, ORDERS)
            asked(RequestKind.PUT, ORDERS)

    assert (requests_of(one), requests_of(other)) == ({"append": 1}, {"append": 2})


def test_what_no_operation_has_begun_belongs_to_the_process(monkeypatch):
    process = Ledger()
    monkeypatch.setattr(ledger_module, "PROCESS", process)

    asked(RequestKind.GET, ORDERS)
    count_for_current([LedgerRow(operation="fetch", topic="orders", bytes_in=4)])

    assert [(row.operation, row.topic) for row in process.rows()] == [
        (OTHER, "orders"),
        ("fetch", "orders"),
    ]


def test_what_a_disk_alone_is_asked_for_is_not_counted():
    ledger = Ledger()

    with ledger.operating("append"), on_a_disk_alone():
        asked(RequestKind.HEAD, ORDERS)
        within("/disk", lambda: asked(RequestKind.GET, ORDERS))

    assert requests_of(ledger) == {}


def burn():
    sum(number * number for number in range(200_000))


def test_cpu_counts_for_the_innermost_operation_of_each_thread():
    ledger = Ledger()
    threads = DaemonThreads(1, "test")

    with ledger.operating("append"):
        with within_operation("check"):
            burn()
        with for_topic("orders"):
            burn()
        threads.submit(burn).result()
    threads.shutdown()

    cpu = {(row.operation, row.topic): row.cpu_ms for row in ledger.rows()}
    assert cpu["check", NO_TOPIC] > 0
    assert cpu["append", "orders"] > 0
    assert cpu["append", NO_TOPIC] > 0  # the thread's


def test_a_thread_computes_for_nobody_before_and_after_an_operation():
    ledger = Ledger()

    burn()
    with ledger.operating("append"):
        pass
    burn()
    with ledger.operating("append"):
        pass
    burn()

    [row] = ledger.rows()
    with ledger.operating("burn"):
        burn()
    [_, burnt] = ledger.rows()
    assert row.cpu_ms < burnt.cpu_ms


def test_threads_that_count_at_once_lose_nothing():
    ledger = Ledger()

    def ask():
        with ledger.operating("append"):
            for _ in range(500):
                asked(RequestKind.PUT, ORDERS, bytes_in=2)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    [row] = [each for each in ledger.rows() if each.requests]
    assert (row.requests, row.bytes_in) == ({RequestKind.PUT: 2000}, 4000)


def test_topics_without_end_are_counted_together(monkeypatch):
    monkeypatch.setattr(ledger_module, "ROWS_MAX", 3)
    ledger = Ledger()

    with ledger.operating("append"):
        for number in range(10):
            asked(RequestKind.PUT, f"/disk/t{number}-{ID}/0-{UUID}/x")

    rows = [each for each in ledger.rows() if each.requests]
    assert len(rows) == 4
    assert {each.topic: each.requests[RequestKind.PUT] for each in rows}[OTHER] == 7


@pytest.mark.parametrize("names, pages", [(0, 1), (1, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_a_long_folder_is_listed_in_pages(names, pages):
    assert pages_of(names) == pages


def report(*rows, began=10, ended=20, cpu=5.0, not_counted=("a",)):
    return LedgerReport(
        rows=rows,
        began_at_ms=began,
        ended_at_ms=ended,
        process_cpu_ms=cpu,
        not_counted=not_counted,
    )


def test_reports_of_two_processes_are_one():
    one = report(
        LedgerRow(operation="append", topic="a", requests={RequestKind.PUT: 1}, bytes_in=3),
        LedgerRow(operation="read", topic="a", bytes_out=2),
    )
    other = report(
        LedgerRow(
            operation="append",
            topic="a",
            requests={RequestKind.PUT: 2, RequestKind.GET: 1},
            cpu_ms=1.5,
        ),
        began=5,
        ended=12,
        cpu=1.0,
        not_counted=("a", "b"),
    )

    both = one.plus(other)

    assert both == report(
        LedgerRow(
            operation="append",
            topic="a",
            requests={RequestKind.PUT: 3, RequestKind.GET: 1},
            bytes_in=3,
            cpu_ms=1.5,
        ),
        LedgerRow(operation="read", topic="a", bytes_out=2),
        began=5,
        ended=20,
        cpu=6.0,
        not_counted=("a", "b"),
    )
    assert both.duration_ms == 15
