"""`maintain`: all upkeep of replicas that is due; rounds and controllers do it share by share."""

from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import FOUND, ClusterUrl, Format, StorageOption
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
from kafka_on_spark.cli.kafka.kafka_names import matching_topics
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport

COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "broker": "broker",
    "kind": "work",
    "count": "count",
    "what": "what",
    "bytes": "bytes",
    "left": "left",
}


def maintain(
    cluster: ClusterUrl,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="A topic, or a regular expression of names."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is due, and change nothing.")
    ] = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Do all upkeep of replicas that is due now, and say what was done.

    Rounds of replication and passes of the controller do a share of it by themselves
    (log.cleaner.share), and this call all at once, as fast as log.cleaner.io.max.bytes.per.second
    lets it. The exit code is 1 if something is left, because it went wrong.
    """
    with opened(cluster, storage_option, output) as session:
        topics = None if topic is None else matching_topics(session.cluster.image, topic)
        with progress("looking for work" if dry_run else "maintaining") as steps:
            report = session.cluster.maintain(topics, is_dry_run=dry_run, after_part=steps.show)
    rows = rows_of(report)
    if output is Output.JSON:
        write_json({"dry_run": dry_run, "replicas": report.visited, "rows": rows})
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
    done = [row for row in rows if row["count"] or row["left"]]
    if done:
        write_table(COLUMNS, done)
    visited = f"Visited {plural(report.visited, 'replica')}"
    if not rows:
        say(f"{visited}: nothing {'is' if is_dry_run else 'was'} due.")
    elif is_dry_run:
        say(f"{visited}: a dry run, nothing was changed.")
    else:
        say(f"{visited}: {'work is left' if report.is_left else 'all that was due is done'}.")
