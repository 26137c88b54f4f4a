"""Writes of ``format("kafka_on_spark")``: executors stage segments, the driver appends them.

Exactly once. A stream's query id and batch number are producer and sequence; Spark runs a batch
again after a crash, and the second append finds the first. A batch that Spark may run again is its
query's last one, so the logs know what records it had; one that they know by its number only comes
from an older checkpoint, with records that nobody has compared, and is refused. An abort deletes
nothing, because Spark calls it with the same messages after a commit whose outcome is unknown.

Spark makes a writer for each batch, which plans, and another one, in another process, that appends;
and it keeps nothing for a worker between two tasks. So module globals hold the clusters that a
process has open, what a run has open, and the image that a worker's tasks plan on. They can go once
Spark keeps a writer for a run, and a value for a worker. A cached cluster is caught up, which
is less than to read all of its log since the snapshot; if another one stands in its place, or the
metadata can't be read, it is opened again, and that says what is wrong.

Spark gives a batch to any idle worker, so that two queries of a driver swap theirs, and a run that
has an epoch for each worker would fence itself. So the workers of one driver tell each other the
epochs of a query's run, by a file named by the run in the folder that Spark makes for the driver
and removes with it. Another run of the same query, here or elsewhere, takes epochs of its own.
"""

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # an older Spark, on which `check_stream` refuses streams
    DataSourceStreamArrowWriter = object  # type: ignore[misc,assignment]

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    InvalidRequestError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import BrokerId, Offset
from kafka_on_spark.consume.options import SinkOptions, parse_sink
from kafka_on_spark.log.batch import WriterFence
from kafka_on_spark.log.producer_state import partition_count_of
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.node import Node, open_node
from kafka_on_spark.node.opening import Awaits, awaiting, metadata_service
from kafka_on_spark.produce.append import (
    AppendResult,
    append_staged,
    append_when_in_sync,
    plan_topics,
)
from kafka_on_spark.produce.append_rounds import AppendThreads
from kafka_on_spark.produce.idempotence import (
    NextAppend,
    OwnRun,
    ProducerRuns,
    check_producer,
    producer_of,
)
from kafka_on_spark.produce.records import check_columns, input_batches
from kafka_on_spark.produce.staging import (
    ProducerRun,
    StagedTopic,
    StageOrder,
    by_topic,
    decode_topic,
    encode_topic,
    is_unreached,
    plan_stage,
    stage_records,
    stage_topics,
)
from kafka_on_spark.spark.executors import SentToExecutors
from kafka_on_spark.spark.frames import kind_of
from kafka_on_spark.spark.source import warn_once
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"
_BATCH_NUMBER = "streaming.sql.batchId"

CLUSTERS_MAX: Final = 4
"""Clusters that a process has open: an image of a million partitions takes a gigabyte."""

_open: Final[dict[tuple[str, StorageOptions], Node]] = {}
"""By root and credentials; the least recently used is closed first."""

LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
"""The variable in which Spark tells its Python workers the driver's folders, with commas between
them."""

_FOLDER: Final = "kafka_on_spark"

