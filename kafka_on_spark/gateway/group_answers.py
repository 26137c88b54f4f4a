"""Answers to requests of groups' members, and about groups' offsets."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from kafka_on_spark.base.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.base.ids import AWAY, NO_EPOCH, PartitionKey, TopicId
from kafka_on_spark.gateway import wire
from kafka_on_spark.gateway.gateways import NOWHERE, Gateways, coordinator_of
from kafka_on_spark.gateway.groups import CONSUMER, Groups
from kafka_on_spark.gateway.wire import RefusedError, Request, code_of, made, schema_of
from kafka_on_spark.groups.membership import assignors_of, chosen_assignor, describe_members
from kafka_on_spark.metadata.image import GroupMember, MetadataImage, key_of
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import MemberClient

NONE: Final = ErrorCode.none
MS: Final = timedelta(milliseconds=1)
GROUP: Final = 0
"""The kind of a coordinator's key; the others are of transactions, and of share groups."""

LEAVES: Final = -1
"""The epoch of a member that leaves. Source: ConsumerGroupHeartbeatRequest."""


class GroupAnswers:
    """Answers by what `groups` decides."""

    def __init__(self, groups: Groups, metadata: MetadataService, gateways: Gateways) -> None:
        self._groups = groups
        self._metadata = metadata
        self._gateways = gateways
        self.answers: dict[int, Callable[[Request], Any]] = {
            wire.FIND_COORDINATOR: self._find_coordinator,
            wire.JOIN_GROUP: self._join,
            wire.SYNC_GROUP: self._sync,
            wire.HEARTBEAT: self._heartbeat,
            wire.LEAVE_GROUP: self._leave,
            wire.OFFSET_COMMIT: self._commit,
            wire.OFFSET_FETCH: self._fetch,
            wire.CONSUMER_GROUP_HEARTBEAT: self._beat,
            wire.CONSUMER_GROUP_DESCRIBE: self._describe,
        }

    def _find_coordinator(self, request: Request) -> Any:
        body, types, version = request.body, schema_of(request), request.version
        places = self._gateways.live(self._metadata.image)

        def found(group: str) -> dict[str, Any]:
            code, place = NONE, coordinator_of(places, group)
            if getattr(body, "key_type", GROUP) != GROUP:
                code, place = ErrorCode.transactional_id_authorization_failed, NOWHERE
            elif place == NOWHERE:
                code = ErrorCode.coordinator_not_available
            return {"error_code": code, "error_message": None, **place._asdict()}

        if version < 4:
            return made(types.FindCoordinatorResponse, **found(body.key))
        return made(
            types.FindCoordinatorResponse,
            coordinators=tuple(
                types.Coordinator(key=key, **found(key)) for key in body.coordinator_keys
            ),
        )

    def _join(self, request: Request) -> Any:
        body = request.body
        protocols = [(each.name, bytes(each.metadata)) for each in body.protocols]
        code, member_id, generation, name = NONE, body.member_id, -1, ""
        try:
            member_id, generation = self._groups.join(
                body.group_id,
                body.member_id,
                protocols,
                protocol_type=body.protocol_type,
                instance_id=getattr(body, "group_instance_id", None),
                session_ms=int(body.session_timeout / MS),
                client=MemberClient(request.client_id, request.host),
            )
            name = protocols[0][0]
        except (KafkaOnSparkError, RefusedError) as error:
            code = code_of(error)
        return made(
            schema_of(request).JoinGroupResponse,
            error_code=code,
            generation_id=generation,
            protocol_name=name,
            leader="",
            member_id=member_id,
            members=(),
            protocol_type=CONSUMER,
        )

    def _sync(self, request: Request) -> Any:
        body = request.body
        code, part = NONE, b""
        try:
            part = self._groups.sync(
                body.group_id, body.generation_id, body.member_id, _instance(body)
            )
        except (KafkaOnSparkError, RefusedError) as error:
            code = code_of(error)
        return made(
            schema_of(request).SyncGroupResponse,
            error_code=code,
            assignment=part,
            protocol_type=CONSUMER,
            protocol_name=getattr(body, "protocol_name", None),
        )

    def _heartbeat(self, request: Request) -> Any:
        body, code = request.body, NONE
        try:
            self._groups.heartbeat(
                body.group_id, body.generation_id, body.member_id, _instance(body)
            )
        except (KafkaOnSparkError, RefusedError) as error:
            code = code_of(error)
        return made(schema_of(request).HeartbeatResponse, error_code=code)

    def _leave(self, request: Request) -> Any:
        body, types, version = request.body, schema_of(request), request.version
        codes = [
            (each, self._left(body.group_id, each.member_id, _instance(each)))
            for each in (body.members if version >= 3 else (body,))
        ]
        if version < 3:
            return made(types.LeaveGroupResponse, error_code=codes[0][1])
        members = tuple(
            types.MemberResponse(
                member_id=each.member_id, group_instance_id=_instance(each), error_code=code
            )
            for each, code in codes
        )
        return made(types.LeaveGroupResponse, error_code=NONE, members=members)

    def _left(self, group: str, member_id: str, instance_id: str | None) -> ErrorCode:
        try:
            self._groups.leave(group, member_id, instance_id)
        except (KafkaOnSparkError, RefusedError) as error:
            return code_of(error)
        return NONE

    def _beat(self, request: Request) -> Any:
        body, types, image = request.body, schema_of(request), self._metadata.image
        answer: dict[str, Any] = {"member_id": body.member_id, "member_epoch": body.member_epoch}
        try:
            _check_beat(body, request.version)
            if body.member_epoch in (LEAVES, AWAY):
                who = (body.group_id, body.member_id, body.instance_id)
                self._groups.leave(*who, returns=body.member_epoch == AWAY)
            else:
                client = MemberClient(request.client_id, request.host)
                member, part = self._groups.beat(body, client)
                answer = {"member_id": member.member_id, "member_epoch": member.member_epoch}
                if part is not None:
                    answer["assignment"] = _assignment(types, self._metadata.image, part)
        except (KafkaOnSparkError, RefusedError) as error:
            answer = {"error_code": code_of(error), "error_message": str(error), "member_epoch": 0}
        interval_ms = image.settings().integer("group.consumer.heartbeat.interval.ms")
        given = {"error_code": NONE, "heartbeat_interval": interval_ms * MS, **answer}
        return made(types.ConsumerGroupHeartbeatResponse, **given)

    def _describe(self, request: Request) -> Any:
        types = schema_of(request)

        def member(image: MetadataImage, each: GroupMember) -> Any:
            return made(
                types.Member,
                member_id=each.member_id,
                instance_id=each.instance_id,
                member_epoch=each.member_epoch,
                client_id=each.client.client_id or "",
                client_host=each.client.host or "",
                subscribed_topic_names=each.subscribed_topics,
                assignment=_assignment(types, image, each.owned),
                target_assignment=_assignment(types, image, each.target),
            )

        def described(group: str) -> Any:
            given: dict[str, Any] = {"error_code": NONE, "group_state": "", "group_epoch": 0}
            given |= {"assignment_epoch": 0, "assignor_name": "", "members": ()}
            try:
                image = self._metadata.catch_up()
                given["group_state"] = describe_members(image, group).state
                if (known := image.consumer_groups.get(group)) is not None:
                    members = tuple(member(image, each) for each in known.members.values())
                    assignor = chosen_assignor(known, assignors_of(image))
                    given |= {"assignor_name": assignor, "members": members}
                    epochs = known.group_epoch, known.target_epoch
                    given["group_epoch"], given["assignment_epoch"] = epochs
            except KafkaOnSparkError as error:
                given |= {"error_code": code_of(error), "error_message": error.message}
            return made(types.DescribedGroup, group_id=group, **given)

        groups = tuple(map(described, request.body.group_ids))
        return made(types.ConsumerGroupDescribeResponse, groups=groups)

    def _commit(self, request: Request) -> Any:
        body, types = request.body, schema_of(request)
        image, offsets, unknown = self._metadata.image, dict[PartitionKey, int](), set[Any]()
        for topic in body.topics:
            for each in topic.partitions:
                key = _key(image, topic.name, each.partition_index)
                if key is None:
                    unknown.add((topic.name, each.partition_index))
                else:
                    offsets[key] = each.committed_offset
        code = NONE
        try:
            self._groups.commit(
                body.group_id,
                body.generation_id_or_member_epoch,
                body.member_id,
                _instance(body),
                offsets,
            )
        except (KafkaOnSparkError, RefusedError) as error:
            code = code_of(error)

        def code_at(name: str, number: int) -> ErrorCode:
            return ErrorCode.unknown_topic_or_partition if (name, number) in unknown else code

        topics = tuple(
            types.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    types.OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=code_at(topic.name, each.partition_index),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in body.topics
        )
        return made(types.OffsetCommitResponse, topics=topics)

    def _fetch(self, request: Request) -> Any:
        body, types, version = request.body, schema_of(request), request.version
        code, image = NONE, self._metadata.image
        try:
            image = self._metadata.catch_up()  # an older offset would send a consumer back
        except KafkaOnSparkError as error:
            code = code_of(error)

        def code_for(asked: Any) -> ErrorCode:
            if code == NONE and getattr(asked, "member_id", None):
                try:
                    who = asked.group_id, asked.member_epoch, asked.member_id
                    self._groups.check_member(*who, None, None)
                except (KafkaOnSparkError, RefusedError) as error:
                    return code_of(error)
            return code

        if version >= 8:
            groups = tuple(
                types.OffsetFetchResponseGroup(
                    group_id=each.group_id,
                    topics=_offsets(types, version, image, each.group_id, each.topics),
                    error_code=code_for(each),
                )
                for each in body.groups
            )
            return made(types.OffsetFetchResponse, groups=groups)
        topics = _offsets(types, version, image, body.group_id, body.topics)
        return made(types.OffsetFetchResponse, topics=topics, error_code=code)


