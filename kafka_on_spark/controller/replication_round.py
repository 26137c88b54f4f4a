"""One round of replication: plan fetches, run them, and decide once for all partitions.

A round visits the partitions with work: a high watermark below the recorded log end, a replica out
of the ISR, a reassignment. It also inspects a slice of all partitions, to find what no record says.
What there is much to copy of is copied in waves, each with a decision: a fetch that copied for
hours would keep all other followers out of the ISR, and all high watermarks where they are. The
fetches of a wave have the same time, not the same bytes: none waits for a slow root.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import inf
from operator import attrgetter
from typing import Final

from kafka_on_spark.base.config import check_settings
from kafka_on_spark.base.errors import ERROR_NAME_BY_CODE
from kafka_on_spark.base.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.controller.brokers import note_refused
from kafka_on_spark.controller.election import recreate_lost, take_back_lost
from kafka_on_spark.controller.failures import Failures
from kafka_on_spark.controller.fetch_plan import (
    Fetcher,
    FetchPace,
    fetcher_of,
    keys_to_fetch,
    lacks_leader_table,
    needs_fetch,
    plan_fetches,
    refusal_of,
    refusals,
)
from kafka_on_spark.controller.inspections import LostReplicaInspector, SecondInspections
from kafka_on_spark.controller.isr import awaiting_compaction, conclude
from kafka_on_spark.controller.probes import REFUSAL_CODES, probe, probe_orders, refused_writes
from kafka_on_spark.controller.replica_tables import create_replicas
from kafka_on_spark.controller.scheduler import Scope, SweepRound, scheduler, scope_of
from kafka_on_spark.controller.upkeep import Upkeep
from kafka_on_spark.log.fetch import (
    FetchOrder,
    FetchResult,
    fetch_orders,
    fetch_task,
    inspect_partition_task,
    merge_reports,
)
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.metadata.image import MetadataImage, submit_if_due
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaReport
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.counts import REPLICATION_BYTES_IN, REPLICATION_MESSAGES_IN, ROUND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationReport:
    """What one round did.

    Attributes:
        partition_count: Partitions visited because they had work; of a sweep, all.
        slice_count: Partitions inspected in the slice, whether or not they had work.
        not_looked_at: Partitions that were not inspected within `replica.sweep.interval.ms` by
            this round or another; whose last inspection failed, or had no fetch to run; or that
            have no leader.
        copied_records: Records committed to followers; `copied_bytes` of segments.
        truncated_records: Records cut from followers, all of them uncommitted.
        failures: What went wrong, in words, by partition and broker.
        is_caught_up: By the metadata after the round, no partition has a follower behind or out of
            the ISR; and all replicas were inspected within the interval.
        resume_after_ms: How long until a round can do more than now: a back-off ends, or a throttle
            lets bytes through; 0: its time to copy was over. None: nothing waits for time.
    """

    partition_count: int = 0
    slice_count: int = 0
    not_looked_at: int = 0
    copied_records: int = 0
    copied_bytes: int = 0
    truncated_records: int = 0
    isr_changes: int = 0
    failures: tuple[str, ...] = ()
    is_caught_up: bool = True
    resume_after_ms: float | None = None


FETCH_MS_MAX: Final = 5_000
"""For how long one fetch copies in a wave."""

WAVE_MS_MAX: Final = 8 * FETCH_MS_MAX
"""For how long all fetches of a wave copy together, unless they are so many that a commit of each
takes longer: a thousand large copies on a few cores would else take twenty minutes a wave."""


class ReplicationRound:
    """One round of a process: it plans fetches and inspections, and commits what they lead to.

    Replicas that were found bad are inspected again before it returns. `configs` win over the
    settings of topics and of the cluster.

    Attributes:
        inspected: The partitions of its slice, once it has run.

    Raises:
        InvalidConfigError: One is unknown or its value not allowed.
    """

    def __init__(self, node: Node, configs: Mapping[str, object] | None = None) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.clock
        self._sweep = node.part(scheduler)
        self._pace = node.part(FetchPace)
        self._second_inspections = node.part(SecondInspections)
        self._overrides = check_settings(configs or {}, topic_only=False)
        self.inspected: set[PartitionKey] = set()
        self._scope: Scope
        self._slice: SweepRound
        self._until_ms = inf  # the first wave of copies that ends after that is the last
        self._is_last_wave = False
        self._left: dict[Fetcher, int] = {}  # bytes that copies have left for the next wave
        self._copied_records = self._copied_bytes = self._truncated_records = 0
        self._isr_changes = 0
        self._failures: dict[tuple[PartitionKey, BrokerId], str] = {}
        self._uncompacted: dict[PartitionKey, list[BrokerId]] = {}  # may join once compacted
        self._waits_ms: list[float | None] = []  # of each back-off and throttle

    def run(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_sweep: bool = False,
        copy_ms_max: float = inf,
    ) -> ReplicationReport:
        """Run one round over `topics`, one topic, or all. `is_sweep`: inspect all partitions now.

        `copy_ms_max`: the first wave of copies that ends after that is the last; what is left then
        is left to the next round.
        """
        as_of_ms = self._clock.monotonic_ms()
        deadline_ms = as_of_ms + self._node.timeout_ms
        image = self._metadata.catch_up()
        self._scope = scope_of(image, topics)
        if is_sweep:
            whole = self._node.part(LostReplicaInspector).inspect(image)
            self._node.submit(lambda newest: take_back_lost(newest, whole))
        submit_if_due(
            self._metadata.image,
            lambda newest: recreate_lost(newest, self._node.ids.new_uuid),
            self._node.submit,
        )
        self._slice = self._begin_sweep(as_of_ms=as_of_ms, is_all=is_sweep)
        image = self._metadata.image
        self._until_ms = self._clock.monotonic_ms() + copy_ms_max
        due = self._slice.next_keys()
        keys = due if is_sweep else keys_to_fetch(image, self._scope)
        create_replicas(self._node, keys)
        if not is_sweep:
            image = self._metadata.image
            self._fetch({key: plan_fetches(image, key) for key in keys})
        self.inspected = self._inspect(due)
        if self._uncompacted:
            self._have_compacted(self._uncompacted)
        if self._metadata.suspects or self._second_inspections.failing:
            self._isr_changes += self._second_inspections.finish(
                self._run, deadline_ms=None if is_sweep else deadline_ms
            )
        self._sweep.keep(image, self._scope, self._slice)
        return self._report(keys, self.inspected)

    def _begin_sweep(self, *, as_of_ms: int, is_all: bool) -> SweepRound:
        """Return the round's slice, by an image that is as new as the inspections that it counts.

        An inspection leaves out what is offline by its own image. By an older one, which this
        process had when it fell asleep, that is in sync, and nobody has read it.
        """
        while True:
            image = self._metadata.image
            settings = image.settings().over(self._overrides)
            begun = self._sweep.begin(
                image, self._scope, settings, as_of_ms=as_of_ms, is_all=is_all
            )
            if not begun.is_ahead_of(as_of_ms):
                return begun
            as_of_ms = self._clock.monotonic_ms()
            self._metadata.catch_up()

    def _have_compacted(self, waiting: Mapping[PartitionKey, list[BrokerId]]) -> None:
        """Have followers compacted that wait for nothing else, and fetch again, so that they join
        (I27)."""
        if not self._node.part(Upkeep).compact_followers(waiting):
            return
        image = self._metadata.image
        self._fetch({key: plan_fetches(image, key) for key in waiting})

    def _inspect(self, due: list[PartitionKey]) -> set[PartitionKey]:
        inspected: set[PartitionKey] = set()
        while due:
            started_ms = self._clock.monotonic_ms()
            image = self._metadata.image
            lacking = [key for key in due if lacks_leader_table(image.partition(key))]
            create_replicas(self._node, lacking)
            image = self._metadata.image
            plans = {key: plan_fetches(image, key, is_inspection=True) for key in due}
            failed = self._fetch(plans, is_inspection=True)
            took_ms = self._clock.monotonic_ms() - started_ms
            self._slice.record_inspected(due, failed=failed, took_ms=took_ms)
            inspected.update(due)
            due = self._slice.next_keys()
        return inspected

    def _fetch(
        self,
        plans: Mapping[PartitionKey, Sequence[FetchOrder]],
        *,
        is_inspection: bool = False,
    ) -> set[PartitionKey]:
        """Fetch as planned, in waves; return the partitions not inspected completely."""
        image = self._metadata.image
        missed = {  # where there is a table to inspect, and no fetch to run
            key
            for key, plan in plans.items()
            if not plan and (partition := image.partition(key)) is not None and partition.was_begun
        }
        failed = self._fetch_wave(plans, is_inspection=is_inspection)
        while self._left and not self._is_last_wave:
            missed |= failed & plans.keys()
            keys = keys_to_fetch(self._metadata.catch_up(), self._scope)
            create_replicas(self._node, keys)
            image = self._metadata.image
            failed = self._fetch_wave({key: plan_fetches(image, key) for key in keys})
        if self._left:
            self._waits_ms.append(0.0)
        return missed | (failed & plans.keys())

    def _fetch_wave(
        self,
        plans: Mapping[PartitionKey, Sequence[FetchOrder]],
        *,
        is_inspection: bool = False,
    ) -> set[PartitionKey]:
        """Fetch as planned, and decide; return the partitions of which a fetch was refused or left
        out."""
        image = self._metadata.image
        is_sweep = is_inspection and self._slice.is_all
        planned = list(chain.from_iterable(plans.values()))
        if is_inspection and not is_sweep:  # the next round copies
            planned = [replace(order, copy_bytes_max=0) for order in planned]
        orders, wait_ms = self._pace.plan(image, planned, self._overrides, is_sweep=is_sweep)
        self._waits_ms.append(wait_ms)
        share = min(FETCH_MS_MAX, WAVE_MS_MAX // max(1, len(self._left or orders)))
        bounded = [replace(order, copy_ms_max=share) for order in orders]
        results = self._run(bounded, is_inspection=is_inspection)
        self._is_last_wave = self._clock.monotonic_ms() >= self._until_ms
        reports = merge_reports(self._to_judge(orders, results))
        refused = [refusals(each) for each in results]
        has_failed = any(refused)
        if has_failed or self._second_inspections.failing:
            self._second_inspections.record(reports)
        for report in reports:
            if waiting := awaiting_compaction(image, report):
                self._uncompacted[report.key] = waiting
        self._isr_changes += self.conclude(reports)
        if has_failed:
            self._note_refused(reports)
        image = self._metadata.image
        self._pace.record_results(image, orders, results, self._overrides)
        self._copied_records += sum(each.copied_records for each in results)
        self._copied_bytes += sum(each.copied_bytes for each in results)
        self._truncated_records += sum(each.truncated_records for each in results)
        kind = "inspection" if is_inspection and not is_sweep else "fetch"
        self._note_failures(image, orders, results, refused, kind)
        seen = {fetcher_of(each) for each, why in zip(orders, refused, strict=True) if not why}
        return {each.key for each in planned if fetcher_of(each) not in seen}

    def _to_judge(
        self, orders: Sequence[FetchOrder], results: Sequence[FetchResult]
    ) -> list[PartitionReport]:
        """Return the reports to decide by, and note which fetches go on with the next wave.

        A copy goes on while it is at least twice as fast as the appends, until nothing is left or
        its throttle stops it. Until the last wave a member of the ISR whose copy goes on does not
        lag: a round that finds much to copy would take it out, and the next wave bring it all.
        """
        before, self._left = self._left, {}
        reports = []
        for order, result in zip(orders, results, strict=True):
            report, copied = result.report, result.copied_bytes
            left = sum(seen.missing_bytes for seen in report.followers)
            appended = left + copied - before.get(fetcher_of(order), left + copied)
            is_throttled = order.copy_bytes_max is not None and copied >= order.copy_bytes_max
            if left and copied and 2 * appended <= copied and not is_throttled:
                self._left[fetcher_of(order)] = left
                report = report if self._is_last_wave else _without_lag(order, report)
            reports.append(report)
        return reports

    def _note_failures(
        self,
        image: MetadataImage,
        orders: Sequence[FetchOrder],
        results: Sequence[FetchResult],
        refused: Sequence[Sequence[ReplicaReport]],
        kind: str,
    ) -> None:
        """Note what has failed. An inspection that goes well copies nothing: it ends no failure of
        a fetch."""
        tried: dict[str, str] = {}
        for order, result, replicas in zip(orders, results, refused, strict=True):
            topic = image.topics.get(order.key.topic_id)
            name = TopicPartition("deleted" if topic is None else topic.name, order.key.partition)
            for seen in (result.report.leader, *result.report.followers):
                tried.setdefault(f"{name} on broker {seen.broker_id}: {kind}", "")
            for seen in replicas:
                code, words = refusal_of(image, order, seen)
                error = f"{ERROR_NAME_BY_CODE.get(code, 'UNKNOWN')}: {words}"
                place = f"{name} on broker {seen.broker_id}"
                tried[f"{place}: {kind}"] = error
                self._failures.setdefault((order.key, seen.broker_id), f"{place}: {error}")
        self._node.part(Failures).note(tried)

    def _note_refused(self, reports: Iterable[PartitionReport]) -> None:
        """Note roots of followers that refuse writes, for the active controller, as an append does:
        each is asked again, as the disk that is registered, by a write as large as a fetch's."""
        followers = chain.from_iterable(each.followers for each in reports)
        met = {each.broker_id for each in followers if each.error_code in REFUSAL_CODES}
        if not met:
            return
        image = self._metadata.image
        settings = image.settings()
        sizes = dict.fromkeys(met, settings.integer("replica.fetch.max.bytes"))
        session_ms = settings.integer("broker.session.timeout.ms")
        orders = probe_orders(image.brokers.values(), session_ms, sizes)
        refused = refused_writes(orders, probe(self._node, orders), self._node.host)
        if not met.isdisjoint(refused):
            met_by = f"a round of replication on {self._node.host}"
            submit_if_due(
                image, lambda newest: note_refused(newest, refused, {}, met_by), self._node.submit
            )

    def _run(
        self, orders: Sequence[FetchOrder], *, is_inspection: bool = False
    ) -> list[FetchResult]:
        if not orders:
            return []
        if not is_inspection:
            return self._node.tasks.run(fetch_task, orders)
        inspections = [tuple(group) for _, group in groupby(orders, attrgetter("key"))]
        return list(chain.from_iterable(self._node.tasks.run(inspect_partition_task, inspections)))

    def conclude(self, reports: Sequence[PartitionReport]) -> int:
        if not reports:  # most rounds of an idle cluster: a commit would read the log for nothing
            return 0
        return self._node.submit(lambda image: conclude(image, reports))

    def _report(
        self, keys: Sequence[PartitionKey], inspected: Collection[PartitionKey]
    ) -> ReplicationReport:
        image = self._metadata.image
        partitions = [image.partition(key) for key in {*keys, *inspected}]
        leaderless = [
            key
            for key, partition in image.partitions_needing_work()
            if partition.leader is None and (self._scope is None or key.topic_id in self._scope)
        ]
        not_looked_at = self._slice.not_inspected_count(leaderless)
        is_done = not any(each is not None and needs_fetch(each) for each in partitions)
        return ReplicationReport(
            partition_count=len(keys),
            slice_count=0 if self._slice.is_all else len(inspected),
            not_looked_at=not_looked_at,
            copied_records=self._copied_records,
            copied_bytes=self._copied_bytes,
            truncated_records=self._truncated_records,
            isr_changes=self._isr_changes,
            failures=tuple(self._failures.values()),
            is_caught_up=is_done and not_looked_at == 0,
            resume_after_ms=min(
                (each for each in self._waits_ms if each is not None), default=None
            ),
        )


