"""`controller`, `replicate`, `maintain`: what Kafka's brokers do by themselves."""

from dataclasses import asdict
from typing import Annotated, Final

import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.kafka_files import named_topics
from kafka_on_spark.cli.options import FOUND, Include, Limits, Topics
from kafka_on_spark.cli.output import Output, note, plural, time_text, write_answer
from kafka_on_spark.cli.verbs import Action, Session, alone, verb
from kafka_on_spark.metadata.records import BrokerState

UPKEEP_COLUMNS: Final = "topic partition broker_id kind count what size_bytes is_left error"
DRY: Final = ": a dry run, nothing was changed"


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
    write_answer(session.output, answer)


def run(
    session: Session,
    seconds: Annotated[float, "With --run: for so long; without it, one pass.", Limits(0)]
    | None = None,
) -> None:
    """Be the controller: probe brokers, elect leaders, move replicas."""
    if session.is_dry_run and seconds is not None:
        raise InvalidRequestError("--dry-run goes with one pass: leave --seconds out")
    report = session.cluster.run_controller(seconds)
    write_answer(session.output, asdict(report))


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
    include: Include | None = None,
    sweep: Annotated[bool, "Visit all partitions, not only those with work."] = False,
) -> None:
    """Bring followers up to their leaders in one round, and say whether all are in sync.

    A round visits the partitions with work and inspects a part of the others, so that rounds
    inspect every replica within ten minutes (replica.sweep.interval.ms). The exit code is 1
    while a follower is behind or out of sync, or a partition was not inspected in time: run it
    again, and a controller.
    """
    report = session.cluster.replicate(_topics(session, topic, include), is_sweep=sweep)
    answer = asdict(report)
    if session.output is Output.TABLE:
        for sentence in answer.pop("failures"):
            note(sentence)
    write_answer(session.output, answer)
    raise typer.Exit(0 if report.is_caught_up else FOUND)


def _topics(session: Session, topic: str | None, include: str | None) -> list[str] | None:
    """Return the topics that a call names, or None for all."""
    if topic is None and include is None:
        return None
    return named_topics(session.cluster.image, topic, include)


@alone()
def maintain(
    session: Session,
    topic: Topics | None = None,
    include: Include | None = None,
    dry_run: Annotated[bool, "Say what is due, and change nothing."] = False,
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
    rows = [asdict(row) for row in report.rows]
    if session.output is Output.TABLE:
        for each in report.not_looked_at:
            note(f"not looked at: {each}")
    answer = {"dry_run": dry_run, "replicas": report.visited, "rows": rows}
    session.show(
        {**answer, "not_looked_at": list(report.not_looked_at)},
        f"Visited {plural(report.visited, 'replica')}{DRY if dry_run else ''}.",
        columns=UPKEEP_COLUMNS,
        rows=rows,
    )
    raise typer.Exit(FOUND if report.is_left else 0)