_IMAGES: dict[tuple[str, str | None], MetadataImage] = {}
"""The last image that this worker has planned on, by metadata root and cluster id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What the tasks of a write get; each plans the topics that it finds in its rows.

    Attributes:
        image_offset: The metadata offset whose image all plan on.
        now_ms: Timestamp of records without one.
        topic: The option's topic, which has an order of its own; None: each row names its own.
        awaits: What a task waits for if it must read the metadata.
    """

    root: str
    storage: StorageOptions
    cluster_id: str | None
    image_offset: Offset
    acks: str
    has_producer: bool
    now_ms: int
    needs_min_isr: bool = True
    topic: str | None = None
    order: StageOrder | None = None
    awaits: Awaits = Awaits.NOTHING

    def order_of(self, image: MetadataImage, name: str) -> StageOrder:
        """Return the order for one topic on `image`, which is that of `image_offset`."""
        return plan_stage(
            image,
            image.topic(name),
            acks=self.acks,
            has_producer=self.has_producer,
            now_ms=self.now_ms,
            needs_min_isr=self.needs_min_isr,
        )

    def stage(
        self, batches: Iterator[pa.RecordBatch], producer: tuple[str, int] | None, task: int
    ) -> list[StagedTopic]:
        """Stage a task's rows. `producer`: its id and the append's sequence, or None."""
        if self.topic is None or self.order is None:

            def order_of(topic: str) -> StageOrder:
                return self._as_first_try(self.order_of(self._image(), topic), producer)

            return stage_topics(order_of, batches, self.storage, task_number=task)
        split = self._as_first_try(self.order, producer)
        rows = stage_records(split, input_batches(batches), self.storage, task_number=task)
        if not rows:
            return []
        count = len(split.targets)
        return [StagedTopic(topic=self.topic, partition_count=count, rows=tuple(rows))]

    def _as_first_try(self, order: StageOrder, producer: tuple[str, int] | None) -> StageOrder:
        """Return `order` for as many partitions as a try that stands in a log was split into.

        A task reads this without a fence. The driver asks again, behind a fence, and compares.
        """
        if producer is None or not order.was_resized:
            return order
        replicas = Worker(self.storage).replicas
        for target in order.targets:
            if not target.has_leader:
                continue
            try:
                log = replicas.open(target.replicas[0]).load()
            except (CorruptLogError, KafkaStorageError, ReplicaLostError):
                continue  # not created yet, or away: the driver will ask again
            count = partition_count_of(log, *producer)
            if count is not None:
                return replace(order, targets=order.targets[:count])
        return order

    def _image(self) -> MetadataImage:
        cluster = (self.root, self.cluster_id)
        known = _IMAGES.get(cluster)
        if known is None or known.offset != self.image_offset:
            known = awaiting(partial(self._image_at_plan, known), self.root, self.awaits)
            if known.cluster_id != self.cluster_id:
                raise ClusterNotFoundError(
                    f"the cluster {self.cluster_id} that the write was planned on is gone"
                    f" from {self.root}: write again"
                )
            _IMAGES[cluster] = known
        return known

    def _image_at_plan(self, known: MetadataImage | None) -> MetadataImage:
        metadata = metadata_service(self.root, self.storage)
        return metadata.image_at(self.image_offset, known)


class SharedRuns:
    """The epochs of one run of a query, by producer id. One worker at a time writes them.

    A file that can't be read or written is warned of, and no error: one worker needs none.
    """

    def __init__(self, run: str) -> None:
        first, _, _ = os.environ.get(LOCAL_DIRS, "").partition(",")
        self._path = Path(first, _FOLDER, f"{run}.json") if first else None

    def load(self) -> dict[str, OwnRun]:
        """Return what workers of this run have stored; nothing, if none has yet."""
        if self._path is None:
            return {}
        try:
            stored = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("the epochs of a query's run can't be read: %s", error)
            return {}
        return {producer_id: OwnRun(**each) for producer_id, each in stored.items()}

    def store(self, runs: Mapping[str, OwnRun]) -> None:
        if self._path is None:
            return
        stored = {producer_id: asdict(each) for producer_id, each in runs.items()}
        written = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(exist_ok=True)
            written.write_text(json.dumps(stored))
            written.replace(self._path)
        except OSError as error:
            log.warning("the epochs of a query's run can't be stored: %s", error)


def cached_node(
    root: str, options: StorageOptions, *, is_patient: bool = False
) -> tuple[Node, MetadataImage | None]:
    """Return the cluster at `root`, caught up, and the image that it had before; None: it was
    opened just now. `is_patient`: wait for a metadata root that is away. Raises as `open_node`."""
    place = (root, options)
    awaits = Awaits.ROOT if is_patient and place not in _open else Awaits.NOTHING
    known, before = _open.pop(place, None), None
    if known is not None:
        metadata = known.metadata
        before = metadata.image
        try:
            _ = metadata.catch_up_waiting() if is_patient else metadata.catch_up()
        except KafkaOnSparkError:
            known.close()
            known, before = None, None
    if known is None:
        known = open_node(root, options, awaits=awaits)
    _open[place] = known
    if len(_open) > CLUSTERS_MAX:
        _open.pop(next(iter(_open))).close()
    return known, before


@dataclass
class StagedMessage(WriterCommitMessage):
    """What a task has staged, as JSON by topic; its query, the metadata offset of the plan, and the
    host that wrote the files."""

    task: int
    topics: list[str]
    query_id: str | None
    image_offset: int
    host: str = ""


