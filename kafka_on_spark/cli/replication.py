"""`replicate`: one round of what brokers do by themselves in Kafka, which have no process here."""

from typing import Annotated

import typer

from kafka_on_spark.cli.names import matching_topics
from kafka_on_spark.cli.options import FOUND, ClusterUrl, Format, StorageOption
from kafka_on_spark.cli.output import Output, note, plural, progress, say, write_json
from kafka_on_spark.cli.session import opened
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
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Bring followers up to their leaders, once, and say who is in sync.

    Exits with 1 while a follower is behind or out of sync: run it again, and a controller.
    """
    with opened(cluster, storage_option, output) as session:
        topics = None if topic is None else matching_topics(session.cluster.image, topic)
        with progress("copying"):
            report = session.cluster.replicate(topics, is_sweep=sweep)
        if output is Output.JSON:
            write_json(
                {
                    "partition_count": report.partition_count,
                    "copied_records": report.copied_records,
                    "copied_bytes": report.copied_bytes,
                    "truncated_records": report.truncated_records,
                    "isr_changes": report.isr_changes,
                    "failures": list(report.failures),
                    "is_caught_up": report.is_caught_up,
                }
            )
        else:
            _show(report)
        raise typer.Exit(0 if report.is_caught_up else FOUND)


def _show(report: ReplicationReport) -> None:
    for failure in report.failures:
        note(failure)
    cut = plural(report.truncated_records, "uncommitted record")
    say(
        f"Visited {plural(report.partition_count, 'partition')}, copied"
        f" {plural(report.copied_records, 'record')} ({plural(report.copied_bytes, 'byte')}), cut"
        f" {cut}, changed {plural(report.isr_changes, 'ISR')}:"
        f" {'all are caught up' if report.is_caught_up else 'not all are caught up'}."
    )
