"""`replicas`: a person's word that a replica is lost, where no process can find it so."""

from typing import Annotated

import typer

from kafka_on_spark.cli.options import ClusterUrl, DryRun, Format, StorageOption, Yes
from kafka_on_spark.cli.output import Output
from kafka_on_spark.cli.session import opened
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import TopicPartition


def replicas(
    cluster: ClusterUrl,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="Of which topic.")],
    partition: Annotated[int, typer.Option("--partition", help="Of which partition.")],
    broker: Annotated[int, typer.Option("--broker", help="On which broker.")],
    lost: Annotated[
        bool, typer.Option("--lost", help="It is lost: made anew, and fetched from the others.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Say that a replica is lost that only fails to be read, and is named in every report."""
    if not lost:
        raise InvalidRequestError("say what is to be done with the replica: --lost is all there is")
    name = TopicPartition(topic, partition)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
        session.confirm(
            f"giving up the replica of {name} on broker {broker}",
            lambda rehearsal: rehearsal.lose_replica(topic, partition, broker),
        )
        session.do(lambda: session.cluster.lose_replica(topic, partition, broker))
        session.conclude(
            f"The replica of {name} on broker {broker} is lost: a round of replication makes it"
            " anew.",
            {"topic": topic, "partition": partition, "broker": broker},
        )
