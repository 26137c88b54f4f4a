"""`topics`: creates, alters, deletes, describes and lists topics, as kafka-topics does."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    CHANGING,
    AsOf,
    ClusterUrl,
    DryRun,
    Format,
    Include,
    StorageOption,
    Yes,
    chosen_action,
    needed,
    numbers,
    pairs,
)
from kafka_on_spark.cli.call.output import (
    Output,
    note,
    plural,
    say,
    write_json,
    write_rows,
)
from kafka_on_spark.cli.call.session import Change, Session, opened
from kafka_on_spark.cli.kafka.kafka_names import named_topics
from kafka_on_spark.cli.topics.topic_logs import show_logs
from kafka_on_spark.cli.topics.topic_rows import COLUMNS, partition_rows, summary, topic_as_dict
from kafka_on_spark.controller.partitions.partition_states import PartitionState
from kafka_on_spark.errors import (
    InvalidRequestError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import INTERNAL_TOPICS

FILTERS: Final[Mapping[str, PartitionState]] = {
    "under_replicated_partitions": PartitionState.UNDER_REPLICATED,
    "under_min_isr_partitions": PartitionState.UNDER_MIN_ISR,
    "at_min_isr_partitions": PartitionState.AT_MIN_ISR,
    "unavailable_partitions": PartitionState.UNAVAILABLE,
}
ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "create": (
        *("topic", "partitions", "replication_factor", "replica_assignment", "config"),
        *("if_not_exists", *CHANGING),
    ),
    "alter": (
        *("topic", "include", "partitions", "replica_assignment", "records", "if_exists"),
        *CHANGING,
    ),
    "delete": ("topic", "include", "if_exists", *CHANGING),
    "describe": (
        "topic",
        "include",
        "if_exists",
        "exclude_internal",
        "topics_with_overrides",
        "logs",
        "as_of",
        *FILTERS,
    ),
    "list_": ("topic", "include", "exclude_internal", "topics_with_overrides", "as_of", *FILTERS),
}


def topics(
    context: typer.Context,
    cluster: ClusterUrl,
    create: Annotated[bool, typer.Option("--create", help="Create a topic.")] = False,
    alter: Annotated[
        bool, typer.Option("--alter", help="Give topics more partitions, or fewer.")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete topics.")] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show topics and their partitions.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the names of topics.")] = False,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAMES", help="A topic, or topics with commas between."),
    ] = None,
    include: Include = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="The number of partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", help="The number of replicas of each partition."),
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(
            "--replica-assignment",
            metavar="1:2:3,2:3:1",
            help="Brokers of each partition, preferred leader first; existing partitions, too.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="NAME=VALUE", help="A setting; may be repeated."),
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            "--records",
            metavar="refuse|drop",
            help="With fewer partitions: refuse if the others have records, or drop these.",
        ),
    ] = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore a missing topic.")] = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Ignore an existing topic.")
    ] = False,
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out internal topics.")
    ] = False,
    topics_with_overrides: Annotated[
        bool,
        typer.Option("--topics-with-overrides", help="Only topics with own settings."),
    ] = False,
    under_replicated_partitions: Annotated[
        bool,
        typer.Option(
            "--under-replicated-partitions", help="Only partitions with replicas out of sync."
        ),
    ] = False,
    under_min_isr_partitions: Annotated[
        bool,
        typer.Option(
            "--under-min-isr-partitions", help="Only partitions below min.insync.replicas."
        ),
    ] = False,
    at_min_isr_partitions: Annotated[
        bool,
        typer.Option("--at-min-isr-partitions", help="Only partitions at min.insync.replicas."),
    ] = False,
    unavailable_partitions: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
    ] = False,
    logs: Annotated[
        bool,
        typer.Option(
            "--logs",
            help="With --describe: what each replica's log is made of, and what upkeep is due.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Create, alter, delete, describe or list topics."""
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes, as_of=as_of) as session:
        _DO[action](session, context.params)


def _create(session: Session, given: Mapping[str, Any]) -> None:
    name = needed(given["topic"], "--topic", "name the topic to create")
    there_already = {"topic": name, "created": False}
    if given["if_not_exists"] and name in session.cluster.image.topic_ids:
        session.conclude(f"Topic {name} exists already.", there_already)
        return
    assignment = given["replica_assignment"]
    try:
        topic_id = session.do(
            lambda: session.cluster.create_topic(
                name,
                partitions=given["partitions"],
                replication_factor=given["replication_factor"],
                replica_assignment=None if assignment is None else _assignment(assignment),
                configs=pairs(given["config"], "--config"),
            )
        )
    except TopicAlreadyExistsError:  # another process was quicker
        if not given["if_not_exists"]:
            raise
        session.conclude(f"Topic {name} exists already.", there_already)
        return
    answer = {"topic": name, "topic_id": topic_id, "created": True}
    session.conclude(f"Created topic {name} (id {topic_id}).", answer)


def _assignment(text: str) -> dict[int, list[int]]:
    """Return the replicas of each partition that --replica-assignment gives."""
    return {
        number: numbers(part.replace(":", ","), "--replica-assignment")
        for number, part in enumerate(text.split(","))
    }


def _new_assignment(text: str | None, count: int) -> dict[int, list[int]] | None:
    """Return the replicas of partitions from `count` on.

    As in kafka-topics, --replica-assignment begins with the existing partitions.
    """
    if text is None:
        return None
    return {number: each for number, each in _assignment(text).items() if number >= count}


