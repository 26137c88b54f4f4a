"""Topics, brokers, groups, moves and voters as plain values: the page's tables."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_on_spark.controller.moves.reassignment import list_reassignments
from kafka_on_spark.controller.partitions.min_isr import min_isr_setting
from kafka_on_spark.errors import GroupIdNotFoundError
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.offsets.group_offsets import describe_group, groups_of, lag_of
from kafka_on_spark.raft.quorum.description import QuorumDescription
from kafka_on_spark.service.describe.descriptions import describe_brokers
from kafka_on_spark.service.describe.sizes import MoveProgress

View = dict[str, Any]

NAMED_MAX: Final = 20
"""Names in one cell of a table: a member may own ten thousand partitions."""


def topic_view(image: MetadataImage, name: str) -> View:
    """Return what a topic is, besides its partitions.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    topic = image.topic(name)
    partitions = topic.partitions.values()
    return {
        "name": topic.name,
        "id": topic.topic_id,
        "partitions": len(topic.partitions),
        "replicas": max((len(each.replicas) for each in partitions), default=0),
        "minIsr": min_isr_setting(image, topic.topic_id),
        "records": sum(each.high_watermark - each.log_start_offset for each in partitions),
        "uncommitted": sum(each.known_log_end - each.high_watermark for each in partitions),
        "configs": sorted(topic.configs.items()),
        "groups": sorted({group for group, key in image.groups if key.topic_id == topic.topic_id}),
    }


def brokers_view(image: MetadataImage, disks: Mapping[BrokerId, View]) -> View:
    """Return the brokers; `disks` are what their roots said of themselves."""
    lease = image.controller
    return {
        "controller": None if lease is None else lease.controller_id,
        "controllerEpoch": None if lease is None else lease.controller_epoch,
        "brokers": [
            {
                "id": each.registration.broker_id,
                "state": each.registration.state.value,
                "rack": each.registration.rack,
                "root": each.registration.root,
                "epoch": each.registration.broker_epoch,
                "fencedSinceMs": each.registration.fenced_since_ms,
                "refuses": _refuses(each.registration),
                "leaders": each.leader_count,
                "preferred": each.preferred_count,
                "replicas": each.replica_count,
                "inSync": each.in_sync_count,
                "lost": each.lost_count,
                "disk": disks.get(each.registration.broker_id),
            }
            for each in describe_brokers(image)
        ],
    }


def _refuses(broker: BrokerRegistration) -> str | None:
    return None if broker.refused is None else str(broker.refused)


def groups_view(image: MetadataImage) -> View:
    """Return all groups, each with its lag by topic."""
    lags: dict[str, dict[str, list[int]]] = {}
    for (group, key), place in image.groups.items():
        partition = image.partition(key)
        if partition is not None:
            topic = image.topics[key.topic_id].name
            lags.setdefault(group, {}).setdefault(topic, []).append(lag_of(partition, place))
    names = sorted({*groups_of(image), *image.consumer_groups})
    return {
        "groups": [
            {
                "name": name,
                "members": len(image.consumer_groups[name].members)
                if name in image.consumer_groups
                else 0,
                "topics": [
                    {"topic": topic, "partitions": len(each), "lag": sum(each), "most": max(each)}
                    for topic, each in sorted(lags.get(name, {}).items())
                ],
            }
            for name in names
        ]
    }


def group_view(image: MetadataImage, name: str) -> View:
    """Return one group: where it stands in each partition, and its members.

    Raises:
        GroupIdNotFoundError: There is no such group.
    """
    places, group = describe_group(image, name), image.consumer_groups.get(name)
    if not places and group is None:
        raise GroupIdNotFoundError(f"there is no group {name!r}")
    return {
        "name": name,
        "places": [
            [*each.name, each.offset, each.log_start_offset, each.high_watermark, each.lag]
            for each in places
        ],
        "members": [
            {
                "id": each.member_id,
                "instance": each.instance_id,
                "epoch": each.member_epoch,
                "isAway": each.is_away,
                "topics": _some(each.subscribed_topics),
                "owned": _some(_names(image, each.owned)),
                "target": _some(_names(image, each.target)),
            }
            for each in (() if group is None else group.members.values())
        ],
    }


def _some(names: Sequence[str]) -> View:
    return {"count": len(names), "first": names[:NAMED_MAX]}


def _names(image: MetadataImage, keys: frozenset[PartitionKey]) -> list[str]:
    there = (key for key in keys if image.partition(key) is not None)
    return [str(each) for each in sorted(image.name_of(key) for key in there)]


def moves_view(image: MetadataImage) -> View:
    """Return the reassignments under way."""
    return {
        "moves": [
            {
                "name": str(each.name),
                "topic": each.name.topic,
                "partition": each.name.partition,
                "target": each.target,
                "adding": each.adding,
                "removing": each.removing,
                "waitsFor": each.waits_for,
                "throttle": each.throttle_bytes_per_s,
            }
            for each in sorted(list_reassignments(image), key=lambda move: move.name)
        ]
    }


def progress_view(moves: list[MoveProgress]) -> dict[str, tuple[int, int]]:
    """Return the bytes that moves have copied, and of how many, by partition."""
    return {str(each.name): (each.copied_bytes, each.total_bytes) for each in moves}


def voters_view(quorum: QuorumDescription) -> View:
    """Return the voters as they were just seen."""
    answer = sum(each.problem is None for each in quorum.voters)
    return {
        "sentence": (
            f"voter {quorum.leader.node_id} leads the metadata quorum in epoch {quorum.epoch};"
            f" {answer} of {len(quorum.voters)} voters answer"
        ),
        "highWatermark": quorum.high_watermark,
        "voters": [
            {
                "id": each.voter.key.node_id,
                "directory": each.voter.key.directory_id,
                "root": each.voter.root,
                "state": each.state or "lost",
                "epoch": each.epoch,
                "logEnd": each.log_end_offset,
                "behind": each.lag,
                "problem": each.problem,
            }
            for each in quorum.voters
        ],
    }
