"""`reassign-partitions`: generate, execute, verify, cancel and list, as Kafka's tool does."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.kafka_files import (
    Assignment,
    assignment_as_dict,
    assignment_text,
    named,
    read_assignment,
    read_topics,
)
from kafka_on_spark.cli.options import (
    CHANGING,
    FOUND,
    ClusterUrl,
    DryRun,
    Format,
    StorageOption,
    Yes,
    chosen_action,
    needed,
    numbers,
)
from kafka_on_spark.cli.output import Output, note, plural, say, write_json, write_rows
from kafka_on_spark.cli.session import Session, opened
from kafka_on_spark.controller.reassignment import Reassignment, ReassignmentStatus
from kafka_on_spark.ids import TopicPartition
from kafka_on_spark.metadata.image import MetadataImage

ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "generate": ("topics_to_move_json_file", "broker_list", "disable_rack_aware"),
    "execute": ("reassignment_json_file", "throttle", *CHANGING),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file", *CHANGING),
    "list_": (),
}
LIST_COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "replicas": "replicas",
    "adding_replicas": "adding",
    "removing_replicas": "removing",
    "waits_for": "waits for",
    "throttle_bytes_per_s": "bytes/s",
}
VERIFY_COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "replicas": "replicas",
    "status": "status",
}


def reassign_partitions(
    context: typer.Context,
    cluster: ClusterUrl,
    generate: Annotated[
        bool, typer.Option("--generate", help="Propose a balanced assignment; change nothing.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Begin to move replicas.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Say what became of it; 1 unless all is complete.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Have what moves stay where it was.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show what moves now.")] = False,
    topics_to_move_json_file: Annotated[
        str | None,
        typer.Option(
            "--topics-to-move-json-file",
            metavar="FILE",
            help='Topics as {"topics": [{"topic": "flights"}]}; all without it.',
        ),
    ] = None,
    broker_list: Annotated[
        str | None, typer.Option("--broker-list", metavar="1,2", help="Where to; all without it.")
    ] = None,
    reassignment_json_file: Annotated[
        str | None,
        typer.Option(
            "--reassignment-json-file",
            metavar="FILE",
            help='{"partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}.',
        ),
    ] = None,
    throttle: Annotated[
        int | None, typer.Option("--throttle", help="Bytes a second that may be copied for it.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Move replicas between brokers: plan it, begin, follow, and call it off.

    Copying is done by replication, and each step of a move by a controller.
    """
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
        _DO[action](session, context.params)


def _generate(session: Session, given: Mapping[str, Any]) -> None:
    file, broker_list = given["topics_to_move_json_file"], given["broker_list"]
    plan = session.cluster.plan_reassignment(
        None if file is None else read_topics(file),
        brokers=None if broker_list is None else numbers(broker_list, "--broker-list"),
    )
    if session.output is Output.JSON:
        write_json(plan.as_dict())


def _execute(session: Session, given: Mapping[str, Any]) -> None:
    targets = _targets(given)
    current = _current(session.cluster.image, targets)
    started = session.do(
        lambda: session.cluster.reassign(named(targets), throttle_bytes_per_s=given["throttle"])
    )
    if session.output is Output.TABLE and session.rehearsal is None:
        say(
            "Current partition replica assignment\n\n"
            f"{assignment_text(current)}\n\n"
            "Save this to use as the --reassignment-json-file option during rollback"
        )
    session.conclude(
        f"{plural(len(started or ()), 'partition')} of {len(targets)} will change.",
        {
            "current": assignment_as_dict(current),
            "started": [name._asdict() for name in started or ()],
        },
    )


def _verify(session: Session, given: Mapping[str, Any]) -> None:
    targets = _targets(given)
    statuses = session.cluster.verify_reassignment(named(targets))
    rows = [
        {**name._asdict(), "replicas": targets[name], "status": statuses[name].value}
        for name in sorted(targets)
    ]
    is_complete = all(each is ReassignmentStatus.COMPLETE for each in statuses.values())
    if session.output is Output.JSON:
        write_json({"is_complete": is_complete, "partitions": rows})
    else:
        write_rows(session.output, VERIFY_COLUMNS, rows)
    raise typer.Exit(0 if is_complete else FOUND)


def _cancel(session: Session, given: Mapping[str, Any]) -> None:
    names = None if given["reassignment_json_file"] is None else _targets(given)
    cancelled = session.do(lambda: session.cluster.cancel_reassignment(names)) or []
    session.conclude(
        f"{plural(len(cancelled), 'reassignment')} cancelled:"
        f" {', '.join(map(str, cancelled)) or 'nothing moves'}.",
        {"cancelled": [name._asdict() for name in cancelled]},
    )


def _list(session: Session, given: Mapping[str, Any]) -> None:
    moving = session.cluster.reassignments()
    if not moving and session.output is Output.TABLE:
        note("No partition is being reassigned.")
    write_rows(session.output, LIST_COLUMNS, map(_move_row, moving))


def _move_row(move: Reassignment) -> dict[str, Any]:
    return {
        **move.name._asdict(),
        "replicas": list(move.target),
        "adding_replicas": list(move.adding),
        "removing_replicas": list(move.removing),
        "waits_for": list(move.waits_for),
        "throttle_bytes_per_s": move.throttle_bytes_per_s,
    }


def _targets(given: Mapping[str, Any]) -> dict[TopicPartition, list[int]]:
    words = "name the file that says where partitions go"
    return read_assignment(
        needed(given["reassignment_json_file"], "--reassignment-json-file", words)
    )


def _current(image: MetadataImage, names: Iterable[TopicPartition]) -> Assignment:
    """Return where partitions are now; those that are not there are refused with the rest."""
    found = {}
    for name in names:
        topic_id = image.topic_ids.get(name.topic)
        topic = None if topic_id is None else image.topics[topic_id]
        if topic is not None and name.partition in topic.partitions:
            found[name] = topic.partitions[name.partition].original_replicas
    return found


_DO: Final = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list_": _list,
}