def _alter(session: Session, given: Mapping[str, Any]) -> None:
    needed(_asked(given), "--topic", "name the topic to alter")
    to = needed(given["partitions"], "--partitions", "give the new number of partitions")
    counts = {
        name: len(session.cluster.image.topic(name).partitions)
        for name in _found(session, given, given["if_exists"])
    }
    session.do_all([_change_of(session, name, count, to, given) for name, count in counts.items()])
    if any(count < to for count in counts.values()):
        note("Records stay where they are; later records of a key may go to a new partition.")
    words = [
        f"Topic {name} has {plural(to, 'partition')}, {count} before."
        for name, count in counts.items()
    ]
    altered = [
        {"topic": name, "partitions_before": count, "partitions": to}
        for name, count in counts.items()
    ]
    session.conclude(words or "There was nothing to alter.", {"altered": altered})


def _change_of(
    session: Session, name: str, count: int, to: int, given: Mapping[str, Any]
) -> Change:
    """Return the change of a topic's number of partitions; a removal is confirmed first."""
    records, assignment = given["records"], given["replica_assignment"]
    if to < count:
        if assignment is not None:
            raise InvalidRequestError(
                f"--replica-assignment says where new partitions go, and topic {name!r} with"
                f" {count} is to have {to}: leave it out, or give more"
            )
        change = _removal_of(name, to, records or "refuse")
        _confirm_removal(session, name, count, to, change)
        return change
    if records is not None:
        raise InvalidRequestError(
            f"--records says what becomes of partitions that go, and topic {name!r} with {count}"
            f" is to have {to}: leave it out, or give fewer"
        )
    return lambda cluster: cluster.add_partitions(
        name, to=to, replica_assignment=_new_assignment(assignment, count)
    )


def _removal_of(name: str, to: int, records: str) -> Change:
    return lambda cluster: cluster.remove_partitions(name, to=to, records=records)


def _confirm_removal(session: Session, name: str, count: int, to: int, change: Change) -> None:
    record_count = sum(
        each.log_end_offset - each.log_start_offset
        for number, each in session.cluster.offsets(name).items()
        if number >= to
    )
    session.confirm(
        f"removing {plural(count - to, 'partition')} of topic {name} with"
        f" {plural(record_count, 'record')}",
        change,
    )


def _deletion_of(name: str, if_exists: bool) -> Change:
    def delete(cluster: Any) -> None:
        with suppress(*[UnknownTopicOrPartitionError] * if_exists):  # another process was quicker
            cluster.delete_topic(name)

    return delete


def _delete(session: Session, given: Mapping[str, Any]) -> None:
    needed(_asked(given), "--topic", "name the topics to delete")
    names = _found(session, given, given["if_exists"])
    deletions = [_deletion_of(name, given["if_exists"]) for name in names]
    if names:
        offsets = [each for name in names for each in session.cluster.offsets(name).values()]
        record_count = sum(each.log_end_offset - each.log_start_offset for each in offsets)
        session.confirm(
            f"deleting {plural(len(names), 'topic')} ({', '.join(names)}) with"
            f" {plural(len(offsets), 'partition')} and {plural(record_count, 'record')}",
            *deletions,
        )
    session.do_all(deletions)
    words = f"Deleted {plural(len(names), 'topic')}: {', '.join(names)}."
    session.conclude(words if names else "There was nothing to delete.", {"deleted": names})


def _asked(given: Mapping[str, Any]) -> str | None:
    asked: str | None = given["topic"] if given["include"] is None else given["include"]
    return asked


def _found(session: Session, given: Mapping[str, Any], if_exists: bool) -> list[str]:
    image = session.cluster.image
    return named_topics(image, given["topic"], given["include"], if_exist=if_exists)


def _describe(session: Session, given: Mapping[str, Any]) -> None:
    image = session.cluster.image
    names = _selected(session, given, if_exists=given["if_exists"])
    if given["logs"]:
        show_logs(session, names)
        return
    wanted = _states(given)
    if session.output is Output.JSON:
        write_json([topic_as_dict(image, image.topic(name), wanted) for name in names])
        return
    if not wanted:
        for name in names:
            say(summary(image, image.topic(name)))
    if not given["topics_with_overrides"]:
        rows = (row for name in names for row in partition_rows(image, image.topic(name), wanted))
        write_rows(session.output, COLUMNS, rows)


def _list(session: Session, given: Mapping[str, Any]) -> None:
    names = _selected(session, given, if_exists=True)
    if session.output is Output.JSON:
        write_json(names)
        return
    for name in names:
        say(name)


def _selected(session: Session, given: Mapping[str, Any], *, if_exists: bool) -> list[str]:
    image = session.cluster.image
    wanted = _states(given)
    return [
        name
        for name in _found(session, given, if_exists)
        if not (given["exclude_internal"] and name in INTERNAL_TOPICS)
        and (not given["topics_with_overrides"] or image.topic(name).configs)
        and (not wanted or next(partition_rows(image, image.topic(name), wanted), None))
    ]


def _states(given: Mapping[str, Any]) -> frozenset[PartitionState]:
    return frozenset(state for name, state in FILTERS.items() if given[name])


_DO: Final = {
    "create": _create,
    "alter": _alter,
    "delete": _delete,
    "describe": _describe,
    "list_": _list,
}
