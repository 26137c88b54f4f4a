"""`topics` and `configs`: describe and change topics and settings, as Kafka's tools do."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import methodcaller
from typing import Any, Final

from kafka_on_spark.base.config import SETTINGS
from kafka_on_spark.base.errors import (
    InvalidRequestError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import INTERNAL_TOPICS
from kafka_on_spark.cli.kafka_files import named_topics
from kafka_on_spark.cli.options import numbers, pairs
from kafka_on_spark.cli.output import fields, note, plural, say, text_of
from kafka_on_spark.cli.verbs import CHANGING, Action, Change, Session, verb
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.observe.descriptions import (
    PartitionOffsets,
    PartitionState,
    stalled_on,
    states_of,
)

COLUMNS: Final = "topic partition leader replicas isr elr adding_replicas removing_replicas states"
PARTITION_FIELDS: Final = (
    "leader leader_epoch partition_epoch replicas isr elr adding_replicas removing_replicas"
    " log_start_offset high_watermark"
)
FILTERS: Final = (
    "exclude_internal topics_with_overrides under_replicated_partitions under_min_isr_partitions"
    " at_min_isr_partitions unavailable_partitions"
)


def create(
    session: Session,
    topic: str,
    partitions: int | None = None,
    replication_factor: int | None = None,
    replica_assignment: str | None = None,
    config: list[str] | None = None,
    if_not_exists: bool = False,
) -> None:
    """Create a topic."""
    topic_id = None
    if not (if_not_exists and topic in session.cluster.image.topic_ids):
        # Another process may be quicker.
        with suppress(*[TopicAlreadyExistsError] * if_not_exists):
            topic_id = session.cluster.create_topic(
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                replica_assignment=_assignment(replica_assignment),
                configs=pairs(config, "--config"),
            )
    if topic_id is None:
        session.conclude({"topic": topic, "created": False})
        return
    answer = {"topic": topic, "topic_id": topic_id, "created": True}
    session.conclude(answer, f"Created topic {topic} (id {topic_id}).")


def _assignment(text: str | None) -> dict[int, list[int]] | None:
    if text is None:
        return None
    return {
        number: numbers(part.replace(":", ","), "--replica-assignment")
        for number, part in enumerate(text.split(","))
    }


def alter(
    session: Session,
    partitions: int,
    topic: str | None = None,
    include: str | None = None,
    replica_assignment: str | None = None,
    records: str | None = None,
    if_exists: bool = False,
) -> None:
    """Give topics more partitions, or fewer."""
    counts = {
        name: len(session.cluster.image.topic(name).partitions)
        for name in named_topics(session.cluster.image, topic, include, if_exist=if_exists)
    }
    assignment = _assignment(replica_assignment)
    changes = [
        _change_of(session, name, count, partitions, assignment, records)
        for name, count in counts.items()
    ]
    session.do_all(changes)
    if any(count < partitions for count in counts.values()):
        note("Records stay where they are; later records of a key may go to a new partition.")
    altered = [
        {"topic": name, "partitions_before": count, "partitions": partitions}
        for name, count in counts.items()
    ]
    session.conclude({"altered": altered})


def _change_of(
    session: Session,
    name: str,
    count: int,
    to: int,
    assignment: dict[int, list[int]] | None,
    records: str | None,
) -> Change:
    """Return the change of a topic's number of partitions; a removal is confirmed first."""
    if (records if to >= count else assignment) is not None:
        raise InvalidRequestError(
            "--replica-assignment says where new partitions go, and --records what becomes of those"
            f" that go: topic {name!r} with {count} is to have {to}: leave out what does not fit"
        )
    if to >= count:
        # As in kafka-topics, the assignment begins with the existing partitions.
        new = assignment and {
            number: assignment[number] for number in range(count, len(assignment))
        }
        return methodcaller("add_partitions", name, to=to, replica_assignment=new)
    offsets = session.cluster.offsets(name)
    lost = _record_count(offsets[number] for number in offsets if number >= to)
    session.confirm(
        f"removing {plural(count - to, 'partition')} of topic {name} with {plural(lost, 'record')}"
    )
    return methodcaller("remove_partitions", name, to=to, records=records or "refuse")


def _record_count(offsets: Iterable[PartitionOffsets]) -> int:
    return sum(each.log_end_offset - each.log_start_offset for each in offsets)


