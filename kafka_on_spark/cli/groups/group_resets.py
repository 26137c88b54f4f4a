"""`consumer-groups --reset-offsets`: plans, shows, exports or sets the offsets of groups."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from kafka_on_spark.cli.call.output import Output, note, progress, say, write_json, write_table
from kafka_on_spark.cli.call.session import Session
from kafka_on_spark.cli.kafka_files import (
    GroupOffsets,
    named_partitions_of,
    read_group_offsets,
    write_group_offsets,
)
from kafka_on_spark.controller.commands.groups import saved_partitions
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.offsets.group_offsets import groups_of
from kafka_on_spark.query.offsets.group_resets import (
    Reset,
    Target,
    parse_datetime,
    parse_duration,
    plan_resets,
)
from kafka_on_spark.query.partition_names import partition_key
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.replicas.replica_inspection import find_offset
from kafka_on_spark.storage.roots.roots import StorageOptions

TARGETS: Final = (
    *("to_earliest", "to_latest", "to_current"),
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
    """Return the groups that the call names, each once.

    Raises:
        InvalidRequestError: The call names no groups, or names them in two ways.
    """
    if bool(given["group"]) == given["all_groups"]:
        raise InvalidRequestError("say which groups in one way: --group or --all-groups")
    return groups_of(image) if given["all_groups"] else list(dict.fromkeys(given["group"]))


def reset_offsets_of(session: Session, given: Mapping[str, Any]) -> None:
    """Show the new offsets of groups, or set them.

    Raises:
        InvalidRequestError: The target is missing, given in two ways, or not possible.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    if given["execute"] and given["dry_run"]:
        raise InvalidRequestError("--execute and --dry-run contradict each other: leave one out")
    if given["export"] and session.output is Output.JSON:
        raise InvalidRequestError("--export writes CSV: leave --output json out")
    name = _target_name(given)
    resets = _from_file(session, given) if name == "from_file" else _planned(session, given, name)
    _note_limited(resets)
    # Without --execute too: a reset that would be refused is refused.
    changes = [partial(_set_offsets, group, planned) for group, planned in resets.items()]
    if given["execute"]:
        session.do_all(changes)
    else:
        session.decide(changes)
    if given["export"]:
        _export(resets, given)
    else:
        _conclude_reset(session.output, resets, is_done=given["execute"])


def _planned(session: Session, given: Mapping[str, Any], name: str) -> dict[str, list[Reset]]:
    """Return the resets of groups that all get the same target."""
    target = _target(given, name)
    if bool(given["topic"]) == given["all_topics"]:
        raise InvalidRequestError("say which topics in one way: --topic or --all-topics")
    image = session.cluster.image
    keys = {group: _keys(image, group, given) for group in chosen_groups(image, given)}
    with progress("looking for times", sum(map(len, keys.values()))) as steps:

        def find(key: PartitionKey, timestamp_us: int) -> Offset | None:
            found = _find_offset(image, session.options, key, timestamp_us)
            steps.advance()
            return found

        return {group: plan_resets(image, group, keys[group], target, find) for group in keys}


def _from_file(session: Session, given: Mapping[str, Any]) -> dict[str, list[Reset]]:
    """Return the resets of groups to the offsets in a file, which may hold other groups, too."""
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
                " give a line for it"
            )
    find = partial(_find_offset, image, session.options)
    return {
        group: [
            reset
            for name, offset in offsets[group].items()
            for key in [partition_key(image, name.topic, name.partition)]
            for reset in plan_resets(image, group, [key], Target("offset", offset), find)
        ]
        for group in groups
        if group in offsets
    }


def _single(given: Mapping[str, Any]) -> str | None:
    """Return the group if the call names exactly one; else None."""
    groups: Sequence[str] = given["group"] or ()
    return groups[0] if len(groups) == 1 else None


def _export(resets: Mapping[str, Sequence[Reset]], given: Mapping[str, Any]) -> None:
    offsets: GroupOffsets = {
        group: {each.name: each.offset for each in planned} for group, planned in resets.items()
    }
    write_group_offsets(offsets, with_group=_single(given) is None)
    if not given["execute"]:
        note("A dry run: nothing was changed; --execute does it.")


def _set_offsets(group: str, resets: Sequence[Reset], cluster: Any) -> None:
    cluster.alter_group_offsets(group, {each.name: each.offset for each in resets})


def _target_name(given: Mapping[str, Any]) -> str:
    asked = [name for name in TARGETS if given[name] is not None and given[name] is not False]
    if len(asked) != 1:
        ways = ", ".join("--" + name.replace("_", "-") for name in TARGETS)
        raise InvalidRequestError(f"give one target: {ways}")
    return asked[0]


def _target(given: Mapping[str, Any], name: str) -> Target:
    if name == "to_offset":
        return Target("offset", given[name])
    if name == "shift_by":
        return Target("shift", given[name])
    if name == "to_datetime":
        return Target("time", parse_datetime(given[name]))
    if name == "by_duration":
        since_us = SystemClock().now_ms() * 1000 - parse_duration(given[name])
        return Target("time", since_us)
    return Target(name.removeprefix("to_"))


def _keys(image: MetadataImage, group: str, given: Mapping[str, Any]) -> Sequence[PartitionKey]:
    if given["all_topics"]:
        return saved_partitions(image, group)
    return [
        PartitionKey(image.topic(name.topic).topic_id, name.partition)
        for name in named_partitions_of(image, given["topic"])
    ]


def _find_offset(
    image: MetadataImage, options: StorageOptions, key: PartitionKey, timestamp_us: int
) -> Offset | None:
    found = find_offset(image, key, timestamp_us, options)
    return None if found is None else found.offset


def _note_limited(resets: Mapping[str, Sequence[Reset]]) -> None:
    for group, planned in resets.items():
        for each in planned:
            if each.asked is not None:
                note(
                    f"{each.name} has no committed offset {each.asked}: group {group} gets"
                    f" {each.offset}."
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