def _instance(given: Any) -> str | None:
    found: str | None = getattr(given, "group_instance_id", None)
    return found


def _check_beat(body: Any, version: int) -> None:
    """Check a ConsumerGroupHeartbeat. Source:
    GroupMetadataManager.throwIfConsumerGroupHeartbeatRequestIsInvalid.

    Raises:
        InvalidRequestError: It lacks what it has to have, or has what it can't have.
        RefusedError: It has a regular expression: topics are subscribed to by their names.
    """
    epoch, topics = body.member_epoch, body.subscribed_topic_names
    regex, joins = getattr(body, "subscribed_topic_regex", None), epoch == NO_EPOCH
    is_away, has_timeout = epoch == AWAY, body.rebalance_timeout >= timedelta()
    wrong = {
        "a member has an id: give one": not body.member_id and (version > 0 or not joins),
        "an instance id can't be empty: give null or a name": body.instance_id == "",
        "who joins gives topics, or an empty list": joins and topics is None and regex is None,
        "who joins gives an empty list of partitions": joins and body.topic_partitions != (),
        "who joins gives its rebalance timeout": joins and not has_timeout,
        "who leaves for a while gives its instance id": is_away and body.instance_id is None,
        f"no member has epoch {epoch}: give one from -2 on": epoch < AWAY,
    }
    for words in (each for each, is_wrong in wrong.items() if is_wrong):
        raise InvalidRequestError(words)
    if regex:
        words = f"topics can't be subscribed to by {regex!r} here: give their names"
        raise RefusedError(ErrorCode.invalid_regular_expression, words)


