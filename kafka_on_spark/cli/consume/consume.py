"""`consume`: prints records as they come, as kafka-console-consumer does."""

from typing import Annotated

import typer

from kafka_on_spark.cli.call.interrupts import Interrupts
from kafka_on_spark.cli.call.options import INTERRUPTED, ClusterUrl, StorageOption
from kafka_on_spark.cli.call.output import Output, is_into_file, note, plural, progress
from kafka_on_spark.cli.call.session import opened
from kafka_on_spark.cli.consume.asked import PROPERTIES, Asked, asked_for, start_offset
from kafka_on_spark.cli.consume.printing import Printing
from kafka_on_spark.cli.lines.printed import FLAGS, SEPARATORS
from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.cluster.consuming.consumer import Consumer
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.query.subscription import Subscribe, SubscribePattern, partitions_of


def consume(
    context: typer.Context,
    cluster: ClusterUrl,
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="The topic.")] = None,
    include: Annotated[
        str | None,
        typer.Option("--include", metavar="EXPRESSION", help="All topics of such names."),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="N",
            min=0,
            help="Only this partition; may be given more than once.",
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="Begin with the first record that is kept; a group only where it has no offset.",
        ),
    ] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            metavar="WHERE",
            help="Begin in each partition at an offset, with its last records (-N), at earliest or"
            " latest. [default: latest; with --exit, earliest]",
        ),
    ] = None,
    exit: Annotated[
        bool,
        typer.Option(
            "--exit", "-e", help="End with the last record that is committed when the call begins."
        ),
    ] = False,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", min=0, help="End after so many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option("--timeout-ms", min=0, help="End if there is no record for so long."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Be a member of the group: print a share of the partitions, go on from the group's"
            " offsets, and commit what was printed.",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print each record whole, as a line of JSON."),
    ] = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help=r"Such as '%t [%p] at %o: %k = %s\n': %t topic, %p partition, %o offset, %T"
            r" timestamp in ms, %k key, %s value, %h headers, %% a percent sign; \n, \t, \xNN as in"
            r" C.",
        ),
    ] = None,
    formatter_property: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--formatter-property",
            metavar="NAME=VALUE",
            help=f"What is printed: {', '.join(FLAGS)} (true or false), {', '.join(SEPARATORS)};"
            " may be given more than once.",
        ),
    ] = None,
    consumer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--consumer-property",
            "--command-property",
            metavar="NAME=VALUE",
            help=f"Of Kafka's settings of a consumer: {', '.join(PROPERTIES)}.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not say how many records were printed.")
    ] = False,
    storage_option: StorageOption = None,
) -> None:
    """Print committed records as they come, until ^C or an end that is asked for.

    Without an option that says where to begin, it prints what comes from now on. Keys and values
    are printed as the bytes they are; at a terminal, control characters as escapes.
    """
    asked = asked_for(context.params)
    with opened(cluster, storage_option, Output.TABLE) as session, Interrupts() as interrupts:
        consumer = session.cluster.consumer(
            None if asked.partitions else asked.topic,
            pattern=asked.pattern,
            partitions=[(str(asked.topic), number) for number in asked.partitions] or None,
            group=asked.group,
            auto_offset_reset=asked.default_start,
            enable_auto_commit=False,
            commit_beginning=asked.commits,
            client_rack=asked.client_rack,
            on_revoked=lambda names: printing.give_up(names),
            on_lost=lambda names: printing.lose(names),
        )
        printing = Printing(
            consumer,
            asked.form,
            interrupts,
            records_max=asked.records_max,
            timeout_ms=asked.timeout_ms,
            commits=asked.commits,
        )
        try:
            _print(printing, consumer, asked, session.cluster)
        except KeyboardInterrupt:
            _conclude(printing, quiet)
            raise typer.Exit(interrupts.code or INTERRUPTED) from None
        except KafkaOnSparkError:
            _conclude(printing, quiet)
            raise
        _conclude(printing, quiet)


def _print(printing: Printing, consumer: Consumer, asked: Asked, cluster: Cluster) -> None:
    try:
        stops, total = _begin(consumer, asked, cluster)
        is_shown = is_into_file() and not (stops is None and asked.records_max is None)
        with progress("printing", total, is_shown=is_shown) as steps:
            printing.run(stops, steps.advance)
    finally:
        try:
            printing.commit()
        finally:
            consumer.close()  # a member leaves its group


def _conclude(printing: Printing, is_quiet: bool) -> None:
    if not is_quiet:
        note(f"Processed a total of {plural(printing.record_count, 'record')}.")


def _begin(
    consumer: Consumer, asked: Asked, cluster: Cluster
) -> tuple[dict[TopicPartition, int] | None, int | None]:
    """Go to where the call begins; return where it ends in each partition, None: nowhere; and how
    many records that is at most, None: nobody knows yet."""
    places: dict[TopicPartition, int] = {}
    names = consumer.assignment() if asked.group is None else _all_names(cluster, asked)
    ends = {name: int(each) for name, each in consumer.end_offsets(names).items()}
    if asked.group is None:
        firsts = consumer.beginning_offsets(names)
        start = asked.default_start if asked.start is None else asked.start
        for name in names:
            places[name] = start_offset(start, firsts[name], ends[name])
            consumer.seek(name, places[name])
    if not asked.exits_at_end:
        return None, asked.records_max
    return ends, _total(places, ends, asked)


def _total(
    places: dict[TopicPartition, int], stops: dict[TopicPartition, int], asked: Asked
) -> int | None:
    if asked.group is not None:
        return asked.records_max  # the members share the partitions out meanwhile
    total = sum(max(stops[name] - place, 0) for name, place in places.items())
    return total if asked.records_max is None else min(total, asked.records_max)


def _all_names(cluster: Cluster, asked: Asked) -> list[TopicPartition]:
    """Return all partitions of the topics: a member of a group may come to read any of them."""
    by_pattern = None if asked.pattern is None else SubscribePattern(asked.pattern)
    found = partitions_of(cluster.image, by_pattern or Subscribe((str(asked.topic),)))
    return [TopicPartition(topic, number) for topic in found for number in found[topic]]
