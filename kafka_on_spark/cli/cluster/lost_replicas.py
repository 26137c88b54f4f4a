"""`replicas`: declares a replica lost, where no process can find that by itself."""

from typing import Annotated

import typer

from kafka_on_spark.cli.call.options import ClusterUrl, DryRun, Format, StorageOption, Yes
from kafka_on_spark.cli.call.output import Output
from kafka_on_spark.cli.call.session import opened
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import TopicPartition


def replicas(
    cluster: ClusterUrl,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The replica's topic.")],
    partition: Annotated[int, typer.Option("--partition", help="The replica's partition.")],
    broker: Annotated[int, typer.Option("--broker", help="The replica's broker.")],
    lost: Annotated[
        bool,
        typer.Option(
            "--lost", help="Give the replica up: it is created again, and fetched from the others."
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Declare a replica lost. It can't be read, and each replication report names it."""
    if not lost:
        raise InvalidRequestError("say what to do with the replica: --lost is the only choice")
    name = TopicPartition(topic, partition)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
        session.confirm(
            f"giving up the replica of {name} on broker {broker}",
            lambda cluster: cluster.lose_replica(topic, partition, broker),
        )
        session.do(lambda: session.cluster.lose_replica(topic, partition, broker))
        session.conclude(
            f"The replica of {name} on broker {broker} is lost: a round of replication"
            " creates it again.",
            {"topic": topic, "partition": partition, "broker": broker},
        )
