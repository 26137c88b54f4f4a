"""Answers to Kafka's admin clients, by what the command line does, too."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from kafka_on_spark.base.config import SETTINGS
from kafka_on_spark.base.errors import (
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaOnSparkError,
)
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.controller.commands import Command, to_json
from kafka_on_spark.gateway import wire
from kafka_on_spark.gateway.gateways import GATEWAYS, Gateways
from kafka_on_spark.gateway.groups import CONSUMER, assignment
from kafka_on_spark.gateway.wire import (
    Fields,
    Name,
    Request,
    answered,
    asked_of,
    by_topic,
    code_of,
    made,
    outcome,
    outcomes,
    schema_of,
)
from kafka_on_spark.groups.membership import MemberDescription

T = TypeVar("T")

NONE: Final = ErrorCode.none

TOPIC: Final = 2
BROKER: Final = 4
"""Kinds of what has settings. Source: ConfigResource.Type."""

OF_TOPIC: Final = 1
OF_CLUSTER: Final = 3
BY_DEFAULT: Final = 5
"""Where a setting's value comes from. Source: DescribeConfigsResponse.ConfigSource."""

SET: Final = 0
DELETE: Final = 1
"""What becomes of a setting. Source: AlterConfigOp.OpType."""

OF_GROUP: Final = {ErrorCode.group_id_not_found, ErrorCode.non_empty_group}
"""Codes that concern a group as a whole."""

DEAD: Final = "Dead"
"""The state of a group that is not there."""


class _OnlyDecided(Cluster):
    """A cluster whose commands are decided, or refused, and not done."""

    def _run(self, command: Command[T], **arguments: object) -> T:
        image, ids = self._metadata.catch_up(), self._node.ids
        return command.decide(image, ids, to_json(arguments)).response


