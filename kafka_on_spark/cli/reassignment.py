"""`leader-election` and `reassign-partitions`: which brokers lead and have partitions."""

from operator import methodcaller
from typing import Final

import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import KEEP, TopicPartition
from kafka_on_spark.cli.kafka_files import (
    all_partitions,
    assignment_text,
    read_partitions,
    read_topics,
    registered,
)
from kafka_on_spark.cli.options import FOUND, numbers
from kafka_on_spark.cli.output import fields, note, plural, say, write_json
from kafka_on_spark.cli.verbs import CHANGING, Action, Session, alone, verb
from kafka_on_spark.controller.election import why_not_led
from kafka_on_spark.controller.reassignment import (
    ReassignmentStatus,
    assignment_as_dict,
    list_reassignments,
)
from kafka_on_spark.metadata.image import partition_key
from kafka_on_spark.metadata.records import PartitionChangeRecord

REPLICAS: Final = ("replicas", [1, 2, 3])
MOVE_FIELDS: Final = (
    "replicas=target adding_replicas=adding removing_replicas=removing waits_for"
    " throttle_bytes_per_s"
)


@alone(
    """Elect leaders: the preferred ones, or unclean ones where no replica in sync can lead.

    The exit code is 1 if a partition is not led so afterwards; the answer says why.

    Options:
        --election-type preferred|unclean
            preferred: the first replica, if in sync; unclean: any, if no other can lead.
        --topic NAME  The topic.
        --all-topic-partitions  All partitions of the cluster.
        --path-to-json-file FILE
            Partitions as {"partitions": [{"topic": "flights", "partition": 0}]}.
    """,
    *CHANGING,
    one_of=("topic all_topic_partitions path_to_json_file",),
    at_most_one_of=("partition all_topic_partitions", "partition path_to_json_file"),
)
def leader_election(
    session: Session,
    election_type: str,
    topic: str | None = None,
    partition: int | None = None,
    all_topic_partitions: bool = False,
    path_to_json_file: str | None = None,
) -> None:
    kind = election_type.lower()  # Kafka's tool takes its words in capitals, too
    if kind not in ("preferred", "unclean"):
        raise InvalidRequestError(
            f"can't hold a {election_type!r} election: --election-type is 'preferred' or 'unclean'"
        )
    image = session.cluster.image
    if path_to_json_file is not None:
        names = list(read_partitions(path_to_json_file, "partition", 0))
    elif topic is not None and partition is not None:
        names = [TopicPartition(topic, partition)]
    else:
        names = all_partitions(image, sorted(image.topic_ids) if topic is None else [topic])
    cluster, elect = session.cluster, methodcaller("elect_leaders", kind, names)
    if kind == "unclean" and not session.is_dry_run:
        session.decide([elect])
        lost = [
            f"{each.topic}-{each.partition}, {each.cause}"
            for each in session.dry_run.decided
            if isinstance(each, PartitionChangeRecord)
            and each.change.unclean_generation is not KEEP
        ]
        if lost:
            session.confirm(
                f"electing leaders of {plural(len(lost), 'partition')} that lack committed records"
                f" ({'; '.join(lost[:20])}{'; …' if lost[20:] else ''})"
            )
        # By what was seen of the replicas for the question: another look might lose more.
        [(command, looks)] = session.dry_run.asked
        moved = cluster._names(cluster._run(command, **looks))
    else:
        moved = elect(cluster)
    image = cluster.image
    elected = [{**name._asdict(), "leader": registered(image, name).leader} for name in moved]
    left = [
        {**name._asdict(), "leader": registered(image, name).leader, "why": why}
        for name in names
        for why in [why_not_led(image, partition_key(image, *name), preferred=kind == "preferred")]
        if why is not None
    ]
    if not elected and not left:
        note("All of them are led so already.")
    session.show(
        {"dry_run": False, "election_type": kind, "elected": elected, "not_elected": left},
        rows=[*elected, *left],
        columns="topic partition leader why",
    )
    raise typer.Exit(FOUND if left else 0)


