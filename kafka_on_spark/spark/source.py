"""Reads of ``format("kafka_on_spark")``: readers of batches and streams.

Thin over `consume/`: options, offsets, plans. Readers are created in planner workers
and pickled to executors, so they hold values only and open what they need. The reader of files is
imported where files are read, since a query waits for the process that plans it. A task writes in
two cases: it compacts a leader that can't be read before, and it reports a replica that is bad.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # an older Spark, on which `check_stream` refuses streams
    ReadAllAvailable = ReadLimit = ReadMaxRows = ReadMinRows = object  # type: ignore[misc,assignment]
    SupportsTriggerAvailableNow = object  # type: ignore[misc,assignment]

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition
from kafka_on_spark.consume.options import SourceOptions
from kafka_on_spark.consume.query_batch import (
    Bound,
    DataLoss,
    Ends,
    StreamOffset,
    available,
    bounded,
    check_order,
    check_within_logs,
    committed_ends,
    could_not_read,
    is_delayed,
    plan_ranges,
    resolve,
    save_group,
    split_ranges,
)
from kafka_on_spark.consume.subscription import partitions_of
from kafka_on_spark.groups.offsets import cuts_after
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.read_order import ReadOrder, of_cut
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.opening import Awaits, open_metadata
from kafka_on_spark.observe.metadata_as_of import image_as_of
from kafka_on_spark.spark.executors import SentToExecutors
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.node.node import Node

log = logging.getLogger(__name__)

GROUP_COMMIT_TIMEOUT_MS = 5_000
"""How long a query waits for a commit of its group's offsets, which people and restarts use."""

GROUP_RETRY_MS = 5_000
"""Pause after a failed commit of a group's offsets: Spark asks for data every few milliseconds."""

GROUP_CHECK_MS = 10_000
"""How often an idle query looks whether its group's offsets must be saved again, to live on."""


@lru_cache(maxsize=256)
def warn_once(sentence: str) -> None:
    """Log a warning once in this process, which serves a query as long as the query runs."""
    log.warning(sentence)


class PartitionRange(InputPartition):
    """A range of one partition: one task."""

    def __init__(self, order: ReadOrder) -> None:
        super().__init__(order.name.partition)
        self.order = order


