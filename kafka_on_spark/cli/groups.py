"""`consumer-groups`: lists, describes, resets and deletes consumer groups, as Kafka's tool does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition, micros_of
from kafka_on_spark.cli.kafka_files import named_partitions
from kafka_on_spark.cli.options import time_in
from kafka_on_spark.cli.output import fields, note, plural
from kafka_on_spark.cli.verbs import CHANGING, Action, Session, verb
from kafka_on_spark.groups.membership import describe_members, state_of
from kafka_on_spark.groups.offsets import (
    GroupLag,
    deletable_partitions,
    describe_group,
    groups_of,
    saved_partitions,
)
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.observe.replicas import find_offset, first_timestamps
from kafka_on_spark.store.deadlines import SystemClock

VIEWS: Final = "state offsets members verbose"
TARGETS: Final = "to_earliest to_latest to_current to_offset shift_by to_datetime"
CLIENT_FIELDS: Final = "host=client.host process_id=client.process_id client_id=client.client_id"
MEMBER_FIELDS: Final = f"consumer_id=member_id instance_id {CLIENT_FIELDS}"
OFFSET_FIELDS: Final = "current_offset=offset log_end_offset=high_watermark lag"

GROUPS: Final = "group all_groups"


def list_(session: Session, **views: bool) -> None:
    """Show the names of groups."""
    image = session.cluster.image
    rows = (
        {"group": name, "state": state_of(image.consumer_groups.get(name))}
        for name in groups_of(image)
    )
    session.write_rows(rows, "" if views else "group")


def describe(
    session: Session, group: list[str] | None = None, all_groups: bool = False, **views: bool
) -> None:
    """Show the offsets of groups, their lag (lag-ms: the age of the next record) and members."""
    image = session.cluster.image
    described = {name: describe_members(image, name) for name in _chosen(image, group)}
    rows: list[dict[str, Any]]
    if "state" in views:
        rows = [
            {"group": name, "state": each.state, "member_count": len(each.members)}
            for name, each in described.items()
        ]
    elif "members" in views:
        rows = [
            {
                "group": name,
                **fields(member, f"{MEMBER_FIELDS} current_epoch=member_epoch"),
                "partition_count": len(member.partitions),
                "assignment": [str(TopicPartition(*each)) for each in member.partitions],
            }
            for name, each in described.items()
            for member in each.members
        ]
        _note_empty(described, rows, "has no members")
    else:
        places = [(name, each) for name in described for each in describe_group(image, name)]
        rows = list(_places(session, image, places))
        _note_empty(described, rows, "has committed no offset")
    session.write_rows(rows)


def _places(
    session: Session, image: MetadataImage, places: Sequence[tuple[str, GroupLag]]
) -> Iterator[dict[str, Any]]:
    """Yield a row of each place of a group. Where it lags, the first record that the group has not
    processed is read for its age; what can't be read is noted."""
    behind = [
        (partition_key(image, *each.name), each.offset)
        for _, each in places
        if each.lag and each.offset is not None
    ]
    found = iter(first_timestamps(image, behind, session.options))
    now_ms = SystemClock().now_ms()
    for name, each in places:
        time_ms = next(found) if each.lag else None
        if isinstance(time_ms, KafkaOnSparkError):
            note(f"The age of the next record of {each.name} is not known: {time_ms}.")
            time_ms = None
        yield {
            "group": name,
            **each.name._asdict(),
            **fields(each, OFFSET_FIELDS),
            "lag_ms": None if time_ms is None else max(now_ms - time_ms, 0),
            **fields(each, f"consumer_id=member_id {CLIENT_FIELDS}"),
        }


def _chosen(image: MetadataImage, group: Sequence[str] | None) -> list[str]:
    return list(dict.fromkeys(group or groups_of(image)))


def _note_empty(groups: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], what: str) -> None:
    for name in groups.keys() - {row["group"] for row in rows}:
        note(f"Group {name} {what}.")


def delete(session: Session, group: list[str] | None = None, all_groups: bool = False) -> None:
    """Delete groups."""
    image = session.cluster.image
    groups = _chosen(image, group)
    count = sum(len(deletable_partitions(image, name)) for name in groups)
    session.confirm(
        f"deleting {plural(len(groups), 'group')} with offsets of {plural(count, 'partition')}"
    )
    session.do_all([methodcaller("delete_group", name) for name in groups])
    session.conclude({"deleted": groups})


def delete_offsets(session: Session, group: list[str], topic: list[str]) -> None:
    """Delete a group's offsets in topics."""
    name = _only(group)
    names = named_partitions(session.cluster.image, topic)
    session.confirm(f"deleting offsets of group {name} in up to {plural(len(names), 'partition')}")
    left = session.cluster.delete_group(name, names)
    session.conclude({"group": name, "deleted": [each._asdict() for each in left]})


def remove_members(session: Session, group: list[str], member: list[str] | None = None) -> None:
    """Take members out of a group: all, or each --member, such as killed ones."""
    name = _only(group)
    known = describe_members(session.cluster.image, name).members
    count = len([each for each in known if member is None or each.member_id in member])
    session.confirm(f"removing {plural(count, 'member')} of group {name}")
    removed = session.cluster.remove_group_members(name, member)
    session.conclude({"group": name, "removed": removed})


