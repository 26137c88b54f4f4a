"""What a cluster answers from its metadata alone: topics, offsets, groups, moves, history, what-if.

Reads a `MetadataHistory`, so that a cluster as of a moment answers all of it as well.
"""

from collections.abc import Iterable, Mapping, Sequence

from kafka_on_spark.controller.moves.reassignment import (
    Reassignment,
    ReassignmentStatus,
    list_reassignments,
    status_of,
)
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import TopicPartition, check_mapping
from kafka_on_spark.query.offsets.group_offsets import (
    GroupLag,
    GroupMembers,
    describe_group,
    describe_members,
    groups_of,
)
from kafka_on_spark.query.partition_names import pair_of, partition_key
from kafka_on_spark.service.describe.descriptions import (
    PartitionOffsets,
    TopicDescription,
    describe,
    offsets_of,
)
from kafka_on_spark.service.describe.partition_history import (
    BrokerEvent,
    HistoryEntry,
    broker_history,
    partition_history,
)
from kafka_on_spark.service.metadata.metadata_roles import MetadataHistory, kept_history
from kafka_on_spark.service.what_if.policy_replay import PolicyReplay, replay
from kafka_on_spark.service.what_if.what_if import Forecast, forecast, who_dies


class Answers:
    """Reads the metadata. `Cluster` documents each method under the same name."""

    def __init__(self, metadata: MetadataHistory) -> None:
        self._metadata = metadata

    def describe_topic(self, name: str) -> TopicDescription:
        return describe(self._metadata.catch_up(), name)

    def offsets(self, name: str) -> dict[int, PartitionOffsets]:
        partitions = self._metadata.catch_up().topic(name).partitions
        return {number: offsets_of(partitions[number]) for number in sorted(partitions)}

    def list_groups(self) -> list[str]:
        return groups_of(self._metadata.catch_up())

    def describe_group_members(self, group: str) -> GroupMembers:
        return describe_members(self._metadata.catch_up(), group)

    def describe_group(self, group: str) -> list[GroupLag]:
        image = self._metadata.catch_up()
        describe_members(image, group)  # there is such a group, with members or with offsets
        return describe_group(image, group)

    def reassignments(self) -> list[Reassignment]:
        return list_reassignments(self._metadata.catch_up())

    def verify_reassignment(
        self, targets: Mapping[tuple[str, int], Sequence[int]]
    ) -> dict[TopicPartition, ReassignmentStatus]:
        image = self._metadata.catch_up()
        statuses = {}
        check_mapping(targets, "targets", "partitions and lists of broker ids")
        for name, target in targets.items():
            pair = pair_of(name)
            topic_id = image.topic_ids.get(pair.topic)
            partitions = {} if topic_id is None else image.topics[topic_id].partitions
            statuses[pair] = status_of(partitions.get(pair.partition), target)
        return statuses

    def history(self, topic: str | None, partition: int | None) -> list[HistoryEntry]:
        if topic is None and partition is not None:
            raise InvalidRequestError(
                f"partition {partition} of what? Name its topic as well, or leave both out"
            )
        topic_id = None if topic is None else self._metadata.catch_up().topic(topic).topic_id
        if topic is not None and partition is not None:
            partition_key(self._metadata.image, topic, partition)
        before, batches = kept_history(self._metadata)
        return partition_history(batches, topic_id, partition, after=before)

    def broker_history(self) -> list[BrokerEvent]:
        return broker_history(kept_history(self._metadata)[1])

    def what_if(
        self, broker_dies: int | Iterable[int] | None, rack_dies: str | Iterable[str] | None
    ) -> Forecast:
        image = self._metadata.catch_up()
        return forecast(image, who_dies(image, broker_dies, rack_dies))

    def replay(self, policy: Mapping[str, object]) -> PolicyReplay:
        return replay(self._metadata.history(), policy)
