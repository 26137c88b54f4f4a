"""`log-dirs` and `replica-verification`: sizes of replicas, and whether replicas are equal."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    FOUND,
    AsOf,
    ClusterUrl,
    Format,
    Include,
    StorageOption,
    numbers,
)
from kafka_on_spark.cli.call.output import (
    Output,
    note,
    plural,
    progress,
    say,
    write_json,
    write_rows,
)
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.cli.kafka.kafka_names import all_partitions, named_topics
from kafka_on_spark.controller.brokers.draining import registered_broker
from kafka_on_spark.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import BrokerId, TopicPartition
from kafka_on_spark.inspect.replicas import PartitionComparison, compare_partition
from kafka_on_spark.query.partition_names import partition_key
from kafka_on_spark.service.describe.log_dirs import (
    ReplicaSize,
    created_replicas,
    lost_sizes,
    replica_size,
)
from kafka_on_spark.storage.replicas.replica_inspection import load_replicas

SIZE_COLUMNS: Final = {
    "broker": "broker",
    "topic": "topic",
    "partition": "partition",
    "size_bytes": "bytes",
    "log_end_offset": "log end",
    "offset_lag": "lag",
    "is_in_sync": "in sync",
    "is_future": "moves here",
    "error": "error",
}
VERIFICATION_COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "replica_count": "replicas read",
    "batch_count": "batches",
    "read_bytes": "bytes",
    "differences": "differences",
}


def log_dirs(
    cluster: ClusterUrl,
    describe: Annotated[
        bool,
        typer.Option(
            "--describe", help="No effect: the verb always describes. Kafka's tool requires it."
        ),
    ] = False,
    broker_list: Annotated[
        str | None, typer.Option("--broker-list", metavar="1,2", help="Only these brokers.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "--topic-list",
            metavar="NAMES",
            help="Topics, with commas between.",
        ),
    ] = None,
    include: Include = None,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show the bytes and the lag of each replica on each broker's disk.

    A replica that can't be read, or is lost, has an error in place of them.
    """
    _refuse_past(as_of, "log-dirs")
    with opened(cluster, storage_option, output) as session:
        image = session.cluster.image
        brokers = None if broker_list is None else numbers(broker_list, "--broker-list")
        for each in brokers or ():
            registered_broker(image, BrokerId(each))
        is_all = topic is None and include is None
        topics = None if is_all else named_topics(image, topic, include)
        write_rows(output, SIZE_COLUMNS, _sizes(session, topics, brokers))


def _refuse_past(as_of: str | None, verb: str) -> None:
    """Refuse a past moment for a verb that reads disks.

    Raises:
        InvalidRequestError: `as_of` was given.
    """
    if as_of is not None:
        raise InvalidRequestError(
            f"--as-of does not go with {verb}, which reads the disks as they are now: leave it out;"
            " topics --describe --as-of shows which replicas were in sync then"
        )


def _sizes(
    session: Session, topics: Sequence[str] | None, brokers: Sequence[int] | None
) -> list[dict[str, Any]]:
    image = session.cluster.image
    addresses = created_replicas(image, topics, brokers)
    sizes = lost_sizes(image, topics, brokers)
    with progress("opening replicas", len(addresses)) as steps:
        for address, found in load_replicas(addresses, session.options):
            steps.advance()
            sizes.append(replica_size(image, address, found))
    return [_size_row(each) for each in sorted(sizes, key=lambda each: (each.broker_id, each.name))]


def _size_row(size: ReplicaSize) -> dict[str, Any]:
    return {
        "broker": size.broker_id,
        "root": size.root,
        **size.name._asdict(),
        "size_bytes": size.size_bytes,
        "log_end_offset": size.log_end_offset,
        "offset_lag": size.offset_lag,
        "is_in_sync": size.is_in_sync,
        "is_future": size.is_future,
        "error": size.error,
    }


def replica_verification(
    cluster: ClusterUrl,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAMES", help="Topics, with commas between."),
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(
            "--include",
            "--topics-include",
            metavar="EXPRESSION",
            help="All topics whose whole name this regular expression matches.",
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read the files, too, and compare their bytes.")
    ] = False,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Compare all replicas below the high watermark, by their chain digests.

    The exit code is 1 if replicas differ, or one can't be read.
    """
    _refuse_past(as_of, "replica-verification")
    with opened(cluster, storage_option, output) as session:
        image = session.cluster.image
        names = all_partitions(image, named_topics(image, topic, include))
        rows = _compared(session, names, is_deep=deep)
        different = [row for row in rows if row["differences"]]
        if output is Output.JSON:
            write_json({"is_equal": not different, "partitions": rows})
        else:
            write_rows(output, VERIFICATION_COLUMNS, rows)
            say(_verdict(len(rows), len(different)))
        raise typer.Exit(FOUND if different else 0)


def _compared(
    session: Session, names: Sequence[TopicPartition], *, is_deep: bool
) -> list[dict[str, Any]]:
    """Compare partitions' replicas, each by a fresh image: the cluster goes on meanwhile."""
    rows = []
    with progress("comparing replicas", len(names)) as steps:
        for name in names:
            image = session.cluster.image
            try:
                key = partition_key(image, name.topic, name.partition)
            except UnknownTopicOrPartitionError as error:
                note(f"{name} was deleted meanwhile: {error}.")
            else:
                found = compare_partition(image, key, session.options, is_deep=is_deep)
                rows.append(_comparison_row(name.topic, found))
            steps.advance()
    return rows


def _comparison_row(topic: str, comparison: PartitionComparison) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": comparison.partition,
        "replica_count": comparison.replica_count,
        "batch_count": comparison.batch_count,
        "read_bytes": comparison.read_bytes,
        "differences": list(comparison.differences),
    }


def _verdict(count: int, different: int) -> str:
    if not different:
        return f"The replicas of {plural(count, 'partition')} are equal below the high watermark."
    return f"The replicas of {different} of {plural(count, 'partition')} differ, or can't be read."
