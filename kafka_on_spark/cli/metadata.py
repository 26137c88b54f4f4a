"""`metadata`: shows the metadata log's records, or the image, as rows; resets
its time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice, takewhile
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.cli.actions import Action, verb
from kafka_on_spark.cli.options import DryRun
from kafka_on_spark.cli.output import Output, write_answer, write_json, write_rows
from kafka_on_spark.cli.record_rows import (
    BATCH_COLUMNS,
    RECORD_COLUMNS,
    batch_rows,
    decided_rows,
)
from kafka_on_spark.cli.session import Session
from kafka_on_spark.controller import expiry
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.node.services import Services

FILTERS: Final[Mapping[str, Any]] = {
    "topic": Annotated[str, typer.Option(metavar="NAME", help="Only records of this topic.")],
    "partition": Annotated[int, typer.Option(help="Only records of this partition.")],
    "record_type": Annotated[
        str, typer.Option(metavar="TYPE", help="Only this type, such as PartitionChangeRecord.")
    ],
    "limit": Annotated[int, typer.Option(min=0, help="At most so many rows.")],
}


def log(
    session: Session,
    offset: Annotated[int, typer.Option(min=0, help="Begin here.")] = 0,
    end_offset: Annotated[int, typer.Option(help="End before it.")] | None = None,
    **filters: Any,
) -> None:
    """The records of the log, with times and causes."""
    rows = log_rows(session, offset)
    if end_offset is not None:
        rows = takewhile(lambda row: row["metadata_offset"] < end_offset, rows)
    write_rows(session.output, BATCH_COLUMNS, _chosen(session, rows, **filters))


def log_rows(session: Session, offset: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the metadata log from `offset` on; of a past cluster, up to its moment."""
    image = session.cluster.image
    log = DeltaMetadataLog(session.cluster.root, session.options)
    for row in batch_rows(log.batches_from(Offset(offset)), image):
        if session.is_past and row["metadata_offset"] >= image.offset:
            return
        if row["metadata_offset"] >= offset:
            yield row


def image(
    session: Session,
    **filters: Any,
) -> None:
    """The cluster as it is now, as records."""
    rows = decided_rows(snapshot_records(session.cluster.image), session.cluster.image)
    write_rows(session.output, RECORD_COLUMNS, _chosen(session, rows, **filters))


def _chosen(
    session: Session,
    rows: Iterable[dict[str, Any]],
    topic: str | None = None,
    partition: int | None = None,
    record_type: str | None = None,
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the rows that a call asks for. A topic's record has its name or its id."""
    topic_ids = {session.cluster.image.topic_ids.get(topic or "")} - {None}

    def is_wanted(row: Mapping[str, Any]) -> bool:
        if topic is not None and row.get("topic") == topic and "topic_id" in row:
            # Also deleted topics: their first record has the name, the others only the id.
            topic_ids.add(row["topic_id"])
        return (
            (topic is None or row.get("topic_id") in topic_ids)
            and partition in (None, row.get("partition"))
            and record_type in (None, row["record_type"])
        )

    return islice(filter(is_wanted, rows), limit)


def reset_time(session: Session, dry_run: DryRun = False) -> None:
    """Have the metadata go by the clocks again that it is ahead of."""
    services = session.cluster._services
    assert isinstance(services, Services), "--as-of does not go with --reset-time"
    now_ms = services.clock.now_ms()
    image = services.metadata.catch_up()
    rows = []
    if dry_run:
        result = expiry.reset_time(image, now_ms)
        reset, rows = result.response, decided_rows(result.records, image)
    else:
        reset = services.metadata.submit(
            lambda newest: expiry.reset_time(newest, now_ms), timeout_ms=services.timeout_ms
        )
    answer = {"dry_run": dry_run, **asdict(reset)}
    if session.output is Output.JSON:
        write_json({**answer, "records": rows})
        return
    write_rows(session.output, RECORD_COLUMNS, rows)
    write_answer(session.output, answer)


metadata = verb(
    "Show the metadata log, or the image, which is its result.\n\n"
    "Or reset the time, once the clock is right that a process had years ahead: what was heard of"
    " later than now counts from now on. Records keep their timestamps.",
    Action(log, "as_of", more=FILTERS),
    Action(image, "as_of", more=FILTERS),
    Action(reset_time),
)
