"""`replicate`: one round of replication, which brokers in Kafka do by themselves."""

from typing import Annotated, Any

import typer

from kafka_on_spark.cli.call.options import (
    FOUND,
    ClusterUrl,
    DryRun,
    Format,
    Include,
    StorageOption,
)
from kafka_on_spark.cli.call.output import (
    Output,
    note,
    plural,
    progress,
    say,
    write_json,
    write_table,
)
from kafka_on_spark.cli.call.record_rows import RECORD_COLUMNS, decided_rows
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.cli.kafka.kafka_names import named_topics
from kafka_on_spark.service.replicate.replication_report import ReplicationReport


def replicate(
    cluster: ClusterUrl,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAMES", help="Topics, with commas between."),
    ] = None,
    include: Include = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Visit all partitions, not only those with work.")
    ] = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Bring followers up to their leaders in one round, and say whether all are in sync.

    A round visits the partitions with work and inspects a part of the others, so that rounds
    inspect every replica within ten minutes (replica.sweep.interval.ms). The exit code is 1 while a
    follower is behind or out of sync, or a partition was not inspected in time: run it again, and a
    controller; and while upkeep fails, which each call says. A dry run reads the tables, and says
    what would be copied, cut and decided.
    """
    with opened(cluster, storage_option, output, dry_run=dry_run) as session:
        is_all = topic is None and include is None
        topics = None if is_all else named_topics(session.cluster.image, topic, include)
        with progress("inspecting" if dry_run else "copying"):
            report = session.cluster.replicate(topics, is_sweep=sweep)
        _conclude(session, report)
        is_well = report.is_caught_up and not report.upkeep_failures
        raise typer.Exit(0 if is_well else FOUND)


def _conclude(session: Session, report: ReplicationReport) -> None:
    dry_run, image = session.dry_run, session.cluster.image
    rows = [] if dry_run is None else decided_rows(dry_run.decided, image)
    if session.output is Output.JSON:
        answer = {"dry_run": dry_run is not None, **_as_dict(report)}
        write_json(answer if dry_run is None else {**answer, "records": rows})
        return
    if dry_run is not None:
        write_table(RECORD_COLUMNS, rows)
    _show(report, is_done=dry_run is None)


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
        "upkeep_failures": list(report.upkeep_failures),
    }


def _show(report: ReplicationReport, *, is_done: bool) -> None:
    for failure in report.failures:
        note(failure)
    cut = plural(report.truncated_records, "uncommitted record")
    visited = "Visited" if is_done else "A dry run: nothing was changed; it would have visited"
    say(
        f"{visited} {plural(report.partition_count, 'partition')}{_inspected(report)}, copied"
        f" {plural(report.copied_records, 'record')} ({plural(report.copied_bytes, 'byte')}), cut"
        f" {cut}, changed {plural(report.isr_changes, 'ISR')}:"
        f" {'all are caught up' if report.is_caught_up else 'not all are caught up'}."
    )
    if report.not_looked_at:
        say(
            f"{plural(report.not_looked_at, 'partition')} could not be inspected, or was not within"
            " replica.sweep.interval.ms: --sweep inspects all now."
        )
    for failure in report.upkeep_failures:
        note(failure)


def _inspected(report: ReplicationReport) -> str:
    """Return how many idle partitions were inspected, and how often rounds inspect all."""
    if not report.slice_count:
        return ""
    if report.once_round_ms is None:
        return f" and inspected {report.slice_count} more (never all: the share is 0)"
    minutes = report.once_round_ms / 60_000
    return f" and inspected {report.slice_count} more (all once in {minutes:,.1f} minutes)"
