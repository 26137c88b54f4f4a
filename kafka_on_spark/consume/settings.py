"""A consumer's settings, by Kafka's names.

Source: org.apache.kafka.clients.consumer.ConsumerConfig.
"""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import InvalidConfigError, InvalidRequestError
from kafka_on_spark.base.ids import check_text, check_whole_number
from kafka_on_spark.groups.offsets import EARLIEST, LATEST, NONE, check_group

MAX_POLL_RECORDS: Final = 16_384
"""Kafka's is 500, which it takes from what it has fetched; here so many rows are decoded at once,
and a table of them costs no more than one of 500."""
AUTO_COMMIT_INTERVAL_MS: Final = 5_000
MAX_POLL_INTERVAL_MS: Final = 300_000
_LEAST: Final = {"max_poll_interval_ms": 1, "max_poll_records": 1, "auto_commit_interval_ms": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """How a consumer reads, by Kafka's names; checked as it is made. `Cluster.consumer` says more.

    Attributes:
        enable_auto_commit: Whether it commits what was processed; and, as a member that takes a
            partition of which the group has no offset, where it begins: a member that comes later
            begins there, and skips nothing.

    Raises:
        InvalidConfigError: A value is not allowed.
        InvalidRequestError: One is of a wrong type.
    """

    group: str | None = None
    auto_offset_reset: str = LATEST
    max_poll_records: int = MAX_POLL_RECORDS
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = AUTO_COMMIT_INTERVAL_MS
    client_id: str | None = None
    client_rack: str | None = None
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS

    def __post_init__(self) -> None:
        if self.group is not None:
            check_group(self.group)
        if self.auto_offset_reset not in (EARLIEST, LATEST, NONE):
            raise InvalidConfigError(
                f"auto_offset_reset can't be {self.auto_offset_reset!r}: give 'earliest', 'latest'"
                " or 'none'"
            )
        self._check_types()
        if self.group_instance_id is not None and not (self.group and self.group_instance_id):
            raise InvalidRequestError(
                "group_instance_id names a member of a group: give both, and neither is empty"
            )
        for name, least in _LEAST.items():
            check_whole_number(getattr(self, name), name)
            if getattr(self, name) < least:
                raise InvalidConfigError(
                    f"{name} can't be {getattr(self, name)}: give {least} or more"
                )

    def _check_types(self) -> None:
        flag = self.enable_auto_commit
        if not isinstance(flag, bool):
            raise InvalidRequestError(f"enable_auto_commit can't be {flag!r}: give True or False")
        for name in ("client_id", "client_rack", "group_instance_id", "group_remote_assignor"):
            if getattr(self, name) is not None:
                check_text(getattr(self, name), name, InvalidRequestError)
