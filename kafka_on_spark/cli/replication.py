"""`replicate`: one round of what brokers do by themselves in Kafka, which have no process here."""

from typing import Annotated, Any

import typer

from kafka_on_spark.cli.names import matching_topics
from kafka_on_spark.cli.options import FOUND, ClusterUrl, DryRun, Format, StorageOption
from kafka_on_spark.cli.output import (
    Output,
    note,
    plural,
    progress,
    say,
    write_json,
    write_table,
)
from kafka_on_spark.cli.record_rows import RECORD_COLUMNS, decided_rows
from kafka_on_spark.cli.session import Session, opened
from kafka_on_spark.service.replication_round import ReplicationReport


def replicate(
    cluster: ClusterUrl,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="A topic, or a regular expression of names."),
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Visit all partitions, not only those with work.")
    ] = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Bring followers up to their leaders, once, and say who is in sync.

    Besides the partitions with work it looks at a part of all, so that rounds come to every replica
    within ten minutes (replica.sweep.interval.ms). Exits with 1 while a follower is behind or out
    of sync, or partitions were not looked at for longer: run it again, and a controller. A dry run
    reads the tables, and says what would be copied, cut and decided.
    """
    with opened(cluster, storage_option, output, dry_run=dry_run) as session:
        topics = None if topic is None else matching_topics(session.cluster.image, topic)
        with progress("looking" if dry_run else "copying"):
            report = session.cluster.replicate(topics, is_sweep=sweep)
        _conclude(session, report)
        raise typer.Exit(0 if report.is_caught_up else FOUND)


def _conclude(session: Session, report: ReplicationReport) -> None:
    rehearsal, image = session.rehearsal, session.cluster.image
    rows = [] if rehearsal is None else decided_rows(rehearsal.decided, image)
    if session.output is Output.JSON:
        answer = {"dry_run": rehearsal is not None, **_as_dict(report)}
        write_json(answer if rehearsal is None else {**answer, "records": rows})
        return
    if rehearsal is not None:
        write_table(RECORD_COLUMNS, rows)
    _show(report, is_done=rehearsal is None)


def _as_dict(report: ReplicationReport) -> dict[str, Any]:
    return {
        "partition_count": report.partition_count,
        "slice_count": report.slice_count,
        "not_looked_at": report.not_looked_at,
        "once_round_ms": report.once_round_ms,
        "copied_records": report.copied_records,
        "copied_bytes": report.copied_bytes,
        "truncated_records": report.truncated_records,
        "isr_changes": report.isr_changes,
        "failures": list(report.failures),
        "is_caught_up": report.is_caught_up,
    }


def _show(report: ReplicationReport, *, is_done: bool) -> None:
    for failure in report.failures:
        note(failure)
    cut = plural(report.truncated_records, "uncommitted record")
    visited = "Visited" if is_done else "A dry run: nothing was changed; it would have visited"
    say(
        f"{visited} {plural(report.partition_count, 'partition')}{_besides(report)}, copied"
        f" {plural(report.copied_records, 'record')} ({plural(report.copied_bytes, 'byte')}), cut"
        f" {cut}, changed {plural(report.isr_changes, 'ISR')}:"
        f" {'all are caught up' if report.is_caught_up else 'not all are caught up'}."
    )
    if report.not_looked_at:
        say(
            f"{plural(report.not_looked_at, 'partition')} could not be looked at, or was not within"
            " replica.sweep.interval.ms: --sweep looks at all now."
        )


def _besides(report: ReplicationReport) -> str:
    """Return how many were looked at besides those with work, and how long it takes for all."""
    if not report.slice_count:
        return ""
    if report.once_round_ms is None:
        return f" and looked at {report.slice_count} besides (at all never: the share is 0)"
    minutes = report.once_round_ms / 60_000
    return f" and looked at {report.slice_count} besides (at all once in {minutes:,.1f} minutes)"
