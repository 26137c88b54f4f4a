"""One round of replication: plan fetches, have them done, decide once for all partitions.

Only partitions with work are visited: a high watermark below the recorded log end, a replica
out of the ISR, a reassignment. A full sweep now and then finds what nobody recorded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_on_spark.controller.replication import conclude
from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.errors import ERROR_NAME_BY_CODE, NO_ERROR
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicId, TopicPartition, listed
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.fetch_answers import refusal_of, refusals
from kafka_on_spark.service.fetch_pace import FetchPace, PacedOrders
from kafka_on_spark.service.fetch_reports import merge_reports
from kafka_on_spark.service.making import (
    MakeOrder,
    MakeResult,
    record_made,
    renew_lost,
    unmade_replicas,
)
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.replication import FetchOrder, FetchResult
from kafka_on_spark.service.second_look import SecondLooks

RunFetches = Callable[[Sequence[FetchOrder]], list[FetchResult]]
RunMakes = Callable[[Sequence[MakeOrder]], list[MakeResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationReport:
    """What one round did.

    Attributes:
        partition_count: Partitions visited.
        copied_records: Records committed to followers.
        copied_bytes: The same in bytes of segments.
        truncated_records: Records cut from followers, all of them uncommitted.
        isr_changes: How many ISRs changed.
        failures: What went wrong, in words, by partition and broker.
        is_caught_up: No partition has a follower behind, or one out of the ISR.
        left_out: Fetches that wait: for the end of a back-off, or for a newer leadership.
        resume_after_ms: How long until a round can do more than one now: a back-off ends, or a
            throttle lets bytes through. None: nothing waits for time.
    """

    partition_count: int = 0
    copied_records: int = 0
    copied_bytes: int = 0
    truncated_records: int = 0
    isr_changes: int = 0
    failures: tuple[str, ...] = ()
    is_caught_up: bool = True
    left_out: int = 0
    resume_after_ms: float | None = None


class ReplicationRound:
    """Plans and concludes rounds; the fetches run wherever the caller has them run.

    `looks`: what this process has found bad, and looks at again before a round returns. `pace`
    remembers back-offs and throttles from round to round; None: every round does all
    that there is. `call`: settings that win over the topics' and the cluster's.
    """

    def __init__(
        self,
        metadata: MetadataService,
        *,
        run_fetches: RunFetches,
        run_makes: RunMakes,
        new_uuid: Callable[[], str],
        timeout_ms: int,
        looks: SecondLooks,
        pace: FetchPace | None = None,
        call: Mapping[str, str] | None = None,
    ) -> None:
        self._metadata = metadata
        self._run_fetches = run_fetches
        self._run_makes = run_makes
        self._new_uuid = new_uuid
        self._timeout_ms = timeout_ms
        self._looks = looks
        self._pace = pace
        self._call = call or {}

    def run(
        self, topics: str | Iterable[str] | None = None, *, is_sweep: bool = False
    ) -> ReplicationReport:
        """Do one round over `topics`, or one, or all. `is_sweep`: over every partition.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        deadline_ms = self._looks.now_ms() + self._timeout_ms
        image = self._metadata.catch_up()
        names = None if topics is None else _topic_ids(image, topics)
        self._metadata.submit(
            lambda newest: renew_lost(newest, self._new_uuid), timeout_ms=self._timeout_ms
        )
        image = self._metadata.image
        partitions = image.partitions() if is_sweep else image.unsettled_partitions()
        keys = [
            key
            for key, partition in partitions
            if (names is None or key.topic_id in names) and (is_sweep or has_work(partition))
        ]
        self.make_replicas(keys)
        image = self._metadata.image
        planned = [order for key in keys for order in plan_fetches(image, key, is_sweep=is_sweep)]
        paced = PacedOrders(tuple(planned))
        if self._pace is not None:
            paced = self._pace.plan(image, planned, self._call, is_sweep=is_sweep)
        results = self._run_fetches(paced.orders) if paced.orders else []
        reports = merge_reports([each.report for each in results])
        self._looks.note(reports)
        changes = self.conclude(reports)
        if self._pace is not None:
            self._pace.settle(self._metadata.image, paced.orders, results, self._call)
        changes += self._looks.finish(
            self._run_fetches, deadline_ms=None if is_sweep else deadline_ms
        )
        return self._report(keys, paced, results, changes)

    def make_replicas(self, keys: Iterable[PartitionKey]) -> list[MakeResult]:
        """Make what was never made of `keys`' replicas; one commit for all."""
        orders = unmade_replicas(self._metadata.image, keys)
        if not orders:
            return []
        results = self._run_makes(orders)
        made = [each.address for each in results if each.error_code == NO_ERROR]
        self._metadata.submit(lambda image: record_made(image, made), timeout_ms=self._timeout_ms)
        return results

    def conclude(self, reports: Sequence[PartitionReport]) -> int:
        """Commit what `reports` lead to, all partitions at once; return the ISR changes."""
        return self._metadata.submit(
            lambda image: conclude(image, reports), timeout_ms=self._timeout_ms
        )

    def _report(
        self,
        keys: Sequence[PartitionKey],
        paced: PacedOrders,
        results: Sequence[FetchResult],
        changes: int,
    ) -> ReplicationReport:
        image = self._metadata.image
        partitions = [image.partition(key) for key in keys]
        return ReplicationReport(
            partition_count=len({order.key for order in paced.orders}),
            copied_records=sum(each.copied_records for each in results),
            copied_bytes=sum(each.copied_bytes for each in results),
            truncated_records=sum(each.truncated_records for each in results),
            isr_changes=changes,
            failures=tuple(_failures(image, paced.orders, results)),
            is_caught_up=not any(each is not None and has_work(each) for each in partitions),
            left_out=paced.left_out,
            resume_after_ms=paced.resume_after_ms,
        )


