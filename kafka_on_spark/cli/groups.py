"""`consumer-groups`: lists, describes, resets and deletes consumer groups, as Kafka's tool does.

A member has neither host nor client id here: its epochs and partitions are shown in their place.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from operator import methodcaller
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition, micros_of
from kafka_on_spark.cli.kafka_files import (
    GroupOffsets,
    named_partitions_of,
    read_group_offsets,
    write_group_offsets,
)
from kafka_on_spark.cli.options import time_in
from kafka_on_spark.cli.output import fields, note, plural, say
from kafka_on_spark.cli.verbs import CHANGING, Action, Session, verb
from kafka_on_spark.groups.membership import describe_members, state_of
from kafka_on_spark.groups.offsets import (
    deletable_partitions,
    describe_group,
    groups_of,
    saved_partitions,
)
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.observe.replicas import find_offset
from kafka_on_spark.store.deadlines import SystemClock

_DURATION: Final = re.compile(
    r"P(?=\d|T\d)(?:(\d{1,6})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d+)?)S)?)?"
)

VIEWS: Final = "state offsets members verbose"
TARGETS: Final = (
    "to_earliest to_latest to_current to_offset shift_by to_datetime by_duration from_file"
)
MEMBER_FIELDS: Final = "consumer_id=member_id instance_id current_epoch=member_epoch"
MEMBER_COLUMNS: Final = "group consumer_id instance_id current_epoch partition_count assignment"
OFFSET_FIELDS: Final = "current_offset=offset log_end_offset=high_watermark lag"
OFFSET_COLUMNS: Final = "group topic partition current_offset log_end_offset lag"
RESET_COLUMNS: Final = "group topic partition current_offset new_offset"

GROUPS: Final = "group all_groups"


def list_(session: Session, **views: bool) -> None:
    """Show the names of groups."""
    image = session.cluster.image
    rows = (
        {"group": name, "state": state_of(image.consumer_groups.get(name))}
        for name in groups_of(image)
    )
    session.write_rows("group state" if views else "group", rows)


def describe(
    session: Session, group: list[str] | None = None, all_groups: bool = False, **views: bool
) -> None:
    """Show the offsets and the lag of groups; the log end is the high watermark."""
    image = session.cluster.image
    described = {name: describe_members(image, name) for name in _chosen(image, group)}
    if "state" in views:
        rows = [
            {"group": name, "state": each.state, "member_count": len(each.members)}
            for name, each in described.items()
        ]
        session.write_rows("group state member_count", rows)
    elif "members" in views:
        rows = [
            {
                "group": name,
                **fields(member, MEMBER_FIELDS),
                "partition_count": len(member.partitions),
                "assignment": _assignment(member.partitions),
            }
            for name, each in described.items()
            for member in each.members
        ]
        _note_empty(described, rows, "has no members")
        session.write_rows(MEMBER_COLUMNS, rows)
    else:
        rows = [
            {"group": name, **lag.name._asdict(), **fields(lag, OFFSET_FIELDS)}
            for name in described
            for lag in describe_group(image, name)
        ]
        _note_empty(described, rows, "has committed no offset")
        session.write_rows(OFFSET_COLUMNS, rows)


def _chosen(image: MetadataImage, group: Sequence[str] | None) -> list[str]:
    """Return the groups that the call names, or all, each once."""
    return list(dict.fromkeys(group or groups_of(image)))


def _note_empty(groups: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], what: str) -> None:
    for name in groups.keys() - {row["group"] for row in rows}:
        note(f"Group {name} {what}.")


def _assignment(partitions: Sequence[tuple[str, int]]) -> str:
    """Return a member's partitions, as in orders:0,1;returns:0."""
    topics: dict[str, list[str]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(str(number))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


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
    names = named_partitions_of(session.cluster.image, topic)
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
    export: bool = False,
    execute: bool = False,
    **targets: Any,
) -> None:
    """Show the new offsets of groups; --execute sets them."""
    single = group[0] if group is not None and len(group) == 1 else None
    if export and session.is_json:
        raise InvalidRequestError("--export writes CSV: leave --output json out")
    [(kind, value)] = targets.items()
    image = session.cluster.image
    groups = _chosen(image, group)
    wanted = _wanted(image, groups, topic, kind, value, single)
    rows = [
        _reset(session, image, each, *place) for each in groups for place in wanted[each].items()
    ]
    offsets: GroupOffsets = {each: {} for each in groups}
    for row in rows:
        offsets[row["group"]][TopicPartition(row["topic"], row["partition"])] = row["new_offset"]
    changes = [methodcaller("alter_group_offsets", *each) for each in offsets.items()]
    if execute:
        session.do_all(changes)
    else:
        session.decide(changes)  # so that a reset that would be refused is refused
    if export:
        write_group_offsets(offsets, with_group=single is None)
    else:
        session.show({"dry_run": not execute, "offsets": rows}, columns=RESET_COLUMNS, rows=rows)
    if not (execute or session.is_json):
        (note if export else say)("A dry run: nothing was changed; --execute does it.")


