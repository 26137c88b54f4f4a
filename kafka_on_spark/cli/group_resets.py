"""`consumer-groups --reset-offsets`: which offsets are asked for, shown, exported, and set."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from kafka_on_spark.cli.kafka_files import (
    GroupOffsets,
    read_group_offsets,
    write_group_offsets,
)
from kafka_on_spark.cli.names import named_partitions_of
from kafka_on_spark.cli.output import Output, note, say, write_json, write_table
from kafka_on_spark.cli.session import Rehearsal, Session
from kafka_on_spark.controller.groups import committed_by
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.group_offsets import groups_of
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
from kafka_on_spark.service.partition_names import partition_key
from kafka_on_spark.storage.clock import SystemClock
from kafka_on_spark.storage.looking import find_offset
from kafka_on_spark.storage.roots import StorageOptions

SIMPLE_TARGETS: Final[Mapping[str, Target]] = {
    "to_earliest": Earliest(),
    "to_latest": Latest(),
    "to_current": Current(),
}
TARGETS: Final = (
    *SIMPLE_TARGETS,
    *("to_offset", "shift_by", "to_datetime", "by_duration", "from_file"),
)
RESET_COLUMNS: Final = {
    "group": "group",
    "topic": "topic",
    "partition": "partition",
    "current_offset": "current-offset",
    "new_offset": "new-offset",
}


def chosen_groups(image: MetadataImage, given: Mapping[str, Any]) -> list[str]:
    """Return the groups that were named, each once.

    Raises:
        InvalidRequestError: They were named in no way, or in two.
    """
    if bool(given["group"]) == given["all_groups"]:
        raise InvalidRequestError("say which groups in one way: --group or --all-groups")
    return groups_of(image) if given["all_groups"] else list(dict.fromkeys(given["group"]))


def reset_offsets_of(session: Session, given: Mapping[str, Any]) -> None:
    """Show where groups would be set, or set them.

    Raises:
        InvalidRequestError: What is asked for is not said, or in two ways, or can't be.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    if given["execute"] and given["dry_run"]:
        raise InvalidRequestError("--execute and --dry-run contradict each other: leave one out")
    if given["export"] and session.output is Output.JSON:
        raise InvalidRequestError("--export writes CSV: leave --output json out")
    name = _target_name(given)
    resets = _from_file(session, given) if name == "from_file" else _planned(session, given, name)
    _note_what_is_moved(resets)
    # Also where nothing is done: what would be refused is refused.
    changes = [partial(_set_offsets, group, planned) for group, planned in resets.items()]
    rehearsed = session if given["execute"] else _rehearsal_of(session)
    rehearsed.do_all(changes)
    if given["export"]:
        _export(resets, given)
    else:
        _conclude_reset(session.output, resets, is_done=given["execute"])


def _planned(session: Session, given: Mapping[str, Any], name: str) -> dict[str, list[Reset]]:
    """Return what becomes of groups that are all reset to the same target."""
    target = _target(given, name)
    if bool(given["topic"]) == given["all_topics"]:
        raise InvalidRequestError("say which topics in one way: --topic or --all-topics")
    image = session.cluster.image
    find = partial(_find_offset, image, session.options)
    return {
        group: plan_resets(image, group, _keys(image, group, given), target, find)
        for group in chosen_groups(image, given)
    }


def _from_file(session: Session, given: Mapping[str, Any]) -> dict[str, list[Reset]]:
    """Return what becomes of groups by the offsets in a file; it may have others' as well."""
    if given["topic"] or given["all_topics"]:
        raise InvalidRequestError(
            "--from-file says which topics: leave --topic and --all-topics out"
        )
    image = session.cluster.image
    groups = chosen_groups(image, given)
    offsets = read_group_offsets(given["from_file"], _single(given))
    for group in groups:
        if group not in offsets and not given["all_groups"]:
            raise InvalidRequestError(
                f"{given['from_file']} has no offsets of group {group!r}: leave the group out, or"
                " give a line of it"
            )
    find = partial(_find_offset, image, session.options)
    return {
        group: [
            reset
            for name, offset in offsets[group].items()
            for key in [partition_key(image, name.topic, name.partition)]
            for reset in plan_resets(image, group, [key], To(offset), find)
        ]
        for group in groups
        if group in offsets
    }


def _single(given: Mapping[str, Any]) -> str | None:
    """Return the one group that was named; None if there may be several."""
    groups: Sequence[str] = given["group"] or ()
    return groups[0] if len(groups) == 1 else None


def _export(resets: Mapping[str, Sequence[Reset]], given: Mapping[str, Any]) -> None:
    offsets: GroupOffsets = {
        group: {each.name: each.offset for each in planned} for group, planned in resets.items()
    }
    write_group_offsets(offsets, with_group=_single(given) is None)
    if not given["execute"]:
        note("A dry run: nothing was changed; --execute does it.")


def _rehearsal_of(session: Session) -> Session:
    rehearsal = session.rehearsal or Rehearsal.of(session.cluster)
    return Session(
        cluster=rehearsal, options=session.options, output=session.output, rehearsal=rehearsal
    )


def _set_offsets(group: str, resets: Sequence[Reset], cluster: Any) -> None:
    cluster.alter_group_offsets(group, {each.name: each.offset for each in resets})


def _target_name(given: Mapping[str, Any]) -> str:
    asked = [name for name in TARGETS if given[name] is not None and given[name] is not False]
    if len(asked) != 1:
        ways = ", ".join("--" + name.replace("_", "-") for name in TARGETS)
        raise InvalidRequestError(f"say in one way where to reset to: {ways}")
    return asked[0]


def _target(given: Mapping[str, Any], name: str) -> Target:
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
