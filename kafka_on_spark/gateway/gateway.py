"""What a gateway answers: which topics there are, and appends and fetches of their records.

A client sees gateways where Kafka has brokers.
"""

import asyncio
import logging
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    KafkaOnSparkError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.console.http_server import listening
from kafka_on_spark.gateway import wire
from kafka_on_spark.gateway.admin_answers import AdminAnswers
from kafka_on_spark.gateway.appends import Appended, Appends, Waiting
from kafka_on_spark.gateway.fetches import Fetches
from kafka_on_spark.gateway.gateways import Gateways, Place, is_loopback, leader_of
from kafka_on_spark.gateway.group_answers import GroupAnswers
from kafka_on_spark.gateway.groups import Groups
from kafka_on_spark.gateway.producers import new_producer
from kafka_on_spark.gateway.replica_answers import ReplicaAnswers, check_leadership
from kafka_on_spark.gateway.server import Server
from kafka_on_spark.gateway.wire import Request, answer_bytes, code_of, made, schema_of
from kafka_on_spark.log.reading import FoundOffset, look_up_offset, read_timestamps
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.metadata_service import CommitWait
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.deadlines import DaemonThreads

log = logging.getLogger(__name__)

T = TypeVar("T")

THREADS: Final = 32
"""Fetches and questions that are answered at one time."""

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
"""Times that stand for places in a log. Source: ListOffsetsRequest."""

NONE: Final = ErrorCode.none


def listening_at(given: str) -> socket.socket:
    """Return a socket that listens at HOST:PORT, of this machine alone.

    Raises:
        InvalidRequestError: The address is none, is another machine's, or can't be had.
    """
    host, _, port = given.rpartition(":")
    host = host.strip("[]")
    if not is_loopback(host) or not port.isdecimal():
        raise InvalidRequestError(
            f"--kafka can't be {given!r}: give an address of this machine alone, such as"
            " 127.0.0.1:9092, since whoever reaches it may read and append everything"
        )
    return listening(host, int(port), what="the gateway's port", options="--kafka")


