"""`cost`: what operations cost by a price list, from ledgers or a measured call."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import Format
from kafka_on_spark.cli.call.output import Output, note, write_json, write_table
from kafka_on_spark.cli.cost.ledger_file import read_ledger, row_value
from kafka_on_spark.cli.cost.prices import read_prices
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ports.ledger import LedgerReport, RequestKind
from kafka_on_spark.service.describe.cost import (
    DAY_MS,
    HOUR_MS,
    MONTH_MS,
    Cost,
    Prices,
    costs_of,
    total_of,
)
from kafka_on_spark.storage.ledger.ledger import measuring
from kafka_on_spark.visible import visible_json

COLUMNS: Final = {
    "operation": "operation",
    "topic": "topic",
    **{kind.value: kind.value for kind in RequestKind},
    "bytes_in": "bytes in",
    "bytes_out": "bytes out",
    "cpu_s": "CPU s",
    "cost": "cost",
}
OTHER_NAMES: Final[Mapping[str, str]] = {"produce": "append"}
"""Operations that the command line calls otherwise."""


class Per(StrEnum):
    """For how long a cost is."""

    RUN = "run"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


_MS: Final[Mapping[Per, int]] = {Per.HOUR: HOUR_MS, Per.DAY: DAY_MS, Per.MONTH: MONTH_MS}


def cost(
    context: typer.Context,
    prices: Annotated[
        Path,
        typer.Option(
            "--prices", metavar="FILE.toml", help="The price list: docs/service/prices.toml is one."
        ),
    ],
    call: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- VERB …]", help="A call of another verb, to be measured."),
    ] = None,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="A ledger that `serve --ledger` has written; several are added up.",
        ),
    ] = None,
    of: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="OPERATION",
            help="Only this operation, such as append; may be given more than once.",
        ),
    ] = None,
    per: Annotated[
        Per,
        typer.Option(
            "--per", help="Extrapolate to so long, a month having 30 days; run: what was measured."
        ),
    ] = Per.RUN,
    output: Format = Output.TABLE,
) -> None:
    """Say what operations cost on S3, by a price list: from the ledger of a process, or of a call.

    Of roots on S3 a ledger has the requests that were sent; of roots on disks those that S3 would
    get for the same work. The answer of a measured call goes to standard output, its cost to
    standard error, and its exit code is the call's.
    """
    if bool(ledger) == bool(call):
        raise InvalidRequestError(
            "cost takes the ledger of a process, or a call to measure: give --ledger FILE, or --"
            " and a verb with its options"
        )
    price_list = read_prices(prices)
    if ledger:
        report = reduce(LedgerReport.plus, map(read_ledger, ledger))
        _show(_answer(report, price_list, of, per), output)
        return
    with measuring() as measured:
        code = _code_of(context, call or [])
    try:
        _tell(_answer(measured.report(), price_list, of, per), output)
    except InvalidRequestError as error:  # the call is made, and its code counts
        note(f"its cost can't be told: {error}")
    raise typer.Exit(code)


def _code_of(context: typer.Context, call: Sequence[str]) -> int:
    """Make a call, and return its exit code."""
    root = context.find_root()
    try:
        root.command.main(list(call), prog_name=root.info_name)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _answer(
    report: LedgerReport, prices: Prices, of: Sequence[str] | None, per: Per
) -> dict[str, Any]:
    """Return the costs of a ledger as plain values.

    Raises:
        InvalidRequestError: No operation of that name is in it, or it is of no time.
    """
    known = sorted({each.operation for each in report.rows})
    names = None if not of else {OTHER_NAMES.get(each, each) for each in of}
    unknown = sorted((names or set()) - set(known))
    if unknown:
        raise InvalidRequestError(
            f"--for can't be {unknown[0]!r}, which is not in the ledger: it has"
            f" {', '.join(known) or 'nothing'}"
        )
    times = 1.0 if per is Per.RUN else _MS[per] / (report.duration_ms or _no_time())
    costs = costs_of(report, prices, names)
    return {
        "currency": prices.currency,
        "per": per.value,
        "measured_ms": report.duration_ms,
        "process_cpu_ms": round(report.process_cpu_ms, 3),
        "rows": [_row(each, times) for each in costs],
        "total": {
            name: value
            for name, value in _row(total_of(costs), times).items()
            if name not in ("operation", "topic")
        },
        "not_counted": list(report.not_counted),
    }


def _no_time() -> int:
    raise InvalidRequestError("--per needs a ledger of some time, and this one is of none")


def _row(cost: Cost, times: float) -> dict[str, Any]:
    row = row_value(cost.row)
    return {
        **row,
        "requests": {kind: _scaled(count, times) for kind, count in row["requests"].items()},
        **{name: _scaled(row[name], times) for name in ("bytes_in", "bytes_out", "cpu_ms")},
        "cost_of_requests": cost.requests * times,
        "cost_of_bytes": cost.moved * times,
        "cost_of_cpu": cost.cpu * times,
        "cost": cost.total * times,
    }


def _scaled(count: float, times: float) -> float:
    return count if times == 1.0 else round(count * times)


def _show(answer: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        write_json(answer)
        return
    write_table({**COLUMNS, "cost": answer["currency"]}, _shown(answer))
    for line in _said(answer):
        note(line)


def _tell(answer: dict[str, Any], output: Output) -> None:
    """Tell the cost of a measured call on standard error: standard output has its answer. As JSON
    it is one line, the last."""
    if output is Output.JSON:
        note(visible_json(answer))
        return
    for row in _shown(answer):
        requests = ", ".join(f"{row[kind]} {kind}" for kind in RequestKind if row.get(kind))
        what = f"{row['operation']} {row['topic'] or ''}".strip()
        note(
            f"{row['cost']} {answer['currency']}  {what}: {requests or 'no request'};"
            f" {row['bytes_in']} bytes in, {row['bytes_out']} out; {row['cpu_s']} s of CPU"
        )
    for line in _said(answer):
        note(line)


def _shown(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for row in (*answer["rows"], {"operation": "total", "topic": "", **answer["total"]}):
        yield {
            **row,
            **row["requests"],
            "cpu_s": f"{row['cpu_ms'] / 1000:.2f}",
            "cost": f"{row['cost']:.6f}",
        }


def _said(answer: dict[str, Any]) -> Iterator[str]:
    seconds = answer["measured_ms"] / 1000
    yield (
        f"Measured for {seconds:,.1f} s, in which the process computed"
        f" {answer['process_cpu_ms'] / 1000:,.1f} s"
        + ("." if answer["per"] == Per.RUN else f"; extrapolated to a {answer['per']}.")
    )
    for each in answer["not_counted"]:
        yield f"Not counted: {each}"
