"""`maintain`: all upkeep of replicas that is due; rounds and controllers do it share by share."""

from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import FOUND, ClusterUrl, Format, Include, StorageOption
from kafka_on_spark.cli.call.output import (
    Output,
    note,
    plural,
    progress,
    say,
    write_json,
    write_table,
)
from kafka_on_spark.cli.call.session import opened
from kafka_on_spark.cli.kafka.kafka_names import named_topics
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport

COLUMNS: Final = {
    "log": "log",
    "broker": "broker",
    "kind": "work",
    "count": "count",
    "what": "what",
    "bytes": "bytes",
    "left": "left",
}
SHOWN_MAX: Final = 20
"""Lines that name what was not looked at: a broker may have a hundred thousand replicas."""


def maintain(
    cluster: ClusterUrl,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAMES", help="Topics, with commas between."),
    ] = None,
    include: Include = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is due, and change nothing.")
    ] = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Do all upkeep of replicas that is due now, and say what was done.

    Rounds of replication and passes of the controller do a share of it by themselves
    (log.cleaner.share), and this call all at once, as fast as log.cleaner.io.max.bytes.per.second
    lets it. The exit code is 1 if something is left, because it went wrong, or could not be looked
    at: a broker is fenced, or a partition has no leader.
    """
    with opened(cluster, storage_option, output) as session:
        is_all = topic is None and include is None
        topics = None if is_all else named_topics(session.cluster.image, topic, include)
        with progress("looking for work" if dry_run else "maintaining") as steps:
            report = session.cluster.maintain(topics, is_dry_run=dry_run, after_part=steps.show)
    rows = rows_of(report)
    if output is Output.JSON:
        fields = {"dry_run": dry_run, "replicas": report.visited, "rows": rows}
        write_json({**fields, "not_looked_at": list(report.not_looked_at)})
    else:
        _show(report, rows, is_dry_run=dry_run)
    raise typer.Exit(FOUND if report.is_left else 0)


def rows_of(report: UpkeepReport) -> list[dict[str, Any]]:
    """Return a report's rows as plain values."""
    return [
        {
            "topic": row.topic,
            "partition": row.partition,
            "broker": row.broker_id,
            "kind": row.kind,
            "count": row.count,
            "what": row.what,
            "bytes": row.size_bytes,
            "left": row.is_left,
            "error": row.error,
        }
        for row in report.rows
    ]


def _show(report: UpkeepReport, rows: list[dict[str, Any]], *, is_dry_run: bool) -> None:
    for row in report.rows:
        if row.error:
            note(str(row))
    for each in report.not_looked_at[:SHOWN_MAX]:
        note(f"not looked at: {each}")
    more = len(report.not_looked_at) - SHOWN_MAX
    if more > 0:
        note(f"not looked at: {more:,} more, all of which --output json lists")
    done = [
        {**shown, "log": row.log, "left": row.is_left or None}
        for row, shown in zip(report.rows, rows, strict=True)
        if row.count or row.is_left
    ]
    if done:
        write_table(COLUMNS, done)
    visited = f"Visited {plural(report.visited, 'replica')}"
    if not rows:
        there = " there" if report.not_looked_at else ""
        say(f"{visited}: nothing {'is' if is_dry_run else 'was'} due{there}.")
    elif is_dry_run:
        say(f"{visited}: a dry run, nothing was changed.")
    else:
        say(f"{visited}: {'work is left' if report.is_left else 'all that was due is done'}.")