class Gateway:
    """Answers Kafka's clients at an address, from `begin` to `end`."""

    def __init__(self, node: Node, taken: socket.socket) -> None:
        self._node = node
        self._metadata = node.metadata
        self.host, self.port = taken.getsockname()[:2]
        self._server = Server(taken, self._answer)
        self._loop = self._server.loop
        self._threads = DaemonThreads(THREADS, "gateway")
        self._gateways = Gateways(node, self.host, self.port)
        self._appends = Appends(node, self._gateways, self._wake)
        self._fetches = Fetches(node)
        self._news = asyncio.Event()
        self._ended = threading.Event()
        self._following = threading.Thread(target=self._follow, name="gateway-news", daemon=True)
        self._answers: dict[int, Callable[[Request], Any]] = {
            wire.API_VERSIONS: self._api_versions,
            wire.METADATA: self._describe,
            wire.PRODUCE: self._produce,
            wire.FETCH: self._fetch,
            wire.LIST_OFFSETS: self._list_offsets,
            wire.INIT_PRODUCER_ID: self._init_producer,
        }
        self._groups = Groups(node, self._gateways)
        self._blocking = {
            **GroupAnswers(self._groups, node.metadata, self._gateways).answers,
            **AdminAnswers(Cluster("", node), self._gateways).answers,
            **ReplicaAnswers(Cluster("", node)).answers,
        }

    def begin(self) -> None:
        """Answer clients from now on, in threads."""
        self._metadata.catch_up()
        self._gateways.begin()
        self._groups.begin()
        self._following.start()
        self._server.begin()

    def end(self, timeout_s: float = 5.0) -> None:
        """Hang up. What was not answered is appended, or not: clients try again."""
        self._ended.set()
        self._groups.end()
        self._server.end(timeout_s)
        self._gateways.end(timeout_s)
        self._appends.close()
        self._threads.shutdown(wait=False)

    # What is new

    def _follow(self) -> None:
        """Look for commits of other processes, and wake those that wait for records."""
        wait, is_failing = CommitWait(self._metadata, self._node.clock), False
        seen = self._metadata.image.offset
        while not self._ended.is_set():
            try:
                image = wait.wait(seen, 1_000, self._ended.is_set)
            except ClusterClosedError:
                return
            except KafkaOnSparkError as error:
                if not is_failing:
                    log.warning("the gateway can't read the metadata, and tries again: %s", error)
                is_failing = True
                self._ended.wait(1.0)
                continue
            is_failing = False
            if image.offset != seen:
                seen = image.offset
                self._wake()

    def _wake(self) -> None:
        def wake() -> None:
            news, self._news = self._news, asyncio.Event()
            news.set()

        with suppress(RuntimeError):  # the gateway has ended
            self._loop.call_soon_threadsafe(wake)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._threads.submit(call))

    # Requests

    async def _answer(self, request: Request) -> bytes | None:
        blocking = self._blocking.get(request.api_key)
        if blocking is not None:
            answer = await self._in_thread(partial(blocking, request))
        else:
            answer = await self._answers[request.api_key](request)
        return None if answer is None else answer_bytes(request, answer)

    async def _api_versions(self, request: Request) -> Any:
        if request.body is None:  # Source: KIP-511
            request = request._replace(version=0)
            code = ErrorCode.unsupported_version
        else:
            code = NONE
        types = schema_of(request)
        keys = tuple(
            types.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in wire.SUPPORTED.items()
        )
        return made(types.ApiVersionsResponse, error_code=code, api_keys=keys)

    async def _describe(self, request: Request) -> Any:
        asked = request.body.topics
        image = self._metadata.image
        if asked and not all(_topic_asked(image, each) for each in asked):
            with suppress(KafkaOnSparkError):  # then by what is known: the client asks again
                image = await self._in_thread(self._metadata.catch_up)
        types, version = schema_of(request), request.version
        if asked is None or (version == 0 and not asked):
            found: list[tuple[TopicImage | None, Any]]
            found = [(each, None) for each in image.topics.values()]
        else:
            found = [(_topic_asked(image, each), each) for each in asked]
        places = self._gateways.live(image)
        leader = partial(leader_of, places)
        return made(
            types.MetadataResponse,
            brokers=tuple(
                made(types.MetadataResponseBroker, rack=None, **each._asdict())
                for each in self._gateways.listed(image, request.client_id)
            ),
            topics=tuple(_topic(types, leader, topic, each) for topic, each in found),
            controller_id=self._gateways.controller(places).node_id,
            cluster_id=image.cluster_id,
        )

    def _partition(
        self, image: MetadataImage, topic: str, number: int
    ) -> tuple[PartitionKey, PartitionRegistration]:
        known = image.topic(topic)
        if number not in known.partitions:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {number}")
        return PartitionKey(known.topic_id, number), known.partitions[number]

    # Appends

    async def _produce(self, request: Request) -> Any:
        body = request.body
        timeout_ms = max(int(body.timeout / timedelta(milliseconds=1)), 1)
        waiting: list[tuple[str, int, asyncio.Future[Appended]]] = []
        for topic in body.topic_data:
            parts = []
            for data in topic.partition_data:
                answered: asyncio.Future[Appended] = self._loop.create_future()
                waiting.append((topic.name, data.index, answered))
                refusal = _refusal(body, self._metadata.image)
                if refusal is not None:
                    answered.set_result(Appended(error=refusal))
                    continue
                answer = partial(self._set, answered)
                content = bytes(data.records or b"")
                parts.append(Waiting(data.index, content, body.acks, timeout_ms, answer))
            if parts:
                self._appends.add(topic.name, parts)
        if body.acks == 0:
            return None
        types = schema_of(request)
        topics: dict[str, list[Any]] = {}
        for name, number, answered in waiting:
            appended = await answered
            topics.setdefault(name, []).append(_produced(types, number, appended))
        return made(
            types.ProduceResponse,
            responses=tuple(
                types.TopicProduceResponse(name=name, partition_responses=tuple(parts))
                for name, parts in topics.items()
            ),
        )

    def _set(self, answered: "asyncio.Future[Appended]", appended: Appended) -> None:
        def set_result() -> None:
            if not answered.done():
                answered.set_result(appended)

        with suppress(RuntimeError):  # the gateway has ended
            self._loop.call_soon_threadsafe(set_result)

    async def _init_producer(self, request: Request) -> Any:
        body, found, code = request.body, -1, NONE
        if body.transactional_id is not None:
            code = ErrorCode.transactional_id_authorization_failed  # which no client tries again
        elif getattr(body, "producer_id", -1) >= 0:
            code = ErrorCode.invalid_request
        else:
            try:
                found = await self._in_thread(partial(new_producer, self._node))
            except KafkaOnSparkError as error:
                code = code_of(error)
        return made(
            schema_of(request).InitProducerIdResponse,
            error_code=code,
            producer_id=found,
            producer_epoch=0 if code == NONE else -1,
        )

    # Fetches

    async def _fetch(self, request: Request) -> Any:
        body, types = request.body, schema_of(request)
        end = self._loop.time() + body.max_wait.total_seconds()
        while True:
            news = self._news
            found, size, is_final = await self._in_thread(partial(self._read, request, types))
            left = end - self._loop.time()
            if is_final or size >= body.min_bytes or left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await news.wait()
            except TimeoutError:
                continue
        return made(types.FetchResponse, responses=found, error_code=NONE, session_id=0)

    def _read(self, request: Request, types: Any) -> tuple[tuple[Any, ...], int, bool]:
        """Return the answers of a fetch's partitions, how many bytes they have, and whether there
        is no sense in waiting for more."""
        body, image = request.body, self._metadata.image
        room, size, is_final = body.max_bytes, 0, False
        rack = getattr(body, "rack_id", "") or None
        topics = []
        for topic in body.topics:
            parts = []
            for asked in topic.partitions:
                content, partition, error = b"", None, None
                try:
                    image, key = self._current(image, topic.topic, asked)
                    partition = image.topics[key.topic_id].partitions[key.partition]
                    if room > 0 or not size:
                        most = min(room, asked.partition_max_bytes)
                        content = self._fetches.fetch(
                            image, key, asked.fetch_offset, bytes_max=most, rack=rack
                        )
                except KafkaOnSparkError as raised:
                    error, is_final = raised, True
                size += len(content)
                room -= len(content)
                parts.append(_fetched(types, asked.partition, partition, content, error))
            topics.append(types.FetchableTopicResponse(topic=topic.topic, partitions=tuple(parts)))
        return tuple(topics), size, is_final

    def _current(
        self, image: MetadataImage, topic: str, asked: Any
    ) -> tuple[MetadataImage, PartitionKey]:
        """Return the partition that is asked for, and the image to read it by: the newest, if by
        this one it is not there, or not there yet.

        Raises:
            UnknownTopicOrPartitionError, OffsetOutOfRangeError: It is not.
            FencedLeaderEpochError, UnknownLeaderEpochError: The client knows of an older leadership
                or of one that is not known. Source: KIP-320.
        """
        offset, epoch = asked.fetch_offset, getattr(asked, "current_leader_epoch", -1)
        for newest in (image, None):
            image = newest or self._metadata.catch_up()
            try:
                key, partition = self._partition(image, topic, asked.partition)
            except UnknownTopicOrPartitionError:
                if newest is None:
                    raise
                continue
            is_there = partition.log_start_offset <= offset <= partition.high_watermark
            if is_there and epoch <= partition.leader_epoch:
                break
        check_leadership(partition, epoch)
        if not partition.log_start_offset <= offset <= partition.known_log_end:
            raise OffsetOutOfRangeError(f"offset {offset} is not in the log")
        return image, key

    # Offsets

    async def _list_offsets(self, request: Request) -> Any:
        return await self._in_thread(partial(self._offsets, request))

    def _offsets(self, request: Request) -> Any:
        types, image, failure = schema_of(request), self._metadata.image, None
        try:
            image = self._metadata.catch_up()  # by an older one a consumer would go back
        except KafkaOnSparkError as error:
            failure = error
        topics = tuple(
            types.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    made(
                        types.ListOffsetsPartitionResponse,
                        partition_index=asked.partition_index,
                        **self._place(image, topic.name, asked, failure),
                    )
                    for asked in topic.partitions
                ),
            )
            for topic in request.body.topics
        )
        return made(types.ListOffsetsResponse, topics=topics)

    def _place(
        self, image: MetadataImage, topic: str, asked: Any, failure: KafkaOnSparkError | None
    ) -> dict[str, Any]:
        """Return what is answered of one partition: an offset, and of a record its time."""
        place = {"error_code": NONE, "offset": -1, "timestamp": -1, "leader_epoch": -1}
        try:
            if failure is not None:
                raise failure
            key, partition = self._partition(image, topic, asked.partition_index)
            place["leader_epoch"] = int(partition.leader_epoch)
            if asked.timestamp == EARLIEST:
                place["offset"] = int(partition.log_start_offset)
            elif asked.timestamp == LATEST:
                place["offset"] = int(partition.high_watermark)
            elif asked.timestamp < MAX_TIMESTAMP:
                place["error_code"] = ErrorCode.unsupported_version
            elif (found := self._at(image, key, asked.timestamp)) is not None:
                time_us = found.timestamp_us
                assert time_us is not None, "a record was asked for"
                place |= {"offset": int(found.offset), "timestamp": time_us // 1000}
        except KafkaOnSparkError as error:
            place["error_code"] = code_of(error)
        return place

    def _at(self, image: MetadataImage, key: PartitionKey, time_ms: int) -> FoundOffset | None:
        return look_up_offset(
            image,
            image,
            key,
            None if time_ms == MAX_TIMESTAMP else time_ms * 1000,
            replicas=self._node.replicas,
            read_timestamps=partial(read_timestamps, options=self._node.options),
        )


def _refusal(body: Any, image: MetadataImage) -> KafkaOnSparkError | None:
    """Return why nothing of a produce request is taken, or None."""
    if body.acks not in (-1, 0, 1):
        return InvalidRequiredAcksError(f"acks={body.acks} is not allowed: give 0, 1 or all")
    return None


def _topic_asked(image: MetadataImage, asked: Any) -> TopicImage | None:
    """Return the topic that a metadata request names, by name or by id."""
    if asked.name is not None:
        topic_id = image.topic_ids.get(asked.name)
    else:
        topic_id = next((each for each in image.topics if uuid.UUID(each) == asked.topic_id), None)
    return None if topic_id is None else image.topics.get(topic_id)


def _topic(
    types: Any, leader: Callable[[PartitionKey], Place], topic: TopicImage | None, asked: Any
) -> Any:
    if topic is None:
        is_named = asked.name is not None
        return made(
            types.MetadataResponseTopic,
            error_code=ErrorCode.unknown_topic_or_partition
            if is_named
            else ErrorCode.unknown_topic_id,
            name=asked.name,
            topic_id=getattr(asked, "topic_id", None),
            partitions=(),
        )

    def partition(number: int, each: PartitionRegistration) -> Any:
        place = leader(PartitionKey(topic.topic_id, number))
        return made(
            types.MetadataResponsePartition,
            error_code=NONE if place.node_id >= 0 else ErrorCode.leader_not_available,
            partition_index=number,
            leader_id=place.node_id,
            leader_epoch=int(each.leader_epoch),
            replica_nodes=tuple(map(int, each.replicas)),
            isr_nodes=tuple(map(int, sorted(each.isr))),
            offline_replicas=(),
        )

    return made(
        types.MetadataResponseTopic,
        error_code=NONE,
        name=topic.name,
        topic_id=uuid.UUID(topic.topic_id),
        partitions=tuple(partition(*each) for each in topic.partitions.items()),
    )


def _produced(types: Any, number: int, appended: Appended) -> Any:
    error, time_ms = appended.error, appended.time_ms
    return made(
        types.PartitionProduceResponse,
        index=number,
        error_code=NONE if error is None else code_of(error),
        base_offset=appended.base_offset,
        log_append_time=None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC),
        record_errors=(),
        error_message=None if error is None else str(error),
    )


def _fetched(
    types: Any,
    number: int,
    partition: PartitionRegistration | None,
    content: bytes,
    error: KafkaOnSparkError | None,
) -> Any:
    start, mark = -1, -1
    if partition is not None:
        start, mark = int(partition.log_start_offset), int(partition.high_watermark)
    return made(
        types.PartitionData,
        partition_index=number,
        error_code=NONE if error is None else code_of(error),
        high_watermark=mark,
        last_stable_offset=mark,
        log_start_offset=start,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=content,
    )