def generate(
    session: Session,
    topics_to_move_json_file: str | None = None,
    broker_list: str | None = None,
    throttle: int | None = None,
) -> None:
    """Propose a balanced assignment; change nothing."""
    file = topics_to_move_json_file
    topics = None if file is None else read_topics(file)
    plan = session.cluster.plan_reassignment(
        topics,
        brokers=None if broker_list is None else numbers(broker_list, "--broker-list"),
        throttle_bytes_per_s=throttle,
    )
    moves = [
        {**move.name._asdict(), **fields(move, "replicas target bytes_moved")}
        for move in plan.moves
    ]
    summary = {
        **fields(plan, "bytes_moved estimated_seconds bytes_per_s is_rate_known"),
        "unmeasured": [name._asdict() for name in plan.unmeasured],
    }
    if session.is_json:
        files = {"current": assignment_as_dict(plan.current), "proposed": plan.as_dict()}
        write_json({**files, "moves": moves, **summary})
        return
    session.write_rows(moves)
    session.write_answer(summary)
    # The file's content comes last, as in Kafka's tool.
    say("", "Current partition replica assignment", assignment_text(plan.current))
    say("", "Proposed partition reassignment configuration", assignment_text(plan.proposed))


def execute(session: Session, reassignment_json_file: str, throttle: int | None = None) -> None:
    """Begin to move replicas."""
    targets = read_partitions(reassignment_json_file, *REPLICAS)
    image = session.cluster.image
    current = {name: registered(image, name).original_replicas for name in targets}
    started = session.cluster.reassign(dict(targets.items()), throttle_bytes_per_s=throttle)
    session.conclude(
        {"current": assignment_as_dict(current), "started": [each._asdict() for each in started]},
        "Current partition replica assignment",
        "",
        assignment_text(current),
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        f"{plural(len(started), 'partition')} of {len(targets)} will change.",
    )


def verify(session: Session, reassignment_json_file: str) -> None:
    """Show how far a reassignment is; the exit code is 1 until it is complete."""
    targets = read_partitions(reassignment_json_file, *REPLICAS)
    statuses = session.cluster.verify_reassignment(dict(targets.items()))
    rows = [
        {**name._asdict(), "replicas": targets[name], "status": statuses[name].value}
        for name in sorted(targets)
    ]
    is_complete = all(each is ReassignmentStatus.COMPLETE for each in statuses.values())
    answer = {"is_complete": is_complete, "partitions": rows}
    session.show(answer, rows=rows)
    raise typer.Exit(0 if is_complete else FOUND)


def cancel(session: Session, reassignment_json_file: str | None = None) -> None:
    """Move replicas back to where they were."""
    file = reassignment_json_file
    names = None if file is None else list(read_partitions(file, *REPLICAS))
    cancelled = session.cluster.cancel_reassignment(names)
    session.conclude({"cancelled": [name._asdict() for name in cancelled]})


def list_(session: Session) -> None:
    """Show partitions that are being reassigned."""
    moving = list_reassignments(session.cluster.image)
    if not moving and not session.is_json:
        note("No partition is being reassigned.")
    # No table says what was left to copy at a past moment.
    progress_of = [] if session.is_past else session.cluster.reassignment_progress()
    left = {each.name: each.total_bytes - each.copied_bytes for each in progress_of}
    session.write_rows(
        move.name._asdict() | fields(move, MOVE_FIELDS) | {"bytes_to_copy": left.get(move.name)}
        for move in moving
    )


reassign_partitions = verb(
    """Move replicas between brokers: plan a move, begin it, follow it, cancel it.

    Replication copies the records, and a controller takes each step of a move.

    Options:
        --topics-to-move-json-file FILE
            Topics as {"topics": [{"topic": "flights"}]}; without it, all topics.
        --broker-list 1,2  Target brokers; without it, all.
        --throttle INTEGER  The most bytes a second to copy.
        --reassignment-json-file FILE
            {"partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}; or the
            output of --generate --output json. - is standard input.
    """,
    Action(generate),
    Action(execute, *CHANGING),
    Action(verify),
    Action(cancel, *CHANGING),
    Action(list_, "as_of"),
)
