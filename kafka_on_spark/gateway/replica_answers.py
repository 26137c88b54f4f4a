"""Answers to Kafka's admin clients about replicas: who leads, where they go, and what logs have.

A replica is named here by its broker in the cluster, which is no gateway.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_on_spark.base.errors import FencedLeaderEpochError, UnknownLeaderEpochError
from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.controller.election import why_not_led
from kafka_on_spark.gateway import wire
from kafka_on_spark.gateway.gateways import REASSIGNING
from kafka_on_spark.gateway.producers import client_of
from kafka_on_spark.gateway.wire import (
    Fields,
    Name,
    RefusedError,
    Request,
    answered,
    asked_of,
    by_topic,
    made,
    outcome,
    outcomes,
    schema_of,
)
from kafka_on_spark.log.producer_state import with_batches
from kafka_on_spark.log.state import ReplicaState, address_of
from kafka_on_spark.log.truncation import end_offset_for
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.metadata.partition import PartitionRegistration

NONE: Final = ErrorCode.none

UNCLEAN: Final = 1
"""A kind of election. Source: ElectionType."""

ELECTIONS: Final = (
    ("preferred", ErrorCode.preferred_leader_not_available),
    ("unclean", ErrorCode.eligible_leaders_not_available),
)
"""Kinds of elections, and how it is said that no replica can lead so."""


class ReplicaAnswers:
    """Answers by a cluster's own commands, and by the logs of its leaders."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.answers: dict[int, Callable[[Request], Any]] = {
            wire.OFFSET_FOR_LEADER_EPOCH: self._offset_for_leader_epoch,
            wire.DESCRIBE_LOG_DIRS: self._describe_log_dirs,
            wire.ELECT_LEADERS: self._elect_leaders,
            wire.ALTER_PARTITION_REASSIGNMENTS: self._alter_reassignments,
            wire.LIST_PARTITION_REASSIGNMENTS: self._list_reassignments,
            wire.DESCRIBE_QUORUM: self._describe_quorum,
            wire.DESCRIBE_PRODUCERS: self._describe_producers,
        }

    # Who leads, and where replicas go

    def _elect_leaders(self, request: Request) -> Any:
        types, asked, image = schema_of(request), request.body.topic_partitions, self._cluster.image
        kind, refused = ELECTIONS[getattr(request.body, "election_type", 0) == UNCLEAN]
        moved: set[Name] = set()
        if asked is None:
            names: list[Name] = [image.name_of(key) for key, _ in image.partitions()]
        else:
            names = asked_of(asked)
        found = outcomes(names, lambda each: moved.update(self._cluster.elect_leaders(kind, each)))
        image = self._cluster.image

        def check_led(name: Name) -> None:
            why = why_not_led(image, partition_key(image, *name), preferred=kind == "preferred")
            if why is not None:
                raise RefusedError(refused, why)
            if name not in moved:
                raise RefusedError(ErrorCode.election_not_needed, "it is led so already")

        for name in names:
            if found[name]["error_code"] == NONE:
                found[name] = outcome(partial(check_led, name))
            # Of all partitions only those are answered that had to be elected, as in Kafka.
            if asked is None and found[name]["error_code"] == ErrorCode.election_not_needed:
                del found[name]
        results = by_topic(types.ReplicaElectionResult, types.PartitionResult, found)
        return made(types.ElectLeadersResponse, error_code=NONE, replica_election_results=results)

    def _alter_reassignments(self, request: Request) -> Any:
        types, topics = schema_of(request), request.body.topics
        given = {(topic, each.partition_index): each.replicas for topic, each in asked_of(topics)}

        def alter(names: list[Name]) -> None:
            moves = {each: list(given[each]) for each in names if given[each] is not None}
            if moves:
                self._cluster.reassign(moves)
            if len(moves) < len(names):
                self._cluster.cancel_reassignment([each for each in names if each not in moves])

        kinds = types.ReassignableTopicResponse, types.ReassignablePartitionResponse
        found = by_topic(*kinds, outcomes(list(given), alter))
        kind = types.AlterPartitionReassignmentsResponse
        return made(kind, error_code=NONE, error_message=None, responses=found)

    def _list_reassignments(self, request: Request) -> Any:
        types, asked = schema_of(request), request.body.topics
        wanted = None if asked is None else set(asked_of(asked))
        kinds = types.OngoingTopicReassignment, types.OngoingPartitionReassignment

        def describe() -> Fields:
            moves: dict[Name, Fields] = {
                move.name: {
                    "replicas": tuple(dict.fromkeys((*move.target, *move.removing))),
                    "adding_replicas": move.adding,
                    "removing_replicas": move.removing,
                }
                for move in self._cluster.reassignments()
                if wanted is None or move.name in wanted
            }
            return {"topics": by_topic(*kinds, moves)}

        return made(types.ListPartitionReassignmentsResponse, **answered(describe, topics=()))

    # Logs

    def _describe_log_dirs(self, request: Request) -> Any:
        """Answer each broker's root as a log dir of this gateway, which reaches all of them."""
        types, asked, image = schema_of(request), request.body.topics, self._cluster.image
        if request.client_id == REASSIGNING:
            asked = ()  # it asks each broker for its own, and a gateway can't tell which one
        wanted = None if asked is None else set(asked_of(asked))
        names = None if wanted is None else [n for n in image.topic_ids if n in dict(wanted)]
        kinds = types.DescribeLogDirsTopic, types.DescribeLogDirsPartition

        def describe() -> Fields:
            logs: dict[int, dict[Name, Fields]] = {each: {} for each in sorted(image.brokers)}
            for part in self._cluster.describe_logs(names):
                name = part.topic, part.partition
                for log in part.replicas if wanted is None or name in wanted else ():
                    if log.error is None and log.broker_id in logs:
                        lag = max(0, part.high_watermark - log.log_end_offset)
                        figures = {"partition_size": log.size_bytes, "offset_lag": lag}
                        logs[log.broker_id][name] = {"is_future_key": False, **figures}
            results = (
                types.DescribeLogDirsResult(
                    error_code=NONE if broker.is_online else ErrorCode.kafka_storage_error,
                    log_dir=broker.root,
                    topics=by_topic(*kinds, logs[each]),
                )
                for each, broker in sorted(image.brokers.items())
            )
            return {"results": tuple(results)}

        return made(types.DescribeLogDirsResponse, **answered(describe, results=()))

    def _describe_producers(self, request: Request) -> Any:
        types, image = schema_of(request), self._cluster.image

        def describe(name: Name) -> Fields:
            _, state = self._log(image, name)
            entries = {} if state is None else with_batches(state.producers, state.batches)
            clients = (client_of(*each) for each in entries.items() if each[0] in image.producers)
            found = (types.ProducerState(**each, coordinator_epoch=-1) for each in clients if each)
            return {"active_producers": tuple(found)}

        found = {
            name: answered(partial(describe, name), active_producers=())
            for name in asked_of(request.body.topics)
        }
        topics = by_topic(types.TopicResponse, types.PartitionResponse, found)
        return made(types.DescribeProducersResponse, topics=topics)

    def _offset_for_leader_epoch(self, request: Request) -> Any:
        types, image = schema_of(request), self._cluster.image

        def find(name: Name, asked: Any) -> Fields:
            partition, state = self._log(image, name)
            check_leadership(partition, asked.current_leader_epoch)
            if state is None:
                return {}
            # Its leader may have appended nothing since it leads.
            led = replace(state, leader_epoch=partition.leader_epoch)
            end = end_offset_for(led, LeaderEpoch(asked.leader_epoch))
            return {} if end is None else end._asdict()

        topics = asked_of(request.body.topics)
        given = {(topic, each.partition): each for topic, each in topics}
        found = {name: answered(partial(find, name, each)) for name, each in given.items()}
        results = by_topic(types.OffsetForLeaderTopicResult, types.EpochEndOffset, found)
        return made(types.OffsetForLeaderEpochResponse, topics=results)

    def _log(
        self, image: MetadataImage, name: Name
    ) -> tuple[PartitionRegistration, ReplicaState | None]:
        """Return a partition, and the log of its leader; None: nothing was appended yet."""
        key = partition_key(image, *name)
        partition = image.topics[key.topic_id].partitions[key.partition]
        if not partition.was_begun:
            return partition, None
        if partition.leader is None or not partition.is_created(partition.leader):
            raise RefusedError(ErrorCode.leader_not_available)
        address = address_of(image, key, partition, partition.leader)
        return partition, self._cluster._node.replicas.open(address).load()

    # The quorum

    def _describe_quorum(self, request: Request) -> Any:
        types = schema_of(request)

        def describe() -> Fields:
            quorum = self._cluster.describe_quorum()
            voters = tuple(
                made(
                    types.ReplicaState,
                    replica_id=each.voter.key.node_id,
                    replica_directory_id=UUID(each.voter.key.directory_id),
                    log_end_offset=-1 if each.log_end_offset is None else each.log_end_offset,
                )
                for each in quorum.voters
            )
            found = {
                "leader_id": quorum.leader.node_id,
                "leader_epoch": quorum.epoch,
                "high_watermark": quorum.high_watermark,
                "current_voters": voters,
                "observers": (),
                **outcome(lambda: None),
            }
            given = {("__cluster_metadata", 0): found}
            node = getattr(types, "Node", None)  # since version 2
            nodes = tuple(node(node_id=each.replica_id, listeners=()) for each in voters if node)
            return {"topics": by_topic(types.TopicData, types.PartitionData, given), "nodes": nodes}

        return made(types.DescribeQuorumResponse, **answered(describe, topics=(), nodes=()))


def check_leadership(partition: PartitionRegistration, epoch: int) -> None:
    """Check the leadership that a client knows of; -1: it knows none. Source: KIP-320."""
    if -1 < epoch < partition.leader_epoch:
        raise FencedLeaderEpochError("the client knows an older leadership")
    if epoch > partition.leader_epoch:
        raise UnknownLeaderEpochError("the client knows of a leadership that is not known")
