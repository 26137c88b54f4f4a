"""A consumer's settings, by Kafka's names.

Source: org.apache.kafka.clients.consumer.ConsumerConfig.
"""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.groups.checks import check_group
from kafka_on_spark.errors import InvalidConfigError, InvalidRequestError
from kafka_on_spark.ids import check_text, check_whole_number

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
NONE: Final = "none"

MAX_POLL_RECORDS: Final = 16_384
"""Kafka's is 500, which it takes from what it has fetched; here so many rows are decoded at once,
and a table of them costs no more than one of 500."""
AUTO_COMMIT_INTERVAL_MS: Final = 5_000
MAX_POLL_INTERVAL_MS: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """How a consumer reads.

    Attributes:
        group: Whose offsets it begins at and commits; None: it has none. Source: group.id.
        auto_offset_reset: Where it begins in a partition of which the group has no offset, or one
            that is out of range: EARLIEST, LATEST or NONE, which fails. Source: auto.offset.reset.
        max_poll_records: Rows that one poll returns at most. Source: max.poll.records.
        is_auto_commit: Whether it commits what was processed. Source: enable.auto.commit.
        is_beginning_committed: Whether a member that takes a partition commits where it begins, if
            the group has no offset of it: who comes later begins there, and skips nothing.
        auto_commit_interval_ms: How often, at most. Source: auto.commit.interval.ms.
        client_rack: Replicas of this rack are read first; None: the leader is. Source: client.rack.
        group_instance_id: Name of a static member, which keeps its partitions while it restarts;
            None: it is none. Source: group.instance.id.
        group_remote_assignor: The assignor that it asks for; None: the cluster's first. Source:
            group.remote.assignor.
        max_poll_interval_ms: A member that asks for nothing for so long leaves its group. Source:
            max.poll.interval.ms.
    """

    group: str | None
    auto_offset_reset: str
    max_poll_records: int
    is_auto_commit: bool
    is_beginning_committed: bool
    auto_commit_interval_ms: int
    client_rack: str | None
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS


def consumer_settings(
    *,
    group: str | None,
    auto_offset_reset: str,
    max_poll_records: int,
    enable_auto_commit: bool,
    auto_commit_interval_ms: int,
    client_rack: str | None,
    group_instance_id: str | None = None,
    group_remote_assignor: str | None = None,
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS,
    commit_beginning: bool | None = None,
) -> ConsumerSettings:
    """Return the settings of a consumer, checked. `commit_beginning` is as `enable_auto_commit`, if
    it is None.

    Raises:
        InvalidConfigError: A value is not allowed.
        InvalidRequestError: One is of a wrong type.
        InvalidGroupIdError: The group's name is not allowed.
    """
    if group is not None:
        check_group(group)
    if auto_offset_reset not in (EARLIEST, LATEST, NONE):
        raise InvalidConfigError(
            f"auto_offset_reset can't be {auto_offset_reset!r}: give 'earliest', 'latest' or 'none'"
        )
    if commit_beginning is None:
        commit_beginning = enable_auto_commit
    _check_flags(enable_auto_commit=enable_auto_commit, commit_beginning=commit_beginning)
    _check_texts(
        client_rack=client_rack,
        group_instance_id=group_instance_id,
        group_remote_assignor=group_remote_assignor,
    )
    if group_instance_id is not None and (group is None or not group_instance_id):
        raise InvalidRequestError(
            "group_instance_id names a member of a group: give both, and neither is empty"
        )
    numbers = {
        "max_poll_interval_ms": (max_poll_interval_ms, 1),
        "max_poll_records": (max_poll_records, 1),
        "auto_commit_interval_ms": (auto_commit_interval_ms, 0),
    }
    for name, (value, least) in numbers.items():
        check_whole_number(value, name)
        if value < least:
            raise InvalidConfigError(f"{name} can't be {value}: give {least} or more")
    return ConsumerSettings(
        group=group,
        auto_offset_reset=auto_offset_reset,
        max_poll_records=max_poll_records,
        is_auto_commit=enable_auto_commit and group is not None,
        is_beginning_committed=commit_beginning and group is not None,
        auto_commit_interval_ms=auto_commit_interval_ms,
        client_rack=client_rack,
        group_instance_id=group_instance_id,
        group_remote_assignor=group_remote_assignor,
        max_poll_interval_ms=max_poll_interval_ms,
    )


def _check_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InvalidRequestError(f"{name} can't be {flag!r}: give True or False")


def _check_texts(**texts: str | None) -> None:
    for name, text in texts.items():
        if text is not None:
            check_text(text, name, InvalidRequestError)
