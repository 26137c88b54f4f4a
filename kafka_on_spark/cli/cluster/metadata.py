"""`metadata`: shows the metadata log's records, its newest snapshot, or the image, as rows; resets
its time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    AsOf,
    ClusterUrl,
    DryRun,
    Format,
    StorageOption,
    chosen_action,
)
from kafka_on_spark.cli.call.output import Output, note, plural, say, write_json, write_rows
from kafka_on_spark.cli.call.record_rows import (
    BATCH_COLUMNS,
    RECORD_COLUMNS,
    batch_rows,
    decided_rows,
)
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.config import Settings
from kafka_on_spark.controller.commands import expiry
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.query.moments import in_seconds
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.metadata.metadata_log import DeltaMetadataLog

READING_LOG: Final = "reading the metadata log"

_FILTERS: Final = ("topic", "partition", "record_type", "limit", "as_of")
ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "log": ("offset", "end_offset", *_FILTERS),
    "snapshot": _FILTERS,
    "image": _FILTERS,
    "reset_time": ("dry_run",),
}


def metadata(
    context: typer.Context,
    cluster: ClusterUrl,
    log: Annotated[
        bool, typer.Option("--log", help="The records of the log, with times and causes.")
    ] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="The records of the newest snapshot.")
    ] = False,
    image: Annotated[
        bool, typer.Option("--image", help="The cluster as it is now, as records.")
    ] = False,
    reset_time: Annotated[
        bool,
        typer.Option(
            "--reset-time", help="Have the metadata go by the clocks again that it is ahead of."
        ),
    ] = False,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="Begin here.")] = None,
    end_offset: Annotated[int | None, typer.Option("--end-offset", help="End before it.")] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Only records of this topic.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="Only records of this partition.")
    ] = None,
    record_type: Annotated[
        str | None,
        typer.Option(
            "--record-type", metavar="TYPE", help="Only this type, such as PartitionChangeRecord."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="At most so many rows.")
    ] = None,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show the metadata log, its newest snapshot, or the image, which is their result.

    Or reset the time, once the clock is right that a process had years ahead: what was heard of
    later than now counts from now on. Records keep their timestamps.
    """
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output, as_of=as_of) as session:
        if action == "reset_time":
            _reset_time(session, is_dry_run=dry_run)
            return
        if action == "log":
            rows: Iterable[dict[str, Any]] = log_rows(session, offset or 0)
            if end_offset is not None:
                rows = (row for row in rows if row["metadata_offset"] < end_offset)
        elif action == "snapshot":
            rows = _snapshot_rows(session)
        else:
            rows = decided_rows(snapshot_records(session.cluster.image), session.cluster.image)
        columns = RECORD_COLUMNS if action == "image" else BATCH_COLUMNS
        chosen = _Filter(session, context.params).of(rows)
        words = READING_LOG if action == "log" else None
        write_rows(output, columns, islice(chosen, limit), words=words)


def log_rows(session: Session, offset: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the metadata log from `offset` on; of a past cluster, up to its moment."""
    image = session.cluster.image
    for row in batch_rows(_log(session).batches_from(Offset(offset)), image):
        if session.is_past and row["metadata_offset"] >= image.offset:
            return
        if row["metadata_offset"] >= offset:
            yield row


def _log(session: Session) -> DeltaMetadataLog:
    return DeltaMetadataLog(session.cluster.root, session.options)


def _snapshot_rows(session: Session) -> list[dict[str, Any]]:
    snapshot = _log(session).newest_snapshot(to_offset=session.cluster.image.offset)
    if snapshot is None:
        note("There is no snapshot yet: the log is short, and is read whole.")
        return []
    note(f"The newest snapshot holds the log up to offset {snapshot.end_offset}.")
    return list(batch_rows([snapshot], session.cluster.image))


def _reset_time(session: Session, *, is_dry_run: bool) -> None:
    services = session.cluster._services
    assert isinstance(services, Services), "--as-of does not go with --reset-time"
    now_ms = services.clock.now_ms()
    image = services.metadata.catch_up()
    if is_dry_run:
        result = expiry.reset_time(image, now_ms)
        reset, rows = result.response, decided_rows(result.records, image)
    else:
        reset, rows = (
            services.metadata.submit(
                lambda newest: expiry.reset_time(newest, now_ms), timeout_ms=services.timeout_ms
            ),
            [],
        )
    if session.output is Output.JSON:
        write_json({"dry_run": is_dry_run, **asdict(reset), "records": rows})
        return
    if rows:
        write_rows(session.output, RECORD_COLUMNS, rows)
    say(*_told(reset, image.settings(), is_dry_run=is_dry_run))


def _told(reset: expiry.TimeReset, settings: Settings, *, is_dry_run: bool) -> Iterator[str]:
    """Yield what a reset does: to the metadata, to what expires, and to what retention deletes."""
    newest, now = in_seconds(reset.newest_ms), in_seconds(reset.now_ms)
    if reset.newest_ms - reset.now_ms <= settings.integer("clock.ahead.max.ms"):
        yield f"The newest time of the metadata is {newest}, and it is {now}: nothing to reset."
        return
    says = "would say" if is_dry_run else "says"
    yield f"The newest time of the metadata was {newest}; a commit {says} that it is {now}."
    producers_ms = settings.integer("producer.id.expiration.ms")
    offsets_ms = expiry.offsets_retention_ms(settings)
    yield (
        f"Expiry: {plural(reset.producers, 'producer id')} and"
        f" {plural(reset.offsets, 'offset')} of groups count from now on. They expire from"
        f" {in_seconds(reset.now_ms + producers_ms)} and"
        f" {in_seconds(reset.now_ms + offsets_ms)} on, if nothing more is heard of them, and"
        f" not from {in_seconds(reset.newest_ms + min(producers_ms, offsets_ms))} on."
    )
    yield (
        "Retention: records keep their timestamps. Those that a clock stamped which was ahead are"
        " kept until retention.ms after those times; `delete-records` removes them before."
    )
    if is_dry_run:
        yield "A dry run: nothing was committed."


class _Filter:
    """The records that a call asks for. A topic's record has its name or its id."""

    def __init__(self, session: Session, given: Mapping[str, Any]) -> None:
        self._topic = given["topic"]
        self._topic_ids = set()
        if self._topic is not None and self._topic in session.cluster.image.topic_ids:
            self._topic_ids.add(session.cluster.image.topic_ids[self._topic])
        self._partition = given["partition"]
        self._record_type = given["record_type"]

    def of(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            if self._topic is not None and row.get("topic") == self._topic and "topic_id" in row:
                # Also deleted topics: their first record has the name, the others only the id.
                self._topic_ids.add(row["topic_id"])
            if self._is_wanted(row):
                yield row

    def _is_wanted(self, row: dict[str, Any]) -> bool:
        return (
            (self._topic is None or row.get("topic_id") in self._topic_ids)
            and self._partition in (None, row.get("partition"))
            and self._record_type in (None, row["record_type"])
        )