def delete(
    session: Session, topic: str | None = None, include: str | None = None, if_exists: bool = False
) -> None:
    """Delete topics."""
    names = named_topics(session.cluster.image, topic, include, if_exist=if_exists)
    if names:
        offsets = [each for name in names for each in session.cluster.offsets(name).values()]
        session.confirm(
            f"deleting {plural(len(names), 'topic')} ({', '.join(names)}) with"
            f" {plural(len(offsets), 'partition')} and {plural(_record_count(offsets), 'record')}"
        )

    def delete_one(name: str, cluster: Cluster) -> None:
        with suppress(*[UnknownTopicOrPartitionError] * if_exists):  # another process was quicker
            cluster.delete_topic(name)

    session.do_all([partial(delete_one, name) for name in names])
    session.conclude({"deleted": names})


def describe(
    session: Session,
    topic: str | None = None,
    include: str | None = None,
    if_exists: bool = False,
    **filters: bool,
) -> None:
    """Show topics and their partitions."""
    image = session.cluster.image
    names = named_topics(image, topic, include, if_exist=if_exists)
    chosen, wanted = _chosen(image, names, filters)
    answer: list[dict[str, Any]] = [
        {
            "topic": each.name,
            "topic_id": each.topic_id,
            "partition_count": len(each.partitions),
            "replication_factor": len(each.partitions[min(each.partitions)].original_replicas),
            "configs": dict(each.configs),
            "partitions": list(_partition_rows(image, each, wanted)),
        }
        for each in chosen
    ]
    rows = [row for each in answer for row in each["partitions"]]
    if not (wanted or session.is_json):
        say(*map(_summary, answer))
    session.show(answer, rows=() if "topics_with_overrides" in filters else rows, columns=COLUMNS)


def list_(
    session: Session, topic: str | None = None, include: str | None = None, **filters: bool
) -> None:
    """Show the names of topics."""
    image = session.cluster.image
    found, _ = _chosen(image, named_topics(image, topic, include, if_exist=True), filters)
    names = [each.name for each in found]
    session.show(names, *names)


def _chosen(
    image: MetadataImage, names: Iterable[str], filters: Mapping[str, bool]
) -> tuple[list[TopicImage], frozenset[PartitionState]]:
    wanted = frozenset(
        state for state in PartitionState if f"{state.name.lower()}_partitions" in filters
    )
    chosen = [
        each
        for each in map(image.topic, names)
        if not ("exclude_internal" in filters and each.name in INTERNAL_TOPICS)
        and ("topics_with_overrides" not in filters or each.configs)
        and (not wanted or next(_partition_rows(image, each, wanted), None))
    ]
    return chosen, wanted


def _partition_rows(
    image: MetadataImage, topic: TopicImage, wanted: frozenset[PartitionState]
) -> Iterator[dict[str, Any]]:
    """Yield a topic's partitions as rows; with `wanted`, only those in one of these states."""
    for number in sorted(topic.partitions):
        partition = topic.partitions[number]
        states = states_of(image, topic.topic_id, partition)
        if wanted and not states & wanted:
            continue
        yield {
            "topic": topic.name,
            "partition": number,
            **fields(partition, PARTITION_FIELDS),
            **fields(partition.compaction, "compacted_below cleaned_below tombstones_below"),
            "states": [state.value for state in PartitionState if state in states],
            "stalled_on": stalled_on(image, partition),
        }


def _summary(topic: Mapping[str, Any]) -> str:
    configs = ",".join(f"{name}={value}" for name, value in sorted(topic["configs"].items()))
    return (
        f"Topic: {topic['topic']}  TopicId: {topic['topic_id']}"
        f"  PartitionCount: {topic['partition_count']}"
        f"  ReplicationFactor: {topic['replication_factor']}  Configs: {text_of(configs)}"
    )


topics = verb(
    """Create, alter, delete, describe or list topics.

    Options:
        --partitions INTEGER  The number of partitions.
        --replication-factor INTEGER  The number of replicas of each partition.
        --replica-assignment 1:2:3,2:3:1
            Brokers of each partition, preferred leader first; existing partitions, too.
        --if-not-exists  Ignore an existing topic.
        --records refuse|drop
            With fewer partitions: refuse if the others have records, or drop these.
        --if-exists  Ignore a missing topic.
        --exclude-internal  Leave out internal topics.
        --topics-with-overrides  Only topics with own settings.
        --under-replicated-partitions  Only partitions with replicas out of sync.
        --under-min-isr-partitions  Only partitions below min.insync.replicas.
        --at-min-isr-partitions  Only partitions at min.insync.replicas.
        --unavailable-partitions  Only partitions without a leader.
    """,
    Action(create, *CHANGING),
    Action(alter, *CHANGING, one_of=("topic include",)),
    Action(delete, *CHANGING, one_of=("topic include",)),
    Action(describe, "as_of", more=FILTERS),
    Action(list_, "as_of", more=FILTERS),
)


