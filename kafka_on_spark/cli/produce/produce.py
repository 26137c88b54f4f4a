"""`produce`: appends lines, JSON or files to a topic, as kafka-console-producer does."""

from collections.abc import Iterable
from typing import Annotated, Final, NoReturn

import typer

from kafka_on_spark.cli.call.interrupts import Interrupts
from kafka_on_spark.cli.call.options import INTERRUPTED, ClusterUrl, Format, StorageOption
from kafka_on_spark.cli.call.output import Output, note, plural, progress, say, write_json
from kafka_on_spark.cli.call.session import opened
from kafka_on_spark.cli.produce.appending import ChunkAppends, NotAppendedError
from kafka_on_spark.cli.produce.asked import CHUNK_BYTES, PROPERTIES, Asked, asked_for
from kafka_on_spark.cli.produce.batches import batch_of
from kafka_on_spark.cli.produce.chunks import Pace
from kafka_on_spark.cli.produce.feeds import (
    Chunk,
    bytes_of,
    check_readable,
    files_as_values,
    is_typed,
    lines_of,
)
from kafka_on_spark.errors import CommitOutcomeUnknownError, InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.service.append.produce.sent_record import limits_of
from kafka_on_spark.service.append.produce.settings import LINGER_MS
from kafka_on_spark.setting_values import INT_MAX

WIDENING: Final = 8
"""A line of JSON has at most six bytes for one of the record's, and names of fields beside it."""