class Reading:
    """What both readers share: options, metadata, and the executors' half."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.storage = StorageOptions(options.storage)
        for warning in options.warnings:
            warn_once(warning)

    def open_metadata(self, awaits: Awaits) -> MetadataService:
        return open_metadata(cluster_url(self.options.cluster), self.storage, awaits=awaits)

    def resolve(
        self,
        metadata: MetadataService,
        bound: Bound,
        option: str,
        then: MetadataImage | None = None,
    ) -> StreamOffset:
        """Return the offsets that an option means in the newest image, or in one of the past."""
        now = metadata.image
        image = now if then is None else then

        def look_up(asked: Sequence[tuple[PartitionKey, int]]) -> list[Offset | None]:
            # In the function: the process that plans a stream needs no replicas.
            from kafka_on_spark.log.reading import look_up_offsets

            return look_up_offsets(now, image, asked, self.storage, self.options.client_rack)

        return resolve(
            image,
            partitions_of(image, self.options.subscription),
            bound,
            option=option,
            look_up=look_up,
            loss=self.loss(metadata),
        )

    def loss(self, metadata: MetadataService, *, fails_query: bool | None = None) -> DataLoss:
        """Return what the query does if records are gone (None: as its options say). Where unclean
        elections have cut, the metadata log says."""
        return DataLoss(
            self.options.fails_on_data_loss if fails_query is None else fails_query,
            lambda generations: cuts_after(metadata.pieces_newest_first(), generations),
        )

    def committed_ends(self, image: MetadataImage) -> dict[TopicPartition, int]:
        wanted = partitions_of(image, self.options.subscription, fails_on_missing=False)
        return committed_ends(image, wanted)

    def ranges(
        self,
        metadata: MetadataService,
        start: StreamOffset,
        end: StreamOffset,
        then: MetadataImage | None = None,
    ) -> list[PartitionRange]:
        """Return the tasks between two positions; only partitions with records become one. `then`:
        the image of the past that is read."""
        rack, loss = self.options.client_rack, self.loss(metadata)
        orders = plan_ranges(metadata.image, start, end, loss, client_rack=rack)
        for each in loss.passed_over[:1]:
            warn_once(f"data loss is passed over, as failOnDataLoss is false: {each}")
        if then is not None:
            orders = [of_cut(order, then, metadata.image) for order in orders]
        options = self.options
        parts = split_ranges(orders, tasks_min=options.tasks_min, records_max=options.records_max)
        log.info(
            "%d records of %d partitions are read by %d tasks, as committed at metadata offset %d",
            sum(order.end_offset - order.start_offset for order in orders),
            len(orders),
            len(parts),
            metadata.image.offset,
        )
        return [PartitionRange(order) for order in parts]

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows; if no task was planned, Spark asks once, with None."""
        from kafka_on_spark.controller.inspections import Finding, SecondInspections
        from kafka_on_spark.log.evidence import is_evidence
        from kafka_on_spark.log.reading import read_rows

        if partition.value is None:
            return
        assert isinstance(partition, PartitionRange)
        order = partition.order
        log.debug("reads %s from %d to %d", order.name, order.start_offset, order.end_offset)
        found = []

        def note(
            address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
        ) -> None:
            if is_evidence(error):
                found.append(Finding.of(address, segment))

        def record_findings(node: "Node") -> None:
            for each in found:
                node.part(SecondInspections).record_finding(each)

        try:
            yield from read_rows(
                order,
                Worker(self.storage).replicas,
                self.storage,
                has_headers=self.options.has_headers,
                note=note,
                on_deleted=self.fail_or_pass_deleted,
                # A reader of the past compacts nothing.
                finish_compaction=None if self.options.as_of else self.finish_compaction,
            )
        finally:
            if found:
                self._do(record_findings)

    def finish_compaction(self, order: ReadOrder) -> None:
        """Compact a leader that can't be read before, after an unclean election, say; if that
        fails, the read that finds it as it was says so, too."""
        from kafka_on_spark.controller.replication_round import finish_compaction

        log.info("%s is compacted before it is read", order.name)
        self._do(lambda node: finish_compaction(node, order))

    def _do(self, work: "Callable[[Node], None]") -> None:
        """Open the cluster for work of a task that reads; a failure is logged. As it closes, what
        was found bad is inspected a second time."""
        from kafka_on_spark.node.node import open_node

        try:
            with closing(open_node(cluster_url(self.options.cluster), self.storage)) as node:
                work(node)
        except KafkaOnSparkError as error:
            log.warning("a task that reads could not report or compact a replica: %s", error)

    def fail_or_pass_deleted(
        self, order: ReadOrder, first: Offset, log_start_offset: Offset
    ) -> None:
        """Fail a task whose records were deleted since it was planned, or say what it misses."""
        last, why = min(log_start_offset, order.end_offset), f"its log starts at {log_start_offset}"
        loss = could_not_read(order.name, first, last, f"{why} by now")
        if self.options.fails_on_data_loss:
            raise loss
        warn_once(f"data loss is passed over, as failOnDataLoss is false: {loss}")


class BatchReader(SentToExecutors, DataSourceReader):
    """Reads one consistent cut, of now or of the past."""

    def __init__(self, options: SourceOptions) -> None:
        self._reading = reading = Reading(options)
        metadata = reading.open_metadata(Awaits.NOTHING)
        then = None
        if options.as_of is not None:
            value, option = options.as_of.value, options.as_of.option
            at = Offset(value) if option == "asOfMetadataOffset" else metadata.log.offset_at(value)
            then = image_as_of(metadata, at, f"option {option!r} can't be {value}")
        start = reading.resolve(metadata, options.starting, "startingOffsets", then)
        end = reading.resolve(metadata, options.ending, "endingOffsets", then)
        image = metadata.image if then is None else then
        check_order(image, start, end)
        if options.fails_on_data_loss:
            check_within_logs(image, end)
        self._ranges = reading.ranges(metadata, start, end, then)

    def partitions(self) -> Sequence[InputPartition]:
        return self._ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.rows(partition)