def _check(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, is_stream: bool
) -> SinkOptions:
    if overwrite:
        raise InvalidRequestError(
            "output mode complete is not allowed: a log is only appended to; use mode append"
            if is_stream
            else "save mode overwrite is not allowed: a log is only appended to, and the one save"
            ' mode is .mode("append"), which Spark wants to be named'
        )
    options = parse_sink(given, is_stream=is_stream)
    # The option wins over a column `topic`, of whatever type that is.
    columns = [
        (field.name, kind_of(field.dataType))
        for field in schema.fields
        if options.topic is None or field.name != "topic"
    ]
    check_columns(columns, has_topic=options.topic is not None)
    for warning in options.warnings:
        warn_once(warning)
    return options


def _place(options: SinkOptions) -> tuple[str, StorageOptions]:
    return cluster_url(options.cluster), StorageOptions(options.storage)


def _plan(
    metadata: MetadataService, options: SinkOptions, *, has_producer: bool, is_stream: bool
) -> WritePlan:
    """Return a plan on the newest image; nothing is written, no epoch taken. Raises as
    `plan_topics`.

    A stream's batch waits for in-sync replicas when it is appended, and is staged without.
    """
    image, (root, storage) = metadata.image, _place(options)
    plan = WritePlan(
        root=root,
        storage=storage,
        cluster_id=image.cluster_id,
        image_offset=image.offset,
        acks=options.acks,
        has_producer=has_producer,
        now_ms=metadata.clock.now_ms(),
        needs_min_isr=not is_stream,
        topic=options.topic,
        awaits=Awaits.CLUSTER if is_stream else Awaits.NOTHING,
    )
    if options.topic is None:
        return plan
    return replace(plan, order=plan.order_of(image, options.topic))


def _stage(
    plan: WritePlan, batches: Iterator[pa.RecordBatch], producer: tuple[str, int] | None
) -> StagedMessage:
    context = TaskContext.get()
    assert context is not None
    task = context.partitionId()
    return StagedMessage(
        task=task,
        topics=[encode_topic(each) for each in plan.stage(batches, producer, task)],
        query_id=context.getLocalProperty(_QUERY_ID),
        image_offset=plan.image_offset,
        host=socket.gethostname(),
    )


def _reached_elsewhere(messages: Sequence[StagedMessage]) -> frozenset[BrokerId]:
    """Return the brokers whose roots tasks on other hosts have written to: if this process can't
    reach one, the fault may be its own."""
    here = socket.gethostname()
    elsewhere = _answers([each for each in messages if each.host != here])
    return frozenset(
        holder for answer in elsewhere for row in answer.rows for holder in row.holders
    )


def _answers(messages: Sequence[StagedMessage]) -> list[StagedTopic]:
    """Return what tasks have staged, in task order, which is the order of offsets."""
    ordered = sorted(messages, key=lambda message: message.task)
    return [decode_topic(text) for message in ordered for text in message.topics]


def _append(
    node: Node,
    options: SinkOptions,
    messages: Sequence[StagedMessage],
    producer: ProducerRun | None,
    writer: WriterFence | None,
    image_offset: Offset,
    known: MetadataImage,
    *,
    is_stream: bool,
) -> list[AppendResult]:
    """Append what tasks have staged, all topics at once; return what each topic got.

    `image_offset`: the metadata offset of the plan. `known`: an image, perhaps an older one.
    """
    given = _answers(messages)
    if options.acks == "0" and is_unreached([row for each in given for row in each.rows]):
        return []  # acks=0 waits for no errors
    answers = by_topic(given)
    for name in options.expected_offsets:  # a topic that only a condition names
        answers.setdefault(name, StagedTopic(topic=name, partition_count=0, rows=()))
    if not answers:
        return []
    plans = plan_topics(
        node,
        node.metadata.image_at(image_offset, known),
        {name: each.partition_count for name, each in answers.items()},
        acks=options.acks,
        producer=producer,
        writer=writer,
        expected_offsets=options.expected_offsets,
        may_decide=options.may_decide,
    )
    append = partial(
        append_staged,
        node,
        [(plan, each.rows) for plan, each in zip(plans, answers.values(), strict=True)],
        reached_elsewhere=_reached_elsewhere(messages),
    )
    if not is_stream:
        return append()
    return append_when_in_sync(
        append,
        node.metadata.catch_up_waiting,
        node.clock,
        timeout_ms=min(plan.timeout_ms for plan in plans),
    )


