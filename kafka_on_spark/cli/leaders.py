"""`leader-election`: elects preferred leaders, or leaders that may lack committed records."""

from collections.abc import Sequence
from typing import Annotated

import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import TopicPartition
from kafka_on_spark.cli.actions import CHANGING, alone
from kafka_on_spark.cli.kafka_files import all_partitions, read_partitions
from kafka_on_spark.cli.output import plural
from kafka_on_spark.cli.session import Session
from kafka_on_spark.controller.election import leaderless
from kafka_on_spark.metadata.image import partition_key


@alone(*CHANGING)
def leader_election(
    session: Session,
    election_type: Annotated[
        str,
        typer.Option(
            metavar="preferred|unclean",
            help="preferred: the first replica, if in sync; unclean: any, if no other can lead.",
        ),
    ],
    topic: Annotated[str, typer.Option(metavar="NAME", help="The topic of the partitions.")]
    | None = None,
    partition: Annotated[
        int, typer.Option(help="One partition of --topic; without it, all of them.")
    ]
    | None = None,
    all_topic_partitions: Annotated[
        bool, typer.Option(help="All partitions of the cluster.")
    ] = False,
    path_to_json_file: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help='Partitions as {"partitions": [{"topic": "flights", "partition": 0}]}.',
        ),
    ]
    | None = None,
) -> None:
    """Elect leaders: the preferred ones, or unclean ones where no replica in sync can lead."""
    kind = election_type.lower()  # Kafka's tool takes its words in capitals, too
    if kind not in ("preferred", "unclean"):
        raise InvalidRequestError(
            f"can't hold a {election_type!r} election: --election-type is 'preferred' or 'unclean'"
        )
    ways = [topic is not None, all_topic_partitions, path_to_json_file is not None]
    if sum(ways) != 1 or (partition is not None and topic is None):
        raise InvalidRequestError(
            "name partitions in one way: --topic (and --partition), --path-to-json-file, or"
            " --all-topic-partitions"
        )
    image = session.cluster.image
    if path_to_json_file is not None:
        names = read_partitions(path_to_json_file)
    elif topic is None:
        names = all_partitions(image, sorted(image.topic_ids))
    elif partition is None:
        names = all_partitions(image, [topic])
    else:
        names = [TopicPartition(topic, partition)]
    if kind == "unclean":
        _confirm_loss(session, names)
    moved = session.cluster.elect_leaders(kind, names)
    image = session.cluster.image
    answer = [
        {**name._asdict(), "leader": image.topic(name.topic).partitions[name.partition].leader}
        for name in moved
    ]
    session.conclude({"election_type": kind, "elected": answer})


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