def produce(
    context: typer.Context,
    cluster: ClusterUrl,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Each file is one record's value, its bytes as they are; with --lines, each of its"
            " lines is. - is standard input, whose lines are read if no file is named.",
        ),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Append the lines of the files.")] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help='Each line is a record: {"key": "a", "value": "b", "headers": {"h": "c"},'
            ' "timestamp": "2026-01-31T12:00:00Z", "partition": 0}; only value is needed. Bytes are'
            ' {"base64": "…"}. What consume --json prints can be appended again.',
        ),
    ] = False,
    reader_property: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--reader-property",
            metavar="NAME=VALUE",
            help="How a line is read: parse.key, key.separator (a tab), null.marker; may be given"
            " more than once.",
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            min=-1,
            max=INT_MAX,
            help="The partition of all records; -1: by key, whatever their JSON says.",
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="WHEN",
            help="The create time of all records: milliseconds since 1970, or"
            " 2026-01-31T12:00:00Z. Without it, now.",
        ),
    ] = None,
    acks: Annotated[
        str | None,
        typer.Option(
            "--acks",
            "--request-required-acks",
            metavar="all|1",
            help="What acknowledges a record: all replicas in sync, or the leader alone.",
        ),
    ] = None,
    linger_ms: Annotated[
        int | None,
        typer.Option(
            "--linger-ms",
            "--timeout",
            min=0,
            max=INT_MAX,
            help=f"How long records gather before an append begins. [default: {LINGER_MS}]",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size",
            min=1,
            max=INT_MAX,
            help=f"Bytes of input in one append at most. [default: {CHUNK_BYTES}]",
        ),
    ] = None,
    producer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--producer-property",
            "--command-property",
            metavar="NAME=VALUE",
            help=f"Of Kafka's settings of a producer: {', '.join(PROPERTIES)}.",
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Do not say how many records were appended."),
    ] = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Append lines of standard input or of files to a topic, each as one record.

    The exit code is 0 if all is acknowledged; 2 if not: the records before the one that standard
    error names are; 3 if it is unknown whether some of them are. Records are appended in their
    order, and once: an append that has to be tried again is not doubled.
    """
    asked = asked_for(context.params)
    check_readable(asked.paths)
    with opened(cluster, storage_option, output) as session, Interrupts() as interrupts:
        record_bytes_max = limits_of(session.cluster.image, topic).record_bytes_max
        image = session.cluster.image
        default_ms = image.settings(image.topic(topic).topic_id).integer("delivery.timeout.ms")
        appends = ChunkAppends(
            session.cluster,
            topic,
            acks=asked.acks,
            delivery_timeout_ms=asked.delivery_timeout_ms or default_ms,
        )
        try:
            _append_all(_chunks(asked, record_bytes_max, interrupts), asked, appends)
        except KeyboardInterrupt:
            _conclude(topic, appends, output, quiet)
            raise typer.Exit(interrupts.code or INTERRUPTED) from None
        except KafkaOnSparkError as error:
            _refuse(error, topic, appends, output)
        _conclude(topic, appends, output, quiet)


def _chunks(asked: Asked, record_bytes_max: int, interrupts: Interrupts) -> Iterable[Chunk]:
    pace = Pace(
        linger_ms=asked.linger_ms,
        chunk_bytes=asked.chunk_bytes,
        line_bytes_max=record_bytes_max * (WIDENING if asked.is_json else 1) + 2**16,
    )
    if asked.are_whole_files:
        return files_as_values(asked.paths, pace, interrupts)
    return lines_of(asked.paths, pace, interrupts)


def _append_all(chunks: Iterable[Chunk], asked: Asked, appends: ChunkAppends) -> None:
    """Append one chunk after the other, up to the first record that can't be.

    Raises:
        CommitOutcomeUnknownError: Nobody knows whether some records stand.
        InvalidRequestError: A line is no record, or a record is refused; those before it stand.
        KeyboardInterrupt: Somebody wants no more.
    """
    is_shown = not is_typed(asked.paths)
    total = bytes_of(asked.paths)
    with progress("appending bytes", total, is_shown=is_shown) as steps:
        for chunk in chunks:
            _append(chunk, asked, appends)
            steps.advance(chunk.size_bytes)


def _append(chunk: Chunk, asked: Asked, appends: ChunkAppends) -> None:
    columns, bad = asked.parse(chunk.parts)
    if len(columns):
        batch = batch_of(columns, asked.fixed, appends.sticky())
        last = len(columns) - 1
        try:
            appends.append(batch)
        except NotAppendedError as error:
            names = chunk.name(columns.place(error.first), columns.place(error.last))
            if error.is_unknown:
                raise CommitOutcomeUnknownError(
                    f"{names}: whether it was appended is unknown ({error.why}); read the topic"
                    " before you append it again"
                ) from None
            raise InvalidRequestError(f"{names}: {error.why}") from None
        except KeyboardInterrupt:
            names = chunk.name(columns.place(0), columns.place(last))
            note(f"{names}: whether it was appended is unknown.")
            raise
    if bad is not None:
        raise InvalidRequestError(f"{chunk.name(bad.place, bad.place)} {bad.why}")


def _refuse(
    error: KafkaOnSparkError, topic: str, appends: ChunkAppends, output: Output
) -> NoReturn:
    """Say what stands in spite of an error: as JSON, or in the error's sentence."""
    count = appends.tally.record_count
    if output is Output.JSON:
        write_json(_summary(topic, appends))
    before = f"appended before: {plural(count, 'record')}" if count else "nothing was appended"
    kind = CommitOutcomeUnknownError if isinstance(error, CommitOutcomeUnknownError) else None
    raise (kind or InvalidRequestError)(f"{error}; {before}") from None


def _conclude(topic: str, appends: ChunkAppends, output: Output, is_quiet: bool) -> None:
    if output is Output.JSON:
        write_json(_summary(topic, appends))
    elif not is_quiet:
        say(f"Appended {plural(appends.tally.record_count, 'record')} to {topic}.")


def _summary(topic: str, appends: ChunkAppends) -> dict[str, object]:
    tally = appends.tally
    return {
        "topic": topic,
        "record_count": tally.record_count,
        "partitions": [
            {
                "partition": number,
                "record_count": count,
                "first_offset": tally.offsets.get(number, (None, None))[0],
                "last_offset": tally.offsets.get(number, (None, None))[1],
            }
            for number, count in sorted(tally.counts.items())
        ],
    }
