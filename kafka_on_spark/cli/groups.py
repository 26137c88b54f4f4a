"""`consumer-groups`: where groups stand, how far they are behind, and setting them elsewhere.

A group is its offsets: nobody joins one, so Kafka's columns about members say nothing here, and
are left out.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

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
from kafka_on_spark.cli.output import Output, note, plural, say, write_json, write_rows, write_table
from kafka_on_spark.cli.session import Rehearsal, Session, opened
from kafka_on_spark.controller.groups import committed_by
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.group_offsets import describe_group, groups_of
from kafka_on_spark.service.group_resets import (
    Current,
    Earliest,
    Latest,
    Reset,
    Shift,
    Target,
    To,
    ToTime,
    parse_datetime,
    parse_duration,
    plan_resets,
)
from kafka_on_spark.storage.clock import SystemClock
from kafka_on_spark.storage.looking import find_offset
from kafka_on_spark.storage.roots import StorageOptions

SIMPLE_TARGETS: Final[Mapping[str, Target]] = {
    "to_earliest": Earliest(),
    "to_latest": Latest(),
    "to_current": Current(),
}
TARGETS: Final = (*SIMPLE_TARGETS, "to_offset", "shift_by", "to_datetime", "by_duration")
ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "list_": (),
    "describe": ("group", "all_groups"),
    "delete": ("group", "all_groups", *CHANGING),
    "delete_offsets": ("group", "topic", *CHANGING),
    "reset_offsets": (
        *("group", "all_groups", "topic", "all_topics", "execute", "dry_run"),
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
RESET_COLUMNS: Final = {
    "group": "group",
    "topic": "topic",
    "partition": "partition",
    "current_offset": "current-offset",
    "new_offset": "new-offset",
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
        for group in _groups(image, given)
        if committed_by(image, group)
        for lag in describe_group(image, group)
    ]
    write_rows(session.output, COLUMNS, rows)


def _groups(image: MetadataImage, given: Mapping[str, Any]) -> list[str]:
    """Return the groups that were named, each once."""
    if bool(given["group"]) == given["all_groups"]:
        raise InvalidRequestError("say which groups in one way: --group or --all-groups")
    return groups_of(image) if given["all_groups"] else list(dict.fromkeys(given["group"]))


def _delete(session: Session, given: Mapping[str, Any]) -> None:
    image = session.cluster.image
    groups = _groups(image, given)
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


def _reset_offsets(session: Session, given: Mapping[str, Any]) -> None:
    if given["execute"] and given["dry_run"]:
        raise InvalidRequestError("--execute and --dry-run contradict each other: leave one out")
    target = _target(given)
    if bool(given["topic"]) == given["all_topics"]:
        raise InvalidRequestError("say which topics in one way: --topic or --all-topics")
    image = session.cluster.image
    find = partial(_find_offset, image, session.options)
    resets = {
        group: plan_resets(image, group, _keys(image, group, given), target, find)
        for group in _groups(image, given)
    }
    _note_what_is_moved(resets)
    # Also where nothing is done: what would be refused is refused.
    changes = [partial(_set_offsets, group, planned) for group, planned in resets.items()]
    rehearsed = session if given["execute"] else _rehearsal_of(session)
    rehearsed.do_all(changes)
    _conclude_reset(session.output, resets, is_done=given["execute"])


def _rehearsal_of(session: Session) -> Session:
    rehearsal = session.rehearsal or Rehearsal.of(session.cluster)
    return Session(
        cluster=rehearsal, options=session.options, output=session.output, rehearsal=rehearsal
    )


def _set_offsets(group: str, resets: Sequence[Reset], cluster: Any) -> None:
    cluster.alter_group_offsets(group, {each.name: each.offset for each in resets})


def _target(given: Mapping[str, Any]) -> Target:
    asked = [name for name in TARGETS if given[name] is not None and given[name] is not False]
    if len(asked) != 1:
        ways = ", ".join("--" + name.replace("_", "-") for name in TARGETS)
        raise InvalidRequestError(f"say in one way where to reset to: {ways}")
    [name] = asked
    if name == "to_offset":
        return To(given[name])
    if name == "shift_by":
        return Shift(given[name])
    if name == "to_datetime":
        return ToTime(parse_datetime(given[name]))
    if name == "by_duration":
        return ToTime(SystemClock().now_ms() * 1000 - parse_duration(given[name]))
    return SIMPLE_TARGETS[name]


def _keys(image: MetadataImage, group: str, given: Mapping[str, Any]) -> Sequence[PartitionKey]:
    if given["all_topics"]:
        return committed_by(image, group)
    return [
        PartitionKey(image.topic(name.topic).topic_id, name.partition)
        for name in named_partitions_of(image, given["topic"])
    ]


def _find_offset(
    image: MetadataImage, options: StorageOptions, key: PartitionKey, timestamp_us: int
) -> Offset | None:
    found = find_offset(image, key, timestamp_us, options)
    return None if found is None else found.offset


def _note_what_is_moved(resets: Mapping[str, Sequence[Reset]]) -> None:
    for group, planned in resets.items():
        for each in planned:
            if each.asked is not None:
                note(
                    f"{each.name} has no committed offset {each.asked}: group {group} would stand"
                    f" at {each.offset}."
                )


def _conclude_reset(
    output: Output, resets: Mapping[str, Sequence[Reset]], *, is_done: bool
) -> None:
    rows = [
        {
            "group": group,
            **each.name._asdict(),
            "current_offset": each.before,
            "new_offset": each.offset,
        }
        for group, planned in resets.items()
        for each in planned
    ]
    if output is Output.JSON:
        write_json({"dry_run": not is_done, "offsets": rows})
        return
    write_table(RESET_COLUMNS, rows)
    if not is_done:
        say("A dry run: nothing was changed; --execute does it.")


_DO: Final = {
    "list_": _list,
    "describe": _describe,
    "delete": _delete,
    "delete_offsets": _delete_offsets,
    "reset_offsets": _reset_offsets,
}
