"""A ledger as a file: JSON that a serving process writes, and `cost` reads."""

import math
from pathlib import Path
from typing import Any

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ports.ledger import LedgerReport, LedgerRow, RequestKind
from kafka_on_spark.stored_json import parse_json
from kafka_on_spark.visible import visible_json


def ledger_text(report: LedgerReport) -> str:
    """Return a ledger as JSON."""
    value = {
        "began_at_ms": report.began_at_ms,
        "ended_at_ms": report.ended_at_ms,
        "process_cpu_ms": round(report.process_cpu_ms, 3),
        "rows": [row_value(each) for each in report.rows],
        "not_counted": list(report.not_counted),
    }
    return visible_json(value, indent=2) + "\n"


def row_value(row: LedgerRow) -> dict[str, Any]:
    """Return a row as plain values."""
    return {
        "operation": row.operation,
        "topic": row.topic,
        "requests": {kind.value: count for kind, count in row.requests.items()},
        "bytes_in": row.bytes_in,
        "bytes_out": row.bytes_out,
        "cpu_ms": round(row.cpu_ms, 3),
    }


def read_ledger(path: Path) -> LedgerReport:
    """Return the ledger of a file.

    Raises:
        InvalidRequestError: It can't be read, or is no ledger.
    """
    try:
        given = parse_json(path.read_bytes())
        return LedgerReport(
            rows=tuple(_row(each) for each in _list(given["rows"])),
            began_at_ms=_count(given["began_at_ms"]),
            ended_at_ms=_count(given["ended_at_ms"]),
            process_cpu_ms=_time(given["process_cpu_ms"]),
            not_counted=tuple(_text(each) for each in _list(given["not_counted"])),
        )
    except OSError as error:
        raise InvalidRequestError(f"--ledger {str(path)!r} can't be read: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"--ledger {str(path)!r} is no ledger ({error}): give one that `serve --ledger` wrote"
        ) from None


def _row(given: Any) -> LedgerRow:
    return LedgerRow(
        operation=_text(given["operation"]),
        topic=_text(given["topic"]),
        requests={RequestKind(kind): _count(n) for kind, n in given["requests"].items()},
        bytes_in=_count(given["bytes_in"]),
        bytes_out=_count(given["bytes_out"]),
        cpu_ms=_time(given["cpu_ms"]),
    )


def _list(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise TypeError(f"{given!r:.40} is no list")
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r:.40} is no text")
    return given


def _count(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ValueError(f"{given!r:.40} is no count")
    return given


def _time(given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not math.isfinite(given) or given < 0:
        raise ValueError(f"{given!r:.40} is no time")
    return float(given)