Target = tuple[str, int]
"""Where a group is reset to: "earliest"; "latest"; "current", its own offset, moved into the range
that the log still has; "offset", by its number; "shift", by a number of records from its own
offset, backwards if negative; "time", the first record that is not older than µs since 1970 UTC."""


def _wanted(
    image: MetadataImage,
    groups: Sequence[str],
    topics: Sequence[str] | None,
    name: str,
    value: Any,
    single: str | None,
) -> dict[str, dict[TopicPartition, Target]]:
    """Return where groups shall be, by partition. A file may have offsets of other groups, too."""
    if name == "from_file":
        offsets = read_group_offsets(value, single)
        for group in groups:
            if group not in offsets:
                raise InvalidRequestError(
                    f"{value} has no offsets of group {group!r}: leave the group out, or give a"
                    " line for it"
                )
        return {
            group: {place: ("offset", offset) for place, offset in offsets[group].items()}
            for group in groups
        }
    if name == "to_datetime":
        target = "time", parse_datetime(value)
    elif name == "by_duration":
        target = "time", SystemClock().now_ms() * 1000 - parse_duration(value)
    else:
        target = name.removeprefix("to_").removesuffix("_by"), int(value)
    named = None if topics is None else named_partitions_of(image, topics)

    def partitions_of(group: str) -> Iterable[TopicPartition]:
        return map(image.name_of, saved_partitions(image, group)) if named is None else named

    return {group: dict.fromkeys(partitions_of(group), target) for group in groups}


def _reset(
    session: Session, image: MetadataImage, group: str, name: TopicPartition, target: Target
) -> dict[str, Any]:
    """Return the row of a reset, and note an offset that was asked for and is not there."""
    key = partition_key(image, name.topic, name.partition)

    def find(timestamp_us: int) -> Offset | None:
        found = find_offset(image, key, timestamp_us, session.options)
        return None if found is None else found.offset

    offset, asked = new_offset(image, group, key, target, find)
    if asked != offset:
        note(f"{name} has no committed offset {asked}: group {group} gets {offset}.")
    known = image.group_offsets.get((group, key))
    return {
        "group": group,
        **name._asdict(),
        "current_offset": None if known is None else known.offset,
        "new_offset": offset,
    }


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


def parse_datetime(text: str) -> int:
    """Return a moment in µs since 1970 UTC."""
    return micros_of(time_in(text, "--to-datetime", "a time such as 2026-01-31T12:00:00.000"))


def parse_duration(text: str) -> int:
    """Return an ISO 8601 duration in µs. Source: java.time.Duration, without its signs."""
    match = _DURATION.fullmatch(text.upper())
    if match is None:
        raise InvalidRequestError(
            f"--by-duration can't be {text!r}: give days, hours, minutes and seconds as PnDTnHnMnS,"
            " such as P1DT6H or PT30M"
        )
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return duration // timedelta(microseconds=1)


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
        --export
            Write the new offsets as CSV: topic,partition,offset; for several groups,
            group,topic,partition,offset.
        --execute  Set the offsets; without it they are only shown.
        --to-earliest  To the log starts.
        --to-latest  To the high watermarks.
        --to-current  To the group's own offset; without one, to the high watermark.
        --to-offset INTEGER  To an offset.
        --shift-by INTEGER  Forward by so many records, or back if negative.
        --to-datetime 2026-01-31T12:00:00.000
            To the first record at or after this time; UTC without a time zone.
        --by-duration PnDTnHnMnS  To the first record that is not older than this duration.
        --from-file FILE  To offsets in a CSV file, as --export writes it. - is standard input.
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
        one_of=(GROUPS, TARGETS, "topic all_topics from_file"),
    ),
)
