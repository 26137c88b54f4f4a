"""`log-dirs`, `replica-verification`, `replicas`: what lies on disks, and whether it is equal."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import BrokerId, TopicPartition
from kafka_on_spark.cli.actions import CHANGING, alone
from kafka_on_spark.cli.kafka_files import all_partitions, named_topics
from kafka_on_spark.cli.options import FOUND, Include, Topics, numbers
from kafka_on_spark.cli.output import Output, note, plural, say, write_json, write_rows
from kafka_on_spark.cli.session import Session
from kafka_on_spark.controller.brokers import registered_broker
from kafka_on_spark.metadata.image import partition_key
from kafka_on_spark.observe.replica_inspection import compare_partition, load_replicas
from kafka_on_spark.observe.sizes import replica_sizes

SIZE_COLUMNS: Final = (
    "broker topic partition size_bytes log_end_offset offset_lag is_in_sync is_future error"
)
VERIFICATION_COLUMNS: Final = "topic partition replica_count batch_count read_bytes differences"


@alone()
def log_dirs(
    session: Session,
    describe: Annotated[
        bool,
        typer.Option(help="No effect: the verb always describes. Kafka's tool requires it."),
    ] = False,
    broker_list: Annotated[str, typer.Option(metavar="1,2", help="Only these brokers.")]
    | None = None,
    topic: Annotated[
        str,
        typer.Option(
            "--topic", "--topic-list", metavar="NAMES", help="Topics, with commas between."
        ),
    ]
    | None = None,
    include: Include = None,
) -> None:
    """Show the bytes and the lag of each replica on each broker's disk.

    A replica that can't be read, or is lost, has an error in place of them.
    """
    image = session.cluster.image
    brokers = None if broker_list is None else numbers(broker_list, "--broker-list")
    for each in brokers or ():
        registered_broker(image, BrokerId(each))
    is_all = topic is None and include is None
    topics = None if is_all else named_topics(image, topic, include)
    rows = replica_sizes(
        image, topics, brokers, lambda addresses: load_replicas(addresses, session.options)
    )
    write_rows(session.output, SIZE_COLUMNS, rows)


@alone()
def replica_verification(
    session: Session,
    topic: Topics | None = None,
    include: Include = None,
    deep: Annotated[
        bool, typer.Option(help="Read the files, too, and compare their bytes.")
    ] = False,
) -> None:
    """Compare all replicas below the high watermark, by their chain digests.

    The exit code is 1 if replicas differ, or one can't be read.
    """
    image = session.cluster.image
    names = all_partitions(image, named_topics(image, topic, include))
    rows = _compared(session, names, is_deep=deep)
    different = [row for row in rows if row["differences"]]
    if session.output is Output.JSON:
        write_json({"is_equal": not different, "partitions": rows})
    else:
        write_rows(session.output, VERIFICATION_COLUMNS, rows)
        count = plural(len(rows), "partition")
        if different:
            say(f"The replicas of {len(different)} of {count} differ, or can't be read.")
        else:
            say(f"The replicas of {count} are equal below the high watermark.")
    raise typer.Exit(FOUND if different else 0)


def _compared(
    session: Session, names: Sequence[TopicPartition], *, is_deep: bool
) -> list[dict[str, Any]]:
    """Compare partitions' replicas, each by a fresh image: the cluster goes on meanwhile."""
    rows = []
    for name in names:
        image = session.cluster.image
        try:
            key = partition_key(image, name.topic, name.partition)
        except UnknownTopicOrPartitionError as error:
            note(f"{name} was deleted meanwhile: {error}.")
        else:
            found = compare_partition(image, key, session.options, is_deep=is_deep)
            rows.append({"topic": name.topic, **asdict(found)})
    return rows


@alone(*CHANGING)
def replicas(
    session: Session,
    topic: Annotated[str, typer.Option(metavar="NAME", help="The replica's topic.")],
    partition: Annotated[int, typer.Option(help="The replica's partition.")],
    broker: Annotated[int, typer.Option(help="The replica's broker.")],
    lost: Annotated[
        bool,
        typer.Option(help="Give the replica up: it is created again, and fetched from the others."),
    ] = False,
) -> None:
    """Declare a replica lost. It can't be read, and each replication report names it."""
    if not lost:
        raise InvalidRequestError("say what to do with the replica: --lost is the only choice")
    name = TopicPartition(topic, partition)
    session.confirm(f"giving up the replica of {name} on broker {broker}")
    session.cluster.lose_replica(topic, partition, broker)
    session.conclude({"topic": topic, "partition": partition, "broker": broker, "state": "lost"})
