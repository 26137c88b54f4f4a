"""What operations ask of stores: the words of a ledger of requests, bytes and CPU.

Apart from who counts: a price list, a table and a file of it know no store and no thread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from kafka_on_spark.notebook import Shown

OTHER: Final = "(other)"
"""The operation of what no operation has begun, and the topic of what finds no more room."""

METADATA: Final = "__cluster_metadata"
"""The topic of the metadata log."""

NO_TOPIC: Final = ""
"""The topic of a root's own files: its identity, probes, lists of what stands on it."""


class RequestKind(StrEnum):
    """A request as stores bill it, by S3's words. `POST` begins and ends an upload in parts; a
    request that deletes many objects is one `DELETE`."""

    PUT = "PUT"
    COPY = "COPY"
    POST = "POST"
    LIST = "LIST"
    GET = "GET"
    HEAD = "HEAD"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """What one operation has asked for one topic.

    Attributes:
        operation: Its name, such as "append".
        topic: Of whose files; NO_TOPIC: of a root's own.
        requests: How many, by kind.
        bytes_in: Of the objects that were put.
        bytes_out: Of the objects that were read.
        cpu_ms: Time that threads of this process computed for it.
    """

    operation: str
    topic: str
    requests: Mapping[RequestKind, int] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    cpu_ms: float = 0.0

    def plus(self, other: "LedgerRow") -> Self:
        """Return the sum of this row and another one, under this one's names."""
        kinds = [each for each in RequestKind if each in self.requests or each in other.requests]
        return type(self)(
            operation=self.operation,
            topic=self.topic,
            requests={
                each: self.requests.get(each, 0) + other.requests.get(each, 0) for each in kinds
            },
            bytes_in=self.bytes_in + other.bytes_in,
            bytes_out=self.bytes_out + other.bytes_out,
            cpu_ms=self.cpu_ms + other.cpu_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReport(Shown):
    """What one process has asked of the roots of one cluster, or several processes together.

    Attributes:
        rows: By operation and topic, sorted.
        began_at_ms: Since when it counts, ms since 1970 UTC.
        ended_at_ms: Until when.
        process_cpu_ms: What the process has computed in all; more than the rows say.
        not_counted: What the ledger does not have, in a sentence each. Never empty.
    """

    rows: tuple[LedgerRow, ...]
    began_at_ms: int
    ended_at_ms: int
    process_cpu_ms: float
    not_counted: tuple[str, ...]

    @property
    def duration_ms(self) -> int:
        """For how long it has counted."""
        return max(0, self.ended_at_ms - self.began_at_ms)

    def plus(self, other: "LedgerReport") -> Self:
        """Return the sum of the reports of two processes, from the first's begin to the last's
        end."""
        return type(self)(
            rows=summed((*self.rows, *other.rows)),
            began_at_ms=min(self.began_at_ms, other.began_at_ms),
            ended_at_ms=max(self.ended_at_ms, other.ended_at_ms),
            process_cpu_ms=self.process_cpu_ms + other.process_cpu_ms,
            not_counted=tuple(dict.fromkeys((*self.not_counted, *other.not_counted))),
        )


def summed(rows: Iterable[LedgerRow]) -> tuple[LedgerRow, ...]:
    """Return one row an operation and topic, sorted by both."""
    found: dict[tuple[str, str], LedgerRow] = {}
    for row in rows:
        place = (row.operation, row.topic)
        found[place] = found[place].plus(row) if place in found else row
    return tuple(found[place] for place in sorted(found))