def _only(groups: Sequence[str]) -> str:
    if len(groups) != 1:
        raise InvalidRequestError("this action takes one --group: call it once for each")
    return groups[0]


def reset_offsets(
    session: Session,
    group: list[str] | None = None,
    all_groups: bool = False,
    topic: list[str] | None = None,
    all_topics: bool = False,
    execute: bool = False,
    **targets: Any,
) -> None:
    """Show the new offsets of groups; --execute sets them."""
    image = session.cluster.image
    target = target_of(*targets.popitem())
    named = None if topic is None else named_partitions(image, topic)
    groups = _chosen(image, group)
    rows = [
        _reset(session, image, each, name, target)
        for each in groups
        for name in named or map(image.name_of, saved_partitions(image, each))
    ]
    changes = [
        methodcaller(
            "alter_group_offsets",
            each,
            {
                (row["topic"], row["partition"]): row["new_offset"]
                for row in rows
                if row["group"] == each
            },
        )
        for each in groups
    ]
    if execute:
        session.do_all(changes)
    else:
        session.decide(changes)  # so that a reset that would be refused is refused
    words = [] if execute else ["A dry run: nothing was changed; --execute does it."]
    answer = {"dry_run": not execute, "offsets": rows}
    session.show(answer, *words, rows=rows)


Target = tuple[str, int]
"""Where a group is reset to: "earliest"; "latest"; "current", its own offset, moved into the range
that the log still has; "offset", by its number; "shift", by a number of records from its own
offset, backwards if negative; "time", the first record that is not older than µs since 1970 UTC."""


def target_of(option: str, value: Any) -> Target:
    if option == "to_datetime":
        wanted = "a time such as 2026-01-31T12:00:00.000"
        return "time", micros_of(time_in(value, "--to-datetime", wanted))
    return option.removeprefix("to_").removesuffix("_by"), int(value)


def _reset(
    session: Session, image: MetadataImage, group: str, name: TopicPartition, target: Target
) -> dict[str, Any]:
    """Return the row of a reset, and note an offset that was asked for and is not there."""
    key = partition_key(image, *name)

    def find(timestamp_us: int) -> Offset | None:
        found = find_offset(image, key, timestamp_us, session.options)
        return None if found is None else found.offset

    offset, asked = new_offset(image, group, key, target, find)
    if asked != offset:
        note(f"{name} has no committed offset {asked}: group {group} gets {offset}.")
    known = image.group_offsets.get((group, key))
    current = None if known is None else known.offset
    return {"group": group, **name._asdict(), "current_offset": current, "new_offset": offset}


def new_offset(
    image: MetadataImage,
    group: str,
    key: PartitionKey,
    target: Target,
    find_offset: Callable[[int], Offset | None],
) -> tuple[int, int]:
    """Return the offset that a group is reset to, within what is committed of a partition, and the
    one that was asked for. `find_offset` returns the first committed record that is not older than
    µs since 1970 UTC, or None. Source: ConsumerGroupCommand."""
    partition = image.topics[key.topic_id].partitions[key.partition]
    known = image.group_offsets.get((group, key))
    start, end = partition.log_start_offset, partition.high_watermark
    before = None if known is None else known.offset
    kind, value = target
    if kind == "shift" and before is None:
        raise InvalidRequestError(
            f"group {group!r} has no offset of {image.name_of(key)} to shift: name partitions of"
            " which it has one, or reset it to an offset"
        )
    asked: int | None = {
        "earliest": start,
        "offset": value,
        "shift": (before or 0) + value,
        "current": before,
    }.get(kind, end)
    if kind == "time":
        asked = find_offset(value)
    if asked is None:
        asked = end  # as in Kafka, if no record matches
    return min(max(asked, start), end), asked


consumer_groups = verb(
    """List, describe, reset and delete groups: offsets of queries and consumers, and members.

    Options:
        --state  Show the states of groups.
        --group NAME...  A group; may be given more than once.
        --all-groups  All groups.
        --offsets  With --describe: offsets, as by default.
        --members  With --describe: members, and what each has.
        --verbose  With --describe: no effect, all is always shown.
        --topic NAME[:0,1]...
            A topic, or some of its partitions; may be given more than once.
        --member ID...  A member; may be given more than once.
        --all-topics  All topics in which the group has offsets.
        --execute  Set the offsets; without it they are only shown.
        --to-earliest  To the log starts.
        --to-latest  To the high watermarks.
        --to-current  To the group's own offset; without one, to the high watermark.
        --to-offset INTEGER  To an offset.
        --shift-by INTEGER  Forward by so many records, or back if negative.
        --to-datetime 2026-01-31T12:00:00.000
            To the first record at or after this time; UTC without a time zone.
    """,
    Action(list_, more="state"),
    Action(describe, more=VIEWS, one_of=(GROUPS,), at_most_one_of=("offsets state members",)),
    Action(delete, *CHANGING, one_of=(GROUPS,)),
    Action(delete_offsets, *CHANGING),
    Action(remove_members, *CHANGING),
    Action(
        reset_offsets,
        "dry_run",
        more=TARGETS,
        one_of=(GROUPS, TARGETS, "topic all_topics"),
    ),
)