class BatchWriter(SentToExecutors, DataSourceArrowWriter):
    """Appends one DataFrame."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        options = _check(given, schema, overwrite=overwrite, is_stream=False)
        node, _ = cached_node(*_place(options))
        producer_id = producer_of(options.producer_id, options.sequence, options.transactional_id)
        check_producer(producer_id, options.producer_epoch, options.sequence)
        self._options = options
        has_producer = producer_id is not None
        self._plan = _plan(node.metadata, options, has_producer=has_producer, is_stream=False)
        runs = ProducerRuns(node)  # each write is a run of its own
        self._writer = runs.take_over(options.transactional_id)
        self._producer = None
        if producer_id is not None and options.sequence is not None:
            begins = NextAppend(
                producer_id=producer_id,
                sequence=options.sequence,
                producer_epoch=options.producer_epoch,
            )
            self._producer = runs.begin(begins)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        run = self._producer
        producer = None if run is None else (run.producer_id, run.sequence)
        return _stage(self._plan, iterator, producer)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append what the tasks have staged, on the driver's host."""
        staged = [each for each in messages if isinstance(each, StagedMessage)]
        options = self._options
        node, known = cached_node(*_place(options))
        is_first = node.made(AppendThreads) is None
        planned = self._plan.image_offset
        results = _append(
            node,
            options,
            staged,
            self._producer,
            self._writer,
            planned,
            node.metadata.image if known is None else known,
            is_stream=False,
        )
        for each in results:  # Spark returns nothing to the caller, who wants to know
            log.log(logging.WARNING if each.is_duplicate else logging.INFO, "%s", each)
        if is_first:
            # The process is new, and its application may end with this write: maintenance that is
            # due would always be left to the next one.
            node.maintenance.finish()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave everything as it is: files that no commit names do no harm."""


_RUNS: dict[str, Node] = {}
"""The node of each run of a query that this process appends for, one at a time as a rule."""

_RUNS_MAX = 8


class StreamWriter(SentToExecutors, DataSourceStreamArrowWriter):
    """Appends a query's batches, each once.

    `run`: the name of one run of a query, the same for all writers that append its batches, in
    whichever worker. So a run is one writer: it takes its epochs once, and a run that takes over
    fences it for good.
    """

    def __init__(
        self, given: Mapping[str, str], schema: StructType, *, overwrite: bool, run: str
    ) -> None:
        self._options = _check(given, schema, overwrite=overwrite, is_stream=True)
        self._run = run
        self._plan: WritePlan | None = None
        # The process that appends the run's batches has its node: the plan comes with the rows.
        if run not in _RUNS:
            node, _ = cached_node(*_place(self._options), is_patient=True)
            self._plan = _plan(node.metadata, self._options, has_producer=True, is_stream=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        assert self._plan is not None, "the writer that tasks get has a plan"
        query_id = context.getLocalProperty(_QUERY_ID)
        number = context.getLocalProperty(_BATCH_NUMBER)
        # Without them, `commit` refuses the batch.
        producer = None
        if query_id is not None and number is not None:
            producer = _producer_of(query_id), int(number)
        return _stage(self._plan, iterator, producer)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Append a batch under its number, or find that it was appended before.

        Raises:
            DuplicateSequenceError: It was, with other records.
            UnknownProducerIdError: It was, and nobody knows any more with which records.
            And as `append_staged`.
        """
        staged = [each for each in messages if isinstance(each, StagedMessage) and each.topics]
        if not staged:
            return  # a batch without records, perhaps without a task
        query_id = next((each.query_id for each in staged if each.query_id), None)
        if query_id is None:
            raise InvalidRequestError(
                "a stream's batch came without its query id: set checkpointLocation"
            )
        node = self._node()
        known = node.metadata.image
        node.metadata.catch_up_waiting()
        shared, producers = SharedRuns(self._run), node.part(ProducerRuns)
        producers.adopt(shared.load())
        writer = producers.take_over(self._options.transactional_id)
        producer = producers.begin(
            NextAppend(
                producer_id=_producer_of(query_id),
                sequence=batchId,
                expired_below=self._options.producer_epoch,
            )
        )
        shared.store(producers.own)
        planned = Offset(staged[0].image_offset)
        _append(node, self._options, staged, producer, writer, planned, known, is_stream=True)

    def _node(self) -> Node:
        if self._run not in _RUNS:
            while len(_RUNS) >= _RUNS_MAX:  # of queries that have ended
                _RUNS.pop(next(iter(_RUNS))).close()
            _RUNS[self._run] = open_node(*_place(self._options), awaits=Awaits.CLUSTER)
        return _RUNS[self._run]

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave everything as it is: files that no commit names do no harm."""


def _producer_of(query_id: str) -> str:
    return f"spark-{query_id}"