class StreamReader(SentToExecutors, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is committed, batch by batch. Lives in one Python process per query run."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reading = Reading(options)
        self._metadata: MetadataService | None = None
        self._initial: dict[str, Any] | None = None
        self._first_ends: Ends | None = None
        self._available_now: Ends | None = None
        self._reported: StreamOffset | None = None
        self._idle: tuple[MetadataImage, dict[str, Any]] | None = None
        self._last_trigger_ms: int | None = None
        self._group_retry_at_ms: int | None = None
        self._group_check_at_ms = 0

    def __getstate__(self) -> dict[str, Any]:
        # Executors get a copy: they open what they need.
        return {**self.__dict__, "_metadata": None, "_idle": None}

    def _caught_up(self, awaits: Awaits = Awaits.CLUSTER) -> MetadataService:
        """Return the metadata, caught up; a stream waits for an absent root, also at its start: a
        stream that has offsets has seen a cluster there."""
        if self._metadata is None:
            self._metadata = self._reading.open_metadata(awaits)
        else:
            self._metadata.catch_up_waiting()
        return self._metadata

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the options' limits; Trigger.Once asks for everything instead."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins; Spark asks twice, so it is decided once. The first batch
        ends where the logs do now, see `_take_first_ends`."""
        if self._initial is None:
            metadata, starting = self._caught_up(Awaits.ROOT), self._options.starting
            offset = self._reading.resolve(metadata, starting, "startingOffsets")
            self._initial = offset.to_json()
            self._first_ends = self._reading.committed_ends(metadata.image)
        return self._initial

    def _take_first_ends(self, since: StreamOffset) -> Ends | None:
        """Return, once, where the first batch of a new query ends at most; None: another batch.

        Spark stores where a batch ends, but not where the first one begins: a query that fails
        before it has stored an offset decides "latest" again, and skips what came meanwhile. So the
        first batch from "latest" is empty: it has Spark store that offset.
        """
        first, self._first_ends = self._first_ends, None
        if first is None or self._initial is None or since != StreamOffset.from_json(self._initial):
            return None
        return first if self._available_now is None else bounded(first, self._available_now)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of an AvailableNow query: what is committed now."""
        # latestOffset reports missing partitions, with the offsets that the query had read to.
        self._available_now = self._reading.committed_ends(self._caught_up(Awaits.ROOT).image)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next batch's end, or `start` itself if nothing of the query has moved."""
        metadata = self._caught_up()
        image, options = metadata.image, self._options
        if self._is_idle(start, image):
            return start  # Spark asks every few milliseconds
        since = StreamOffset.from_json(start)
        first_ends = self._take_first_ends(since)
        found = available(
            image,
            since,
            options.subscription,
            self._reading.loss(metadata),
            fixed_ends=self._available_now if first_ends is None else first_ends,
        )
        self._reported = StreamOffset.in_image(image, found.ends)
        self._save_group(metadata, since)
        if not found.is_moved:
            # Not the image after the group's commit: that may have changes this call has not seen.
            self._idle = (image, start) if first_ends is None else None
            return start
        is_limited = not isinstance(limit, ReadAllAvailable)
        # Of an AvailableNow query no more will become available: to wait would end it.
        may_wait = is_limited and not found.has_loss and self._available_now is None
        if may_wait and is_delayed(
            options.limits,
            found.record_count,
            now_ms=_monotonic_ms(),
            last_trigger_ms=self._last_trigger_ms,
        ):
            return start
        self._last_trigger_ms = _monotonic_ms()
        return found.offset(image, options.limits.max_offsets if is_limited else None).to_json()

    def _is_idle(self, start: dict[str, Any], image: MetadataImage) -> bool:
        """Return whether the last call saw the same image and start, and nothing is left to do."""
        if self._idle is None or self._idle[0] is not image or self._idle[1] != start:
            return False
        if self._options.group is None:
            return True
        retry_at_ms = self._group_retry_at_ms
        due_at_ms = self._group_check_at_ms if retry_at_ms is None else retry_at_ms
        return _monotonic_ms() < due_at_ms

    def _save_group(self, metadata: MetadataService, processed: StreamOffset) -> None:
        """Save the group's offsets: Spark asks for what comes after `processed`."""
        group, retry_at_ms = self._options.group, self._group_retry_at_ms
        if group is None or (retry_at_ms is not None and _monotonic_ms() < retry_at_ms):
            return
        try:
            loss = self._reading.loss(metadata, fails_query=False)
            kept = loss.checked(metadata.image, processed)
            decide = partial(save_group, group=group, offset=kept, now_ms=metadata.clock.now_ms())
            moved = metadata.submit(decide, timeout_ms=GROUP_COMMIT_TIMEOUT_MS)
            if moved:
                metadata.maintain()
        except KafkaOnSparkError as error:
            # The query has its own offsets; a later call commits the group's again, and fails each
            # time while the group has members.
            level = logging.WARNING if retry_at_ms is None else logging.INFO
            log.log(level, "the offsets of group %r were not committed: %s", group, error)
            self._group_retry_at_ms = _monotonic_ms() + GROUP_RETRY_MS
        else:
            self._group_retry_at_ms = None
            self._group_check_at_ms = _monotonic_ms() + GROUP_CHECK_MS

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the committed ends, before limits, for the query's progress."""
        return None if self._reported is None else self._reported.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch; after a restart Spark calls this first."""
        return self._reading.ranges(
            self._caught_up(), StreamOffset.from_json(start), StreamOffset.from_json(end)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.rows(partition)


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000)
