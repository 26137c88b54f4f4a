"""`leader-election`: elects preferred leaders, or leaders that may lack committed records."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import ClusterUrl, DryRun, Format, StorageOption, Yes
from kafka_on_spark.cli.call.output import Output, plural
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.cli.kafka.kafka_files import read_partitions
from kafka_on_spark.cli.kafka.kafka_names import all_partitions
from kafka_on_spark.controller.partitions.recovery import leaderless
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.query.partition_names import partition_key

KINDS: Final = ("preferred", "unclean")


def leader_election(
    context: typer.Context,
    cluster: ClusterUrl,
    election_type: Annotated[
        str,
        typer.Option(
            "--election-type",
            metavar="preferred|unclean",
            help="preferred: the first replica, if in sync; unclean: any, if no other can lead.",
        ),
    ],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="The topic of the partitions.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", help="One partition of --topic; without it, all of them."),
    ] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions of the cluster.")
    ] = False,
    path_to_json_file: Annotated[
        str | None,
        typer.Option(
            "--path-to-json-file",
            metavar="FILE",
            help='Partitions as {"partitions": [{"topic": "flights", "partition": 0}]}.',
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Elect leaders: the preferred ones, or unclean ones where no replica in sync can lead."""
    given = election_type
    election_type = given.lower()  # Kafka's tool takes its words in capitals, too
    if election_type not in KINDS:
        raise InvalidRequestError(
            f"can't hold a {given!r} election: --election-type is 'preferred' or 'unclean'"
        )
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
        names = _partitions(session, context.params)
        if election_type == "unclean":
            _confirm_loss(session, names)
        moved = session.do(lambda: session.cluster.elect_leaders(election_type, names))
        image = session.cluster.image
        answer = [
            {**name._asdict(), "leader": image.topic(name.topic).partitions[name.partition].leader}
            for name in moved
        ]
        words = ", ".join(f"{TopicPartition(*name)}" for name in moved[:20])
        session.conclude(
            f"{plural(len(moved), 'partition')} of {len(names)} have another leader"
            f"{': ' + words if moved else ''}.",
            {"election_type": election_type, "elected": answer},
        )


def _partitions(session: Session, given: Mapping[str, Any]) -> Sequence[TopicPartition]:
    image = session.cluster.image
    ways = [
        given["topic"] is not None,
        given["all_topic_partitions"],
        given["path_to_json_file"] is not None,
    ]
    if sum(ways) != 1 or (given["partition"] is not None and given["topic"] is None):
        raise InvalidRequestError(
            "name partitions in one way: --topic (and --partition), --path-to-json-file, or"
            " --all-topic-partitions"
        )
    if given["path_to_json_file"] is not None:
        return read_partitions(given["path_to_json_file"])
    if given["all_topic_partitions"]:
        return all_partitions(image, sorted(image.topic_ids))
    if given["partition"] is not None:
        partition_key(image, given["topic"], given["partition"])
        return [TopicPartition(given["topic"], given["partition"])]
    return all_partitions(image, [given["topic"]])


def _confirm_loss(session: Session, names: Sequence[TopicPartition]) -> None:
    image = session.cluster.image
    keys = [partition_key(image, *name) for name in names]
    without_leader = leaderless(image, keys)
    if without_leader:
        words = ", ".join(str(image.name_of(key)) for key in without_leader[:20])
        session.confirm(
            "electing leaders that may lack committed records, for"
            f" {plural(len(without_leader), 'partition')} without a replica in sync that can lead"
            f" ({words}),"
        )
