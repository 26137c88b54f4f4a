"""`controller`, `replicate`, `maintain`: what Kafka's brokers do by themselves."""

from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.actions import Action, alone, verb
from kafka_on_spark.cli.kafka_files import named_topics
from kafka_on_spark.cli.options import FOUND, Include, Topics
from kafka_on_spark.cli.output import (
    Output,
    note,
    plural,
    say,
    write_json,
    write_rows,
    write_table,
)
from kafka_on_spark.cli.record_rows import time_text
from kafka_on_spark.cli.session import Session
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport
from kafka_on_spark.service.replicate.replication_report import ReplicationReport

SHOWN_MAX: Final = 20
"""Lines that name what was not looked at: a broker may have a hundred thousand replicas."""


def describe(session: Session) -> None:
    """Show the active controller."""
    image = session.cluster.image
    lease = image.controller
    states = [broker.state for broker in image.brokers.values()]
    answer = {
        "cluster_id": image.cluster_id,
        "controller": None if lease is None else lease.controller_id,
        "controller_epoch": None if lease is None else lease.controller_epoch,
        "lease_offset": None if lease is None else lease.offset,
        "metadata_offset": image.offset,
        "metadata_time": time_text(image.time_ms),
        "pending_requests": len(image.requests),
        "topics": len(image.topics),
        "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
        **{f"brokers_{each.value}": states.count(each) for each in BrokerState},
    }
    if session.output is Output.JSON:
        write_json(answer)
    else:
        rows = [{"name": name.replace("_", " "), "value": answer[name]} for name in answer]
        write_rows(session.output, "name value", rows)


def run(
    session: Session,
    seconds: Annotated[
        float, typer.Option(min=0, help="With --run: for so long; without it, one pass.")
    ]
    | None = None,
) -> None:
    """Be the controller: probe brokers, elect leaders, move replicas."""
    if session.is_dry_run and seconds is not None:
        raise InvalidRequestError("--dry-run goes with one pass: leave --seconds out")
    report = session.cluster.run_controller(seconds)
    if session.output is Output.JSON:
        write_json(asdict(report))
        return
    deleted = (
        f" Retention deleted {plural(report.records_deleted, 'record')}."
        if report.records_deleted
        else ""
    )
    say(
        f"{report.passes} {'pass' if report.passes == 1 else 'passes'}:"
        f" fenced {_names(report.fenced)}, came back {_names(report.unfenced)},"
        f" {plural(report.leaders_moved, 'partition')} with another leader.{deleted}"
    )


def _names(broker_ids: tuple[int, ...]) -> str:
    return " and ".join(f"broker {each}" for each in broker_ids) or "no broker"


controller = verb(
    "Show the active controller, or be it for one pass or some seconds.\n\n"
    "A new controller waits until the one before has resigned or stopped renewing its lease. An"
    " interrupted controller resigns.",
    Action(describe, "as_of"),
    Action(run, "dry_run"),
)


@alone()
def replicate(
    session: Session,
    topic: Topics | None = None,
    include: Include = None,
    sweep: Annotated[
        bool, typer.Option(help="Visit all partitions, not only those with work.")
    ] = False,
) -> None:
    """Bring followers up to their leaders in one round, and say whether all are in sync.

    A round visits the partitions with work and inspects a part of the others, so that rounds
    inspect every replica within ten minutes (replica.sweep.interval.ms). The exit code is 1
    while a follower is behind or out of sync, or a partition was not inspected in time: run it
    again, and a controller.
    """
    report = session.cluster.replicate(_topics(session, topic, include), is_sweep=sweep)
    if session.output is Output.JSON:
        write_json(asdict(report))
    else:
        _show_round(report)
    raise typer.Exit(0 if report.is_caught_up else FOUND)


def _topics(session: Session, topic: str | None, include: str | None) -> list[str] | None:
    """Return the topics that a call names, or None for all."""
    if topic is None and include is None:
        return None
    return named_topics(session.cluster.image, topic, include)


def _show_round(report: ReplicationReport) -> None:
    for failure in report.failures:
        note(failure)
    cut = plural(report.truncated_records, "uncommitted record")
    more = f" and inspected {report.slice_count} more" if report.slice_count else ""
    say(
        f"Visited {plural(report.partition_count, 'partition')}{more}, copied"
        f" {plural(report.copied_records, 'record')} ({plural(report.copied_bytes, 'byte')}), cut"
        f" {cut}, changed {plural(report.isr_changes, 'ISR')}:"
        f" {'all are caught up' if report.is_caught_up else 'not all are caught up'}."
    )
    if report.not_looked_at:
        say(
            f"{plural(report.not_looked_at, 'partition')} could not be inspected, or was not within"
            " replica.sweep.interval.ms: --sweep inspects all now."
        )


@alone()
def maintain(
    session: Session,
    topic: Topics | None = None,
    include: Include = None,
    dry_run: Annotated[bool, typer.Option(help="Say what is due, and change nothing.")] = False,
) -> None:
    """Do all upkeep of replicas that is due now, and say what was done.

    Rounds of replication and passes of the controller do a share of it by themselves
    (log.cleaner.share), and this call all at once, as fast as
    log.cleaner.io.max.bytes.per.second lets it. The exit code is 1 if something is left,
    because it went wrong, or could not be looked at: a broker is fenced, or a partition has no
    leader.
    """
    topics = _topics(session, topic, include)
    report = session.cluster.maintain(topics, is_dry_run=dry_run)
    rows = [
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
    if session.output is Output.JSON:
        fields = {"dry_run": dry_run, "replicas": report.visited, "rows": rows}
        write_json({**fields, "not_looked_at": list(report.not_looked_at)})
    else:
        _show_upkeep(report, rows, is_dry_run=dry_run)
    raise typer.Exit(FOUND if report.is_left else 0)


def _show_upkeep(report: UpkeepReport, rows: list[dict[str, Any]], *, is_dry_run: bool) -> None:
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
    write_table("log broker kind count what bytes left", done)
    visited = f"Visited {plural(report.visited, 'replica')}"
    if not rows:
        there = " there" if report.not_looked_at else ""
        say(f"{visited}: nothing {'is' if is_dry_run else 'was'} due{there}.")
    elif is_dry_run:
        say(f"{visited}: a dry run, nothing was changed.")
    else:
        say(f"{visited}: {'work is left' if report.is_left else 'all that was due is done'}.")
