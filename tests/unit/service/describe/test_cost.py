"""What a ledger costs by a price list."""

import pytest

from kafka_on_spark.ports.ledger import LedgerReport, LedgerRow, RequestKind
from kafka_on_spark.service.describe.cost import HOUR_MS, Prices, cost_of, costs_of, total_of
from kafka_on_spark.service.describe.ledger_metrics import ledger_metrics

PRICES = Prices(
    currency="USD",
    requests={
        **dict.fromkeys(RequestKind, 0.005),
        RequestKind.GET: 0.0004,
        RequestKind.HEAD: 0.0004,
        RequestKind.DELETE: 0.0,
    },
    bytes_in=0.02,
    bytes_out=0.09,
    cpu_hour=0.04,
)

# fmt: off
CASES = [
    pytest.param({"requests": {RequestKind.PUT: 1000}},                         0.005,  id="a thousand puts"),
    pytest.param({"requests": {RequestKind.GET: 1}},                            4e-7,   id="one get"),
    pytest.param({"requests": {RequestKind.LIST: 2, RequestKind.HEAD: 5}},      1.2e-5, id="two kinds"),
    pytest.param({"requests": {RequestKind.DELETE: 10**6}},                     0.0,    id="what is free"),
    pytest.param({"bytes_in": 10**9},                                           0.02,   id="a gigabyte in"),
    pytest.param({"bytes_out": 5 * 10**8},                                      0.045,  id="half of one out"),
    pytest.param({"cpu_ms": HOUR_MS / 2},                                       0.02,   id="half an hour of CPU"),
    pytest.param({},                                                            0.0,    id="nothing"),
]
# fmt: on


@pytest.mark.parametrize("row, total", CASES)
def test_a_row_costs_what_the_list_says(row, total):
    cost = cost_of(LedgerRow(operation="append", topic="orders", **row), PRICES)

    assert cost.total == pytest.approx(total)


ROWS = (
    LedgerRow(operation="append", topic="a", requests={RequestKind.GET: 1000}, cpu_ms=5.0),
    LedgerRow(operation="append", topic="b", requests={RequestKind.PUT: 1000}, bytes_in=10),
    LedgerRow(operation="read", topic="a", requests={RequestKind.GET: 2000}, bytes_out=7),
)


def report():
    return LedgerReport(
        rows=ROWS, began_at_ms=0, ended_at_ms=1, process_cpu_ms=1.0, not_counted=("a",)
    )


def test_the_dearest_comes_first():
    costs = costs_of(report(), PRICES)

    assert [(each.row.operation, each.row.topic) for each in costs] == [
        ("append", "b"),
        ("read", "a"),
        ("append", "a"),
    ]


def test_an_operation_alone():
    assert [each.row.topic for each in costs_of(report(), PRICES, {"read"})] == ["a"]


def test_the_total_is_the_sum():
    costs = costs_of(report(), PRICES)

    total = total_of(costs)

    assert total.total == pytest.approx(sum(each.total for each in costs))
    assert total.row.requests == {RequestKind.PUT: 1000, RequestKind.GET: 3000}
    assert (total.row.bytes_in, total.row.bytes_out, total.row.cpu_ms) == (10, 7, 5.0)


def test_nothing_costs_nothing():
    assert total_of([]).total == 0.0


def test_figures_of_a_ledger_have_its_operation_topic_and_kind():
    figures = {
        (each.name, *sorted(each.labels.items())): each.value for each in ledger_metrics(ROWS[:1])
    }

    assert figures == {
        ("requests", ("kind", "GET"), ("operation", "append"), ("topic", "a")): 1000,
        ("cpu-ms", ("operation", "append"), ("topic", "a")): 5.0,
    }
