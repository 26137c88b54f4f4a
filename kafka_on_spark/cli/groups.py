"""`consumer-groups`: where groups stand, how far they are behind, and setting them elsewhere.

A group is its offsets: nobody joins one, so Kafka's columns about members say nothing here, and
are left out.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.group_resets import TARGETS, chosen_groups, reset_offsets_of
from kafka_on_spark.cli.names import named_partitions_of
from kafka_on_spark.cli.options import (
    CHANGING,
    ClusterUrl,
    DryRun,
    Format,
    StorageOption,
    Yes,
    chosen_action,
    needed,
)
from kafka_on_spark.cli.output import Output, plural, write_rows
from kafka_on_spark.cli.session import Session, opened
from kafka_on_spark.controller.groups import committed_by
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.service.group_offsets import describe_group, groups_of

ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "list_": (),
    "describe": ("group", "all_groups"),
    "delete": ("group", "all_groups", *CHANGING),
    "delete_offsets": ("group", "topic", *CHANGING),
    "reset_offsets": (
        *("group", "all_groups", "topic", "all_topics", "execute", "export", "dry_run"),
        *TARGETS,
    ),
}
LIST_COLUMNS: Final = {"group": "group"}
COLUMNS: Final = {
    "group": "group",
    "topic": "topic",
    "partition": "partition",
    "current_offset": "current-offset",
    "log_end_offset": "log-end-offset",
    "lag": "lag",
}


def consumer_groups(
    context: typer.Context,
    cluster: ClusterUrl,
    list_: Annotated[bool, typer.Option("--list", help="Show the names of groups.")] = False,
    describe: Annotated[
        bool,
        typer.Option(
            "--describe",
            help="Show where groups stand; the log end is the high watermark.",
        ),
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Remove groups.")] = False,
    delete_offsets: Annotated[
        bool, typer.Option("--delete-offsets", help="Remove a group's offsets of topics.")
    ] = False,
    reset_offsets: Annotated[
        bool,
        typer.Option(
            "--reset-offsets", help="Show where groups would be set, and with --execute set them."
        ),
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group; as many as needed."),
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups.")] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="NAME[:0,1]",
            help="A topic, or some of its partitions; as many as needed.",
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All of which the group has an offset.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the first records kept.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the high watermarks.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To where it stands, or the high watermark.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To an offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="On by so many records, or back if negative.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="2026-01-31T12:00:00.000",
            help="To the first record that is not older; UTC, unless it has a time zone.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="PnDTnHnMnS",
            help="To the first record that is not older than so long ago.",
        ),
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from-file",
            metavar="FILE",
            help="To offsets in a CSV file, as --export writes it. - is standard input.",
        ),
    ] = None,
    export: Annotated[
        bool,
        typer.Option(
            "--export",
            help="Write the new offsets as CSV: topic,partition,offset, after the group if there"
            " may be several.",
        ),
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it: without this it is only shown.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """List, describe, remove and reset consumer groups: what queries with kafka.group.id commit."""
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
        _DO[action](session, context.params)


def _list(session: Session, given: Mapping[str, Any]) -> None:
    rows = ({"group": name} for name in groups_of(session.cluster.image))
    write_rows(session.output, LIST_COLUMNS, rows)


def _describe(session: Session, given: Mapping[str, Any]) -> None:
    image = session.cluster.image
    rows = [
        {
            "group": group,
            **lag.name._asdict(),
            "current_offset": lag.offset,
            "log_end_offset": lag.high_watermark,
            "lag": lag.lag,
        }
        for group in chosen_groups(image, given)
        if committed_by(image, group)
        for lag in describe_group(image, group)
    ]
    write_rows(session.output, COLUMNS, rows)


def _delete(session: Session, given: Mapping[str, Any]) -> None:
    image = session.cluster.image
    groups = chosen_groups(image, given)
    count = sum(len(committed_by(image, group)) for group in groups)
    session.confirm(
        f"deleting {plural(len(groups), 'group')} with offsets of {plural(count, 'partition')}"
    )
    session.do_all([partial(_delete_group, group) for group in groups])
    session.conclude(f"{plural(len(groups), 'group')} deleted.", {"deleted": groups})


def _delete_group(group: str, cluster: Any) -> None:
    cluster.delete_group(group)


def _delete_offsets(session: Session, given: Mapping[str, Any]) -> None:
    image = session.cluster.image
    groups = needed(given["group"], "--group", "name the group whose offsets to delete")
    if len(groups) != 1:
        raise InvalidRequestError("--delete-offsets takes one --group: call it once for each")
    [group] = groups
    topics = needed(given["topic"], "--topic", "name the topics whose offsets to delete")
    names = named_partitions_of(image, topics)
    session.confirm(f"deleting offsets of group {group} in up to {plural(len(names), 'partition')}")
    left = session.do(lambda: session.cluster.delete_group(group, names)) or []
    session.conclude(
        f"{plural(len(left), 'offset')} of group {group} deleted.",
        {"group": group, "deleted": [name._asdict() for name in left]},
    )


_DO: Final = {
    "list_": _list,
    "describe": _describe,
    "delete": _delete,
    "delete_offsets": _delete_offsets,
    "reset_offsets": reset_offsets_of,
}
