"""Moving replicas by request: plan, start, cancel, list, verify. The rest is the controller's."""

from collections.abc import Iterable, Mapping, Sequence

from kafka_on_spark.administration import Administration
from kafka_on_spark.controller import commands
from kafka_on_spark.controller.reassignment import (
    Reassignment,
    ReassignmentStatus,
    list_reassignments,
    status_of,
)
from kafka_on_spark.controller.reassignment_plan import (
    ReassignmentPlan,
    partitions_of,
    plan_reassignment,
)
from kafka_on_spark.ids import (
    TopicPartition,
    check_mapping,
    listed,
)
from kafka_on_spark.service.partition_names import key_of, keys_of, pair_of
from kafka_on_spark.service.sizes import MoveProgress


class Reassigning(Administration):
    """The part of a cluster that moves replicas between brokers."""

    def plan_reassignment(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        brokers: Iterable[int] | None = None,
        throttle_bytes_per_s: int | None = None,
    ) -> ReassignmentPlan:
        """Plan replicas and leaders of topics (None: all) in balance over brokers (None: all that
        are active), racks apart, with few bytes moved. Decides nothing; give `targets` of the
        plan to `reassign`.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
            InvalidReplicaAssignmentError: A broker is unknown or takes no replicas.
            InvalidReplicationFactorError: A partition has more replicas than there are brokers.
            InvalidRequestError: The throttle is less than a byte a second.
        """
        image = self.image
        if topics is not None and not isinstance(topics, str):
            topics = listed(topics, "topics", "topic names")
        keys = partitions_of(image, topics if not isinstance(topics, str) else [topics])
        if brokers is not None:
            brokers = listed(brokers, "brokers", "broker ids")
        plan_reassignment(image, [], brokers=brokers, sizes={})  # bad brokers before any look
        return plan_reassignment(
            image,
            keys,
            brokers=brokers,
            sizes=self._services.partition_sizes(keys),
            throttle_bytes_per_s=throttle_bytes_per_s,
        )

    def reassign(
        self,
        targets: Mapping[tuple[str, int], Sequence[int]],
        *,
        throttle_bytes_per_s: int | None = None,
    ) -> list[TopicPartition]:
        """Have partitions move to `targets`, the replicas in their order of preference.

        All start or none does; return those that change. Replication copies, and the controller's
        passes do the rest. The throttle holds for the copying of all moves with the same one in
        sum, is a part of the moves, and ends with them; the same target again, under way,
        changes its throttle.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            ReassignmentInProgressError: A partition is moving elsewhere already.
            InvalidReplicaAssignmentError: A target is empty, names a broker twice, or one that
                is unknown or takes no replicas.
            InvalidRequestError: A partition is not named by topic and number, or the throttle is
                less than a byte a second.
        """
        image = self.image
        check_mapping(targets, "targets", "partitions and lists of broker ids")
        wanted = {key_of(image, name): target for name, target in targets.items()}
        started = self._command(
            commands.REASSIGN, targets=wanted, throttle_bytes_per_s=throttle_bytes_per_s
        )
        return self._names(started)

    def cancel_reassignment(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[TopicPartition]:
        """Have partitions stay where they were (None: all that move); return them.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            NoReassignmentInProgressError: A partition is not moving.
            InvalidReplicaAssignmentError: Of those that would stay nobody is in sync.
        """
        image = self.image
        if partitions is None:
            keys = [each.key for each in list_reassignments(image)]
        else:
            keys = keys_of(image, partitions)
        cancelled = self._command(commands.CANCEL_REASSIGNMENTS, keys=keys)
        return self._names(cancelled)

    def reassignments(self) -> list[Reassignment]:
        """Return the moves under way, and whom each waits for."""
        return list_reassignments(self.image)

    def reassignment_progress(self) -> list[MoveProgress]:
        """Return how many bytes the moves under way have copied, of how many."""
        return self._services.move_progress()

    def verify_reassignment(
        self, targets: Mapping[tuple[str, int], Sequence[int]]
    ) -> dict[TopicPartition, ReassignmentStatus]:
        """Return what became of each of `targets`; a partition that is not there is no error.

        Raises:
            InvalidRequestError: A partition is not named by topic and number.
        """
        image = self.image
        statuses = {}
        check_mapping(targets, "targets", "partitions and lists of broker ids")
        for name, target in targets.items():
            pair = pair_of(name)
            topic_id = image.topic_ids.get(pair.topic)
            partitions = {} if topic_id is None else image.topics[topic_id].partitions
            statuses[pair] = status_of(partitions.get(pair.partition), target)
        return statuses