def _without_lag(order: FetchOrder, report: PartitionReport) -> PartitionReport:
    followers = (
        replace(seen, missing_since_ms=None, missing_bytes=0)
        if seen.broker_id in order.partition.isr
        else seen
        for seen in report.followers
    )
    return replace(report, followers=tuple(followers))


def replicate(
    node: Node,
    topics: str | Iterable[str] | None = None,
    *,
    is_sweep: bool = False,
    configs: Mapping[str, object] | None = None,
    copy_ms_max: float = inf,
) -> ReplicationReport:
    """Run a round, with its share of upkeep, as documented at `Cluster.replicate`."""
    with node.counts.timed(ROUND_MS):
        replication = ReplicationRound(node, configs)
        report = replication.run(topics, is_sweep=is_sweep, copy_ms_max=copy_ms_max)
    node.counts.add(REPLICATION_BYTES_IN, report.copied_bytes)
    node.counts.add(REPLICATION_MESSAGES_IN, report.copied_records)
    node.part(Upkeep).run_share(topics, first=replication.inspected)
    return report


def finish_compaction(node: Node, order: ReadOrder) -> None:
    """Have a leader compacted that can't be read before.

    It must lead first: what is compacted is fenced. A round would not have it do so while all
    followers are away, and would copy and decide what this reader doesn't need.
    """
    image = node.metadata.catch_up()
    partition = image.partition(order.key)
    leader = None if partition is None else partition.leader
    if partition is not None and leader is not None and partition.is_created(leader):
        [begun] = fetch_orders(image, order.key, partition, [None])
        node.tasks.run_here(fetch_task, [begun])
    node.part(Upkeep).finish_compaction([order.key])
