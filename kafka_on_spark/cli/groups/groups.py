"""`consumer-groups`: lists, describes, resets and deletes consumer groups.

A member has no host and no client id here, and so no columns of these; its epochs and partitions
are shown in their place.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    CHANGING,
    OPTIONAL_VALUES,
    ClusterUrl,
    DryRun,
    Format,
    StorageOption,
    Yes,
    chosen_action,
    needed,
)
from kafka_on_spark.cli.call.output import Output, note, plural, write_rows
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.cli.groups.group_resets import TARGETS, chosen_groups, reset_offsets_of
from kafka_on_spark.cli.kafka_files import named_partitions_of
from kafka_on_spark.controller.commands.groups import deletable_partitions
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.query.offsets.group_offsets import (
    ASSIGNING,
    EMPTY,
    RECONCILING,
    STABLE,
    GroupMembers,
    MemberDescription,
    describe_group,
    describe_members,
    groups_of,
    state_of,
)

VIEWS: Final = ("offsets", "state", "members")
"""The views of --describe; the first by default."""

STATES: Final = (
    *("Unknown", "PreparingRebalance", "CompletingRebalance", STABLE, "Dead", EMPTY),
    *(ASSIGNING, RECONCILING, "NotReady"),
)
"""Source: GroupState."""

ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "list_": ("state",),
    "describe": ("group", "all_groups", *VIEWS, "verbose"),
    "delete": ("group", "all_groups", *CHANGING),
    "delete_offsets": ("group", "topic", *CHANGING),
    "remove_members": ("group", "member", *CHANGING),
    "reset_offsets": (
        *("group", "all_groups", "topic", "all_topics", "execute", "export", "dry_run"),
        *TARGETS,
    ),
}
LIST_COLUMNS: Final = {"group": "group"}
STATE_COLUMNS: Final = {"group": "group", "state": "state"}
DESCRIBED_STATE_COLUMNS: Final = {**STATE_COLUMNS, "member_count": "#members"}
MEMBER_COLUMNS: Final = {
    "group": "group",
    "consumer_id": "consumer-id",
    "instance_id": "group-instance-id",
    "current_epoch": "current-epoch",
    "partition_count": "#partitions",
    "assignment": "assignment",
}
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
            help="Show the offsets and the lag of groups; the log end is the high watermark.",
        ),
    ] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="With --describe: offsets, as by default.")
    ] = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="[STATES]",
            help="With --describe: states. With --list: only groups in these states.",
        ),
    ] = None,
    members: Annotated[
        bool, typer.Option("--members", help="With --describe: members, and what each has.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="With --describe: no effect, all is always shown.")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete groups.")] = False,
    delete_offsets: Annotated[
        bool, typer.Option("--delete-offsets", help="Delete a group's offsets in topics.")
    ] = False,
    remove_members: Annotated[
        bool,
        typer.Option(
            "--remove-members",
            help="Take members out of a group, such as killed ones: all, or each --member. One that"
            " lives joins again.",
        ),
    ] = False,
    member: Annotated[
        list[str] | None,
        typer.Option("--member", metavar="ID", help="A member; may be given more than once."),
    ] = None,
    reset_offsets: Annotated[
        bool,
        typer.Option(
            "--reset-offsets", help="Show the new offsets of groups; --execute sets them."
        ),
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group; may be given more than once."),
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups.")] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="NAME[:0,1]",
            help="A topic, or some of its partitions; may be given more than once.",
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics in which the group has offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the log starts.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the high watermarks.")] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current", help="To the group's own offset; without one, to the high watermark."
        ),
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To an offset.")] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", help="Forward by so many records, or back if negative."),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="2026-01-31T12:00:00.000",
            help="To the first record at or after this time; UTC without a time zone.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="PnDTnHnMnS",
            help="To the first record that is not older than this duration.",
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
            help="Write the new offsets as CSV: topic,partition,offset; for several groups,"
            " group,topic,partition,offset.",
        ),
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Set the offsets; without it they are only shown.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """List, describe, reset and delete groups: offsets of queries and consumers, and members."""
    action = chosen_action(context, ACTIONS)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
        _DO[action](session, context.params)


def _list(session: Session, given: Mapping[str, Any]) -> None:
    wanted = _states(given["state"])
    image = session.cluster.image
    names = groups_of(image)
    if wanted is None:
        write_rows(session.output, LIST_COLUMNS, ({"group": name} for name in names))
    else:
        states = {name: state_of(image.consumer_groups.get(name)) for name in names}
        rows = ({"group": name, "state": each} for name, each in states.items() if each in wanted)
        write_rows(session.output, STATE_COLUMNS, rows)


def _states(text: str | None) -> tuple[str, ...] | None:
    """Return the states that --state names; None if it was not given.

    Raises:
        InvalidRequestError: A name is not one of Kafka's states.
    """
    if text is None:
        return None
    if text == OPTIONAL_VALUES["--state"]:
        return STATES
    known = {each.lower(): each for each in STATES}
    words = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word.lower() not in known]
    if unknown:
        raise InvalidRequestError(
            f"--state can't be {unknown[0]!r}: give some of {', '.join(STATES)}, or no value for"
            " all"
        )
    return tuple(known[word.lower()] for word in words)


def _describe(session: Session, given: Mapping[str, Any]) -> None:
    views = [name for name in VIEWS if given[name]]
    if len(views) > 1:
        raise InvalidRequestError(
            "--describe shows one thing: give one of --offsets, --state and --members"
        )
    _DESCRIBE[views[0] if views else VIEWS[0]](session, given)


def _described(session: Session, given: Mapping[str, Any]) -> dict[str, GroupMembers]:
    """Return the groups that are asked for, and their members.

    Raises:
        GroupIdNotFoundError: There is no such group.
    """
    image = session.cluster.image
    return {group: describe_members(image, group) for group in chosen_groups(image, given)}


def _describe_state(session: Session, given: Mapping[str, Any]) -> None:
    rows = [
        {"group": group, "state": each.state, "member_count": len(each.members)}
        for group, each in _described(session, given).items()
    ]
    write_rows(session.output, DESCRIBED_STATE_COLUMNS, rows)


def _describe_members(session: Session, given: Mapping[str, Any]) -> None:
    described = _described(session, given)
    for group, each in described.items():
        if not each.members:
            note(f"Group {group} has no members.")
    rows = [
        {
            "group": group,
            "consumer_id": member.member_id,
            "instance_id": member.instance_id,
            "current_epoch": member.member_epoch,
            "partition_count": len(member.partitions),
            "assignment": _assignment(member),
        }
        for group, each in described.items()
        for member in each.members
    ]
    write_rows(session.output, MEMBER_COLUMNS, rows)


def _assignment(member: MemberDescription) -> str:
    """Return a member's partitions, as in orders:0,1;returns:0."""
    topics: dict[str, list[str]] = {}
    for topic, number in member.partitions:
        topics.setdefault(topic, []).append(str(number))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


