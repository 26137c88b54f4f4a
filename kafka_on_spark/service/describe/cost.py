"""What operations cost: a ledger in money, by a price list. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.ports.ledger import LedgerReport, LedgerRow, RequestKind

REQUESTS_AT_ONCE: Final = 1000
"""Requests have a price a thousand."""

BYTES_AT_ONCE: Final = 10**9
"""Bytes have a price a gigabyte, as stores mean it."""

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MONTH_MS: Final = 30 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A price list, in one currency.

    Attributes:
        currency: Its name, as it is shown.
        requests: Of a thousand requests, by kind.
        bytes_in: Of a gigabyte that is put.
        bytes_out: Of a gigabyte that is read.
        cpu_hour: Of an hour of one processor core.
    """

    currency: str
    requests: Mapping[RequestKind, float]
    bytes_in: float
    bytes_out: float
    cpu_hour: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one operation costs for one topic.

    Attributes:
        row: What it has asked.
        requests: Price of its requests.
        moved: Price of the bytes that were put and read.
        cpu: Price of what it has computed.
    """

    row: LedgerRow
    requests: float
    moved: float
    cpu: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.requests + self.moved + self.cpu


def cost_of(row: LedgerRow, prices: Prices) -> Cost:
    """Return what a row of a ledger costs."""
    requests = sum(count * prices.requests[kind] for kind, count in row.requests.items())
    moved = row.bytes_in * prices.bytes_in + row.bytes_out * prices.bytes_out
    return Cost(
        row=row,
        requests=requests / REQUESTS_AT_ONCE,
        moved=moved / BYTES_AT_ONCE,
        cpu=row.cpu_ms * prices.cpu_hour / HOUR_MS,
    )


def costs_of(
    report: LedgerReport, prices: Prices, operations: Collection[str] | None = None
) -> list[Cost]:
    """Return what the rows of a ledger cost, the dearest first; `operations`: of these alone."""
    costs = [
        cost_of(row, prices)
        for row in report.rows
        if operations is None or row.operation in operations
    ]
    return sorted(costs, key=lambda each: (-each.total, each.row.operation, each.row.topic))


def total_of(costs: Collection[Cost]) -> Cost:
    """Return the sum of costs, of no operation and topic."""
    row = LedgerRow(operation="", topic="")
    for each in costs:
        row = row.plus(each.row)
    return Cost(
        row=row,
        requests=sum(each.requests for each in costs),
        moved=sum(each.moved for each in costs),
        cpu=sum(each.cpu for each in costs),
    )
