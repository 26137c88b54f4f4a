"""`consume`: prints records as they come, as kafka-console-consumer and kcat do."""

from typing import Annotated

import typer

from kafka_on_spark.cli.call.interrupts import Interrupts
from kafka_on_spark.cli.call.options import INTERRUPTED, ClusterUrl, StorageOption
from kafka_on_spark.cli.call.output import Output, is_into_file, note, plural, progress
from kafka_on_spark.cli.call.session import opened
from kafka_on_spark.cli.consume.asked import Asked, asked_for
from kafka_on_spark.cli.consume.printing import Printing
from kafka_on_spark.cli.consume.starts import start_offset
from kafka_on_spark.cli.kafka.properties import PROPERTIES_OF_CONSUMERS
from kafka_on_spark.cli.lines.printed import FLAGS, SEPARATORS
from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.cluster.consuming.consumer import Consumer
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.query.subscription import Subscribe, SubscribePattern, partitions_of


def consume(
    context: typer.Context,
    cluster: ClusterUrl,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="NAME", help="The topic.")
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(
            "--include", "--whitelist", metavar="EXPRESSION", help="All topics of such names."
        ),
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
        list[str] | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="WHERE",
            help="Begin in each partition at an offset, with its last records (-N), at earliest,"
            " latest or a time (s@TIME); e@TIME, given as well, is where to end. TIME is"
            " milliseconds since 1970, or as 2026-01-31T12:00:00Z. [default: latest; with an end,"
            " earliest]",
        ),
    ] = None,
    exit: Annotated[
        bool,
        typer.Option(
            "--exit", "-e", help="End with the last record that is committed when the call begins."
        ),
    ] = False,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-c", min=0, help="End after so many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option("--timeout-ms", min=0, help="End if there is no record for so long."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-G",
            metavar="NAME",
            help="Be a member of the group: print a share of the partitions, go on from the group's"
            " offsets, and commit what was printed.",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", "-J", help="Print each record whole, as a line of JSON."),
    ] = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help=r"Such as '%t [%p] at %o: %k = %s\n': %t topic, %p partition, %o offset, %T"
            r" timestamp in ms, %k key, %s value, %h headers, %K and %S length of key and value (-1"
            r" for null), %R the latter in four bytes, %% a percent sign; \n, \t, \xNN as in C.",
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
    formatter_config: Annotated[
        str | None,
        typer.Option("--formatter-config", metavar="FILE", help="A file of such properties."),
    ] = None,
    formatter: Annotated[
        str | None,
        typer.Option(
            "--formatter",
            metavar="CLASS",
            help="DefaultMessageFormatter, or NoOpMessageFormatter, which prints nothing.",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter", "-D", metavar="TEXT", help=r"What ends a record, such as '\0'."
        ),
    ] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option(
            "--key-delimiter", "-K", metavar="TEXT", help="Print the key, this and the value."
        ),
    ] = None,
    null: Annotated[
        bool,
        typer.Option("--null", "-Z", help="Print NULL for null; a line of JSON has null as it is."),
    ] = False,
    isolation_level: Annotated[
        str | None,
        typer.Option(
            "--isolation-level",
            metavar="LEVEL",
            help="read_committed or read_uncommitted; without transactions they are the same.",
        ),
    ] = None,
    consumer_property: Annotated[
        list[str] | None,
        typer.Option(
            "--consumer-property",
            "--command-property",
            metavar="NAME=VALUE",
            help=f"Of Kafka's settings of a consumer: {', '.join(PROPERTIES_OF_CONSUMERS)}.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not say how many records were printed.")
    ] = False,
    unbuffered: Annotated[
        bool, typer.Option("-u", help="Write what was read at once; this is always so.")
    ] = False,
    skip_message_on_error: Annotated[
        bool,
        typer.Option(
            "--skip-message-on-error",
            help="Skip a record that can't be formatted; each can, for its bytes are printed.",
        ),
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
        at_start = _at(consumer, names, asked.span.start_ms)
        for name in names:
            places[name] = start_offset(
                asked.span, asked.default_start, firsts[name], ends[name], at_start.get(name)
            )
            consumer.seek(name, places[name])
    if asked.span.end_ms is not None:
        found = _at(consumer, names, asked.span.end_ms)
        stops = {name: _less(found.get(name), ends[name]) for name in names}
    elif asked.exits_at_end:
        stops = ends
    else:
        return None, asked.records_max
    return stops, _total(places, stops, asked)


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


def _at(
    consumer: Consumer, names: list[TopicPartition], time_ms: int | None
) -> dict[TopicPartition, int | None]:
    if time_ms is None:
        return {}
    found = consumer.offsets_for_times({name: time_ms for name in names})
    return {name: None if each is None else int(each) for name, each in found.items()}


def _less(offset: int | None, end: int) -> int:
    return end if offset is None else min(offset, end)