def _describe_offsets(session: Session, given: Mapping[str, Any]) -> None:
    image, groups = session.cluster.image, list(_described(session, given))
    for group in groups:
        if not describe_group(image, group):
            note(f"Group {group} has committed no offset.")
    rows = [
        {
            "group": group,
            **lag.name._asdict(),
            "current_offset": lag.offset,
            "log_end_offset": lag.high_watermark,
            "lag": lag.lag,
        }
        for group in groups
        for lag in describe_group(image, group)
    ]
    write_rows(session.output, COLUMNS, rows)


def _delete(session: Session, given: Mapping[str, Any]) -> None:
    image = session.cluster.image
    groups = chosen_groups(image, given)
    count = sum(len(deletable_partitions(image, group)) for group in groups)
    deletions = [partial(_delete_group, group) for group in groups]
    session.confirm(
        f"deleting {plural(len(groups), 'group')} with offsets of {plural(count, 'partition')}",
        *deletions,
    )
    session.do_all(deletions)
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
    session.confirm(
        f"deleting offsets of group {group} in up to {plural(len(names), 'partition')}",
        lambda cluster: cluster.delete_group(group, names),
    )
    left = session.do(lambda: session.cluster.delete_group(group, names)) or []
    session.conclude(
        f"{plural(len(left), 'offset')} of group {group} deleted.",
        {"group": group, "deleted": [name._asdict() for name in left]},
    )


def _remove_members(session: Session, given: Mapping[str, Any]) -> None:
    groups = needed(given["group"], "--group", "name the group whose members to remove")
    if len(groups) != 1:
        raise InvalidRequestError("--remove-members takes one --group: call it once for each")
    [group] = groups
    wanted = given["member"] or None
    known = describe_members(session.cluster.image, group).members
    count = len([each for each in known if wanted is None or each.member_id in wanted])
    session.confirm(
        f"removing {plural(count, 'member')} of group {group}",
        lambda cluster: cluster.remove_group_members(group, wanted),
    )
    removed = session.do(lambda: session.cluster.remove_group_members(group, wanted)) or []
    session.conclude(
        f"{plural(len(removed), 'member')} of group {group} removed.",
        {"group": group, "removed": removed},
    )


_DESCRIBE: Final = {
    "offsets": _describe_offsets,
    "state": _describe_state,
    "members": _describe_members,
}
_DO: Final = {
    "list_": _list,
    "describe": _describe,
    "delete": _delete,
    "delete_offsets": _delete_offsets,
    "remove_members": _remove_members,
    "reset_offsets": reset_offsets_of,
}