def _assignment(types: Any, image: MetadataImage, keys: Iterable[PartitionKey]) -> Any:
    numbers: defaultdict[TopicId, list[int]] = defaultdict(list)
    for key in sorted(keys):
        numbers[key.topic_id].append(key.partition)
    parts = tuple(
        made(
            types.TopicPartitions,
            topic_id=uuid.UUID(topic_id),
            topic_name=image.topics[topic_id].name,
            partitions=tuple(each),
        )
        for topic_id, each in numbers.items()
        if topic_id in image.topics
    )
    return types.Assignment(topic_partitions=parts)


def _key(image: MetadataImage, topic: str, number: int) -> PartitionKey | None:
    try:
        return key_of(image, (topic, number))
    except KafkaOnSparkError:
        return None


def _offsets(
    types: Any, version: int, image: MetadataImage, group: str, asked: Any
) -> tuple[Any, ...]:
    """Return the offsets of a group in the partitions that are asked for, or (None) in all."""
    numbers: dict[str, list[int]] = {}
    if asked is None:
        for name, key in image.group_offsets:
            if name == group and key.topic_id in image.topics:
                numbers.setdefault(image.topics[key.topic_id].name, []).append(key.partition)
    else:
        numbers = {each.name: list(each.partition_indexes) for each in asked}
    suffix = "s" if version >= 8 else ""
    make_partition = getattr(types, f"OffsetFetchResponsePartition{suffix}")
    make_topic = getattr(types, f"OffsetFetchResponseTopic{suffix}")

    def one(name: str, number: int) -> Any:
        key = _key(image, name, number)
        saved = None if key is None else image.group_offsets.get((group, key))
        return made(
            make_partition,
            partition_index=number,
            committed_offset=-1 if saved is None else int(saved.offset),
            metadata="",
            error_code=NONE,
            committed_leader_epoch=-1,
        )

    return tuple(
        make_topic(name=name, partitions=tuple(one(name, each) for each in of_topic))
        for name, of_topic in numbers.items()
    )