_BETWEEN_SETTINGS: Final = re.compile(r",(?=[^\]]*(?:\[|$))")  # not a comma in brackets


def describe_(
    session: Session,
    topic: str | None = None,
    include: str | None = None,
    entity_type: str | None = None,
    entity_default: bool = False,
    all_: bool = False,
) -> None:
    """Show settings."""
    image = session.cluster.image
    names: Sequence[str | None] = [None]
    if not _is_of_cluster(topic, include, entity_type, entity_default):
        names = named_topics(image, topic, include)
    rows = [row for name in names for row in _setting_rows(image, name, all_)]
    session.write_rows(rows)


def _is_of_cluster(name: str | None, include: str | None, kind: str | None, default: bool) -> bool:
    """Return whether the call means the cluster's settings, and not those of topics."""
    is_named = name is not None or include is not None
    is_of_topics, is_of_cluster = is_named or kind == "topics", default or kind == "brokers"
    if kind not in (None, "topics", "brokers") or (is_of_topics and is_of_cluster):
        raise InvalidRequestError(
            "settings are those of topics, or the cluster's, which are the defaults of topics and"
            " those of all brokers: give topics by --entity-name, or --entity-type brokers alone"
        )
    return not is_of_topics


def _setting_rows(
    image: MetadataImage, topic: str | None, is_all: bool
) -> Iterator[dict[str, Any]]:
    """Yield the settings of a topic, or (None) of the cluster; `is_all`: inherited ones, too."""
    own: Mapping[str, str] = {} if topic is None else image.topic(topic).configs
    for name, setting in sorted(SETTINGS.items()):
        known = [("topic", own), ("cluster", image.configs), ("default", {name: setting.default})]
        source, settings = next(each for each in known if name in each[1])
        is_own = source == ("cluster" if topic is None else "topic")
        if is_own or (is_all and (topic is None or setting.is_topic_setting)):
            entity = "cluster" if topic is None else f"topic {topic}"
            yield {"entity": entity, "name": name, "value": settings[name], "source": source}


def alter_(
    session: Session,
    topic: str | None = None,
    include: str | None = None,
    entity_type: str | None = None,
    entity_default: bool = False,
    add_config: list[str] | None = None,
    delete_config: str | None = None,
) -> None:
    """Alter settings, of a topic or of the cluster."""
    is_of_cluster = _is_of_cluster(topic, include, entity_type, entity_default)
    if not is_of_cluster and topic is None and include is None:
        raise InvalidRequestError("--entity-name is missing: name the topic to alter")
    changes = changed_settings(add_config, delete_config)
    if not changes:
        raise InvalidRequestError("there is nothing to alter: give --add-config or --delete-config")
    names = [] if is_of_cluster else named_topics(session.cluster.image, topic, include)
    made = [methodcaller("alter_topic_configs", name, changes) for name in names]
    if is_of_cluster:
        made = [methodcaller("alter_cluster_configs", changes)]
    if not session.is_dry_run:
        session.decide(made)
        count, size_bytes, unknown = session.dry_run.retention_loss()
        if count or unknown:
            more = f", and an unknown number in {plural(unknown, 'partition')} that can't be read"
            session.confirm(
                f"lowering retention, which deletes {plural(count, 'record')}"
                f" ({plural(size_bytes, 'byte')}){more if unknown else ''},"
            )
    session.do_all(made)
    session.conclude({"topics": names, "configs": dict(changes)})


def changed_settings(added: Sequence[str] | None, deleted: str | None) -> dict[str, str | None]:
    """Return the changes that kafka-configs' options ask for; None deletes a setting."""
    lines = [part for each in added or () for part in _BETWEEN_SETTINGS.split(each)]
    changes: dict[str, str | None] = {}
    for name, value in pairs(lines, "--add-config").items():
        changes[name] = value.removeprefix("[").removesuffix("]")
    for name in deleted.split(",") if deleted else ():
        if changes.setdefault(name.strip(), None) is not None:
            raise InvalidRequestError(
                f"setting {name.strip()!r} can't be set and deleted at once: choose one"
            )
    return changes


configs = verb(
    """Show or alter settings of topics, or of the cluster.

    Options:
        --topic, --entity-name NAMES
            Topics with commas between; without it and --include, the cluster.
        --entity-type topics|brokers
            Settings of topics, or of brokers: all brokers have the cluster's settings.
        --entity-default  Settings of all brokers, which are the cluster's.
        --all  Show also inherited settings and defaults.
        --add-config A=B,C=[D,E]...  Settings to set; a list stands in brackets.
        --delete-config A,C  Settings to delete, so that defaults hold again.
    """,
    Action(describe_, "as_of"),
    Action(alter_, *CHANGING),
)