def has_work(partition: PartitionRegistration) -> bool:
    """Return whether replication has something to do for a partition."""
    return (
        partition.high_watermark < partition.log_end_offset
        or partition.is_under_replicated
        or partition.is_reassigning
    )


def plan_fetches(
    image: MetadataImage, key: PartitionKey, *, is_sweep: bool = False
) -> list[FetchOrder]:
    """Return the fetches that a partition needs: one a follower; at least a look at the leader.

    A partition without a leader, or whose leader was never made, has nothing to fetch from.
    """
    partition = image.partition(key)
    if partition is None or partition.leader is None or not partition.is_made(partition.leader):
        return []
    leader = address_of(image, key, partition, partition.leader)
    is_behind = is_sweep or partition.high_watermark < partition.log_end_offset
    followers: list[BrokerId | None] = [
        broker_id
        for broker_id in partition.replicas
        if broker_id != partition.leader
        and partition.is_made(broker_id)
        and image.brokers[broker_id].is_online
        and (is_behind or broker_id not in partition.isr)
    ]
    if not followers and is_behind:
        followers = [None]
    return [
        FetchOrder(
            key=key,
            partition=partition,
            leader=leader,
            follower=None if each is None else address_of(image, key, partition, each),
            fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
        )
        for each in followers
    ]


def _topic_ids(image: MetadataImage, topics: str | Iterable[str]) -> set[TopicId]:
    names = [topics] if isinstance(topics, str) else listed(topics, "topics", "names")
    return {image.topic(name).topic_id for name in names}


def _failures(
    image: MetadataImage, orders: Sequence[FetchOrder], results: Sequence[FetchResult]
) -> Iterable[str]:
    seen = set()
    for order, result in zip(orders, results, strict=True):
        for refused in refusals(result):
            place = (order.key, refused.broker_id)
            if place in seen:
                continue
            seen.add(place)
            topic = image.topics.get(order.key.topic_id)
            name = TopicPartition("deleted" if topic is None else topic.name, order.key.partition)
            code, words = refusal_of(image, order, refused)
            error_name = ERROR_NAME_BY_CODE.get(code, "UNKNOWN")
            yield f"{name} on broker {refused.broker_id}: {error_name}: {words}"