class AdminAnswers:
    """Answers by a cluster's own commands."""

    def __init__(self, cluster: Cluster, gateways: Gateways) -> None:
        self._cluster = cluster
        self._gateways = gateways
        self.answers: dict[int, Callable[[Request], Any]] = {
            wire.CREATE_TOPICS: self._create_topics,
            wire.DELETE_TOPICS: self._delete_topics,
            wire.CREATE_PARTITIONS: self._create_partitions,
            wire.DELETE_RECORDS: self._delete_records,
            wire.DESCRIBE_CONFIGS: self._describe_configs,
            wire.INCREMENTAL_ALTER_CONFIGS: self._alter_configs,
            wire.DESCRIBE_CLUSTER: self._describe_cluster,
            wire.LIST_GROUPS: self._list_groups,
            wire.DESCRIBE_GROUPS: self._describe_groups,
            wire.DELETE_GROUPS: self._delete_groups,
            wire.OFFSET_DELETE: self._delete_offsets,
        }

    def _for(self, request: Request) -> Cluster:
        """Return what does a request's commands: or only decides them, if it asks for that."""
        is_checked = getattr(request.body, "validate_only", False)
        return _OnlyDecided("", self._cluster._node) if is_checked else self._cluster

    # Topics

    def _create_topics(self, request: Request) -> Any:
        types = schema_of(request)

        def create(topic: Any) -> None:
            assigned = {each.partition_index: list(each.broker_ids) for each in topic.assignments}
            self._for(request).create_topic(
                topic.name,
                partitions=topic.num_partitions if topic.num_partitions >= 0 else None,
                replication_factor=(
                    topic.replication_factor if topic.replication_factor >= 0 else None
                ),
                replica_assignment=assigned or None,
                configs={each.name: each.value for each in topic.configs},
            )

        topics = tuple(
            made(
                types.CreatableTopicResult,
                name=topic.name,
                topic_id=None,
                configs=None,
                **outcome(partial(create, topic)),
            )
            for topic in request.body.topics
        )
        return made(types.CreateTopicsResponse, topics=topics)

    def _delete_topics(self, request: Request) -> Any:
        types = schema_of(request)
        found = tuple(
            made(
                types.DeletableTopicResult,
                name=name,
                **outcome(partial(self._cluster.delete_topic, name)),
            )
            for name in request.body.topic_names
        )
        return made(types.DeleteTopicsResponse, responses=found)

    def _create_partitions(self, request: Request) -> Any:
        types = schema_of(request)

        def add(topic: Any) -> None:
            first = len(self._cluster.image.topic(topic.name).partitions)
            assigned = {
                first + place: list(each.broker_ids)
                for place, each in enumerate(topic.assignments or ())
            }
            self._for(request).add_partitions(
                topic.name, to=topic.count, replica_assignment=assigned or None
            )

        found = tuple(
            made(
                types.CreatePartitionsTopicResult,
                name=topic.name,
                **outcome(partial(add, topic)),
            )
            for topic in request.body.topics
        )
        return made(types.CreatePartitionsResponse, results=found)

    def _delete_records(self, request: Request) -> Any:
        types, topics = schema_of(request), request.body.topics
        given = {(topic, each.partition_index): each.offset for topic, each in asked_of(topics)}
        starts: dict[Any, int] = {}

        def delete(names: list[Name]) -> None:
            starts.update(self._cluster.delete_records({name: given[name] for name in names}))

        found = outcomes(list(given), delete)
        for name, each in found.items():
            found[name] = {"low_watermark": starts.get(name, -1), **each}
        kinds = types.DeleteRecordsTopicResult, types.DeleteRecordsPartitionResult
        return made(types.DeleteRecordsResponse, topics=by_topic(*kinds, found))

    # Settings

    def _describe_configs(self, request: Request) -> Any:
        types = schema_of(request)

        def describe(asked: Any) -> Fields:
            kind = partial(made, types.DescribeConfigsResourceResult)
            fixed = {
                "read_only": False,
                "is_sensitive": False,
                "synonyms": (),
                "documentation": None,
            }
            found = (
                kind(name=name, value=value, config_source=source, **fixed)
                for name, value, source in self._settings(asked)
            )
            return {"configs": tuple(found)}

        results = tuple(
            made(
                types.DescribeConfigsResult,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                **answered(partial(describe, each), configs=()),
            )
            for each in request.body.resources
        )
        return made(types.DescribeConfigsResponse, results=results)

    def _settings(self, asked: Any) -> Iterable[tuple[str, str, int]]:
        """Return name, value and source of the settings that are asked for."""
        image = self._cluster._metadata.catch_up()
        own: Any = {}
        settings, wanted = image.settings(), asked.configuration_keys
        if asked.resource_type == TOPIC:
            topic = image.topic(asked.resource_name)
            settings, own = image.settings(topic.topic_id), topic.configs
        elif asked.resource_type != BROKER:
            raise InvalidRequestError("only topics (2) and brokers (4) have settings")
        for name, setting in SETTINGS.items():
            is_of_kind = setting.is_topic_setting or asked.resource_type == BROKER
            if is_of_kind and (wanted is None or name in wanted):
                source = OF_CLUSTER if name in image.configs else BY_DEFAULT
                yield name, settings.text(name), OF_TOPIC if name in own else source

    def _alter_configs(self, request: Request) -> Any:
        types = schema_of(request)

        def alter(asked: Any) -> None:
            if any(each.config_operation not in (SET, DELETE) for each in asked.configs):
                raise InvalidRequestError("a setting can be set (0) and deleted (1) alone")
            configs = {
                each.name: each.value if each.config_operation == SET else None
                for each in asked.configs
                # What can't be set is not set, as in Kafka.
                if each.config_operation == SET or each.name in SETTINGS
            }
            if asked.resource_type == TOPIC:
                self._for(request).alter_topic_configs(asked.resource_name, configs)
            elif asked.resource_type == BROKER and not asked.resource_name:
                self._for(request).alter_cluster_configs(configs)
            elif asked.resource_type != BROKER or set(configs.values()) - {None}:
                raise InvalidRequestError(
                    "only topics (2), and all brokers together (4, without a name), have settings"
                )

        found = tuple(
            made(
                types.AlterConfigsResourceResponse,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                **outcome(partial(alter, each)),
            )
            for each in request.body.resources
        )
        return made(types.IncrementalAlterConfigsResponse, responses=found)

    def _describe_cluster(self, request: Request) -> Any:
        types, image = schema_of(request), self._cluster.image
        places = self._gateways.live(image)
        listed = self._gateways.listed(image, request.client_id)
        return made(
            types.DescribeClusterResponse,
            error_code=NONE,
            cluster_id=image.cluster_id,
            controller_id=self._gateways.controller(places).node_id,
            brokers=tuple(
                made(
                    types.DescribeClusterBroker, broker_id=node_id, host=host, port=port, rack=None
                )
                for node_id, host, port in listed
            ),
        )

    # Groups

    def _list_groups(self, request: Request) -> Any:
        types, code, groups = schema_of(request), NONE, list[Any]()
        wanted = getattr(request.body, "states_filter", ())
        kinds = {each.lower() for each in getattr(request.body, "types_filter", ())} or {CONSUMER}
        try:
            image = self._cluster.image
            for group in self._cluster.list_groups():
                if group == GATEWAYS or not self._gateways.coordinates(image, group):
                    continue  # a client asks all gateways
                state = self._cluster.describe_group_members(group).state
                if CONSUMER in kinds and (not wanted or state in wanted):
                    groups.append(
                        made(
                            types.ListedGroup,
                            group_id=group,
                            protocol_type=CONSUMER,
                            group_state=state,
                            group_type=CONSUMER,
                        )
                    )
        except KafkaOnSparkError as error:
            code = code_of(error)
        return made(types.ListGroupsResponse, error_code=code, groups=tuple(groups))

    def _describe_groups(self, request: Request) -> Any:
        types = schema_of(request)

        def member(each: MemberDescription) -> Any:
            return made(
                types.DescribedGroupMember,
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client.client_id or "",
                client_host=each.client.host or "",
                member_metadata=b"",
                member_assignment=assignment(each.partitions),
            )

        def described(group: str) -> Any:
            state, members, code = DEAD, (), NONE
            try:
                found = self._cluster.describe_group_members(group)
                state, members = found.state, tuple(map(member, found.members))
            except GroupIdNotFoundError:
                pass  # Source: KIP-1043: a group that is not there is dead, before version 6
            except KafkaOnSparkError as error:
                code = code_of(error)
            return made(
                types.DescribedGroup,
                error_code=code,
                group_id=group,
                group_state=state,
                protocol_type=CONSUMER,
                protocol_data="",
                members=members,
            )

        return made(types.DescribeGroupsResponse, groups=tuple(map(described, request.body.groups)))

    def _delete_groups(self, request: Request) -> Any:
        types = schema_of(request)
        found = tuple(
            made(
                types.DeletableGroupResult,
                group_id=group,
                **outcome(partial(self._cluster.delete_group, group)),
            )
            for group in request.body.groups_names
        )
        return made(types.DeleteGroupsResponse, results=found)

    def _delete_offsets(self, request: Request) -> Any:
        types, group = schema_of(request), request.body.group_id
        names = [(topic, each.partition_index) for topic, each in asked_of(request.body.topics)]
        found = outcomes(names, partial(self._cluster.delete_group, group))
        codes = (each["error_code"] for each in found.values())
        code = next((each for each in codes if each in OF_GROUP), NONE)
        kinds = types.OffsetDeleteResponseTopic, types.OffsetDeleteResponsePartition
        topics = by_topic(*kinds, found)
        return made(types.OffsetDeleteResponse, error_code=code, topics=topics)
