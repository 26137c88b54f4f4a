"""One round of replication: plan fetches, have them done, decide once for all partitions.

Partitions with work are visited: a high watermark below the recorded log end, a replica out of
the ISR, a reassignment. A slice of all is looked at besides, to find what nobody recorded.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter

from kafka_on_spark.controller.replication import conclude
from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.controller.restoring import restore
from kafka_on_spark.errors import ERROR_NAME_BY_CODE, NO_ERROR
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicId, TopicPartition, listed
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock
from kafka_on_spark.service.fetch_answers import refusal_of, refusals
from kafka_on_spark.service.fetch_pace import FetchPace, PacedOrders
from kafka_on_spark.service.fetch_plan import (
    covers_all,
    fetcher_of,
    has_tables,
    has_work,
    lacks_leader_table,
    plan_fetches,
)
from kafka_on_spark.service.fetch_reports import merge_reports
from kafka_on_spark.service.making import (
    MakeOrder,
    MakeResult,
    record_made,
    renew_lost,
    unmade_replicas,
)
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.partition_looks import LookOrders
from kafka_on_spark.service.replication import FetchOrder, FetchResult
from kafka_on_spark.service.restoring import Restorer
from kafka_on_spark.service.second_look import SecondLooks
from kafka_on_spark.service.sweeping import Scope, Sweep, SweepTurn

RunFetches = Callable[[Sequence[FetchOrder]], list[FetchResult]]
RunLooks = Callable[[Sequence[LookOrders]], list[list[FetchResult]]]
RunMakes = Callable[[Sequence[MakeOrder]], list[MakeResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationReport:
    """What one round did.

    Attributes:
        partition_count: Partitions visited because they had work; of a sweep, all.
        slice_count: Partitions looked at besides, whether or not they had work.
        not_looked_at: Partitions of which the round can't say how they are: no slice, its own or
            another's, came to them within `replica.sweep.interval.ms`; or their last look failed,
            or there was nobody to look for them; or they have no leader.
        once_round_ms: How long rounds like this one take to look at every partition once. None:
            as far as is known, they never have.
        copied_records: Records committed to followers.
        copied_bytes: The same in bytes of segments.
        truncated_records: Records cut from followers, all of them uncommitted.
        isr_changes: How many ISRs changed.
        failures: What went wrong, in words, by partition and broker.
        is_caught_up: No partition has a follower behind, or one out of the ISR, by the metadata
            after the round; and all replicas were looked at within the interval.
        left_out: Fetches that wait: for the end of a back-off, or for a newer leadership.
        resume_after_ms: How long until a round can do more than one now: a back-off ends, or a
            throttle lets bytes through. None: nothing waits for time.
    """

    partition_count: int = 0
    slice_count: int = 0
    not_looked_at: int = 0
    once_round_ms: float | None = None
    copied_records: int = 0
    copied_bytes: int = 0
    truncated_records: int = 0
    isr_changes: int = 0
    failures: tuple[str, ...] = ()
    is_caught_up: bool = True
    left_out: int = 0
    resume_after_ms: float | None = None


@dataclass(slots=True)
class _Done:
    """What a round has done so far.

    Attributes:
        failures: In words, by partition and broker.
        left_out: Fetches where there was work that were left out.
        waits_ms: How long until more can be done than now, where something waits for time.
    """

    copied_records: int = 0
    copied_bytes: int = 0
    truncated_records: int = 0
    isr_changes: int = 0
    failures: dict[tuple[PartitionKey, BrokerId], str] = field(default_factory=dict)
    left_out: int = 0
    waits_ms: list[float | None] = field(default_factory=list)


class ReplicationRound:
    """Plans and concludes rounds; the fetches run wherever the caller has them run.

    `sweep` remembers which partitions were looked at, `looks` what was found bad, and is looked at
    again before a round returns, `restorer` which lost replicas a sweep has looked at, `pace`
    back-offs and throttles; without it every round does all that there is. `call`: settings that
    win over the topics' and the cluster's.
    """

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        *,
        sweep: Sweep,
        run_fetches: RunFetches,
        run_looks: RunLooks,
        run_makes: RunMakes,
        new_uuid: Callable[[], str],
        timeout_ms: int,
        looks: SecondLooks,
        restorer: Restorer | None = None,
        pace: FetchPace | None = None,
        call: Mapping[str, str] | None = None,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._sweep = sweep
        self._run_fetches = run_fetches
        self._run_looks = run_looks
        self._run_makes = run_makes
        self._new_uuid = new_uuid
        self._timeout_ms = timeout_ms
        self._looks = looks
        self._restorer = restorer
        self._pace = pace
        self._call = call or {}

    def run(
        self, topics: str | Iterable[str] | None = None, *, is_sweep: bool = False
    ) -> ReplicationReport:
        """Do one round over `topics`, or one, or all. `is_sweep`: look at all of them now.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        deadline_ms = self._looks.now_ms() + self._timeout_ms
        as_of_ms = self._clock.monotonic_ms()
        image = self._metadata.catch_up()
        scope = None if topics is None else frozenset(_topic_ids(image, topics))
        if is_sweep and self._restorer is not None:
            whole = self._restorer.look(image)
            self._metadata.submit(
                lambda newest: restore(newest, whole), timeout_ms=self._timeout_ms
            )
        self._metadata.submit(
            lambda newest: renew_lost(newest, self._new_uuid), timeout_ms=self._timeout_ms
        )
        image = self._metadata.image
        settings = image.settings().over(self._call)
        turn = self._sweep.begin(image, scope, settings, as_of_ms=as_of_ms, is_all=is_sweep)
        done = _Done()
        due = turn.next_keys()
        keys = due if is_sweep else _with_work(image, scope)
        self.make_replicas(keys)
        if is_sweep:
            looked_at = set(keys)
            self._look_at(turn, keys, (), done)
        else:
            seen, paced = self._fetch_work(keys, due, done)
            done.left_out = paced.left_out
            done.waits_ms.append(paced.resume_after_ms)
            looked_at = self._look_at_slice(turn, due, seen, done)
        done.isr_changes += self._looks.finish(
            self._run_fetches, deadline_ms=None if is_sweep else deadline_ms
        )
        self._sweep.keep(image, scope, turn)
        return self._report(keys, looked_at, turn, scope, done, is_sweep=is_sweep)

    def _fetch_work(
        self, keys: Sequence[PartitionKey], due: Collection[PartitionKey], done: _Done
    ) -> tuple[set[PartitionKey], PacedOrders]:
        """Fetch where there is work; return which of `due` that has looked at as a sweep does."""
        image = self._metadata.image
        plans = {key: plan_fetches(image, key) for key in keys}
        whole = set(due).intersection(plans)
        whole = {key for key in whole if covers_all(image, key, plans[key])}
        for key in whole:
            plans[key] = [replace(order, is_anew=True) for order in plans[key]]
        failed, paced = self._fetch(plans, done)
        return whole - failed, paced

    def _look_at_slice(
        self,
        turn: SweepTurn,
        due: list[PartitionKey],
        seen: Collection[PartitionKey],
        done: _Done,
    ) -> set[PartitionKey]:
        """Look at the round's slice, which begins with `due`; return which partitions that was."""
        looked_at: set[PartitionKey] = set()
        while due:
            self._look_at(turn, due, seen, done)
            looked_at.update(due)
            due = turn.next_keys()
        return looked_at

    def _look_at(
        self,
        turn: SweepTurn,
        keys: Sequence[PartitionKey],
        seen: Collection[PartitionKey],
        done: _Done,
    ) -> None:
        started_ms = self._clock.monotonic_ms()
        image = self._metadata.image
        unseen = [key for key in keys if key not in seen]
        self.make_replicas(key for key in unseen if lacks_leader_table(image.partition(key)))
        image = self._metadata.image
        plans = {key: plan_fetches(image, key, is_look=True) for key in unseen}
        failed, paced = self._fetch(plans, done, is_look=True, is_sweep=turn.is_all)
        done.left_out += paced.left_out if turn.is_all else 0
        done.waits_ms.append(paced.resume_after_ms)
        took_ms = self._clock.monotonic_ms() - started_ms
        turn.looked_at(keys, failed=failed, took_ms=took_ms, count=len(unseen))

    def _fetch(
        self,
        plans: Mapping[PartitionKey, Sequence[FetchOrder]],
        done: _Done,
        *,
        is_look: bool = False,
        is_sweep: bool = False,
    ) -> tuple[set[PartitionKey], PacedOrders]:
        """Fetch as planned, and decide on it; return which partitions were not seen whole."""
        image = self._metadata.image
        planned = list(chain.from_iterable(plans.values()))
        if is_look and not is_sweep:  # what is to be copied is work, and the next round's
            planned = [replace(order, copy_bytes_max=0) for order in planned]
        paced = PacedOrders(tuple(planned))
        if self._pace is not None:
            paced = self._pace.plan(image, planned, self._call, is_sweep=is_sweep)
        results = self._run(paced.orders, is_look=is_look)
        reports = merge_reports([each.report for each in results])
        self._looks.note(reports)
        done.isr_changes += self.conclude(reports)
        image = self._metadata.image
        if self._pace is not None:
            self._pace.settle(image, paced.orders, results, self._call)
        done.copied_records += sum(each.copied_records for each in results)
        done.copied_bytes += sum(each.copied_bytes for each in results)
        done.truncated_records += sum(each.truncated_records for each in results)
        done.failures.update(_failures(image, paced.orders, results, besides=done.failures))
        seen = {
            fetcher_of(order)
            for order, result in zip(paced.orders, results, strict=True)
            if not refusals(result)
        }
        missed = {key for key, plan in plans.items() if not plan and has_tables(image, key)}
        return missed | {each.key for each in planned if fetcher_of(each) not in seen}, paced

    def _run(self, orders: Sequence[FetchOrder], *, is_look: bool) -> list[FetchResult]:
        if not orders:
            return []
        if not is_look:
            return self._run_fetches(orders)
        looks = [tuple(group) for _, group in groupby(orders, attrgetter("key"))]
        return list(chain.from_iterable(self._run_looks(looks)))

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
        looked_at: Collection[PartitionKey],
        turn: SweepTurn,
        scope: Scope,
        done: _Done,
        *,
        is_sweep: bool,
    ) -> ReplicationReport:
        image = self._metadata.image
        partitions = [image.partition(key) for key in {*keys, *looked_at}]
        leaderless = [
            key
            for key, partition in image.unsettled_partitions()
            if partition.leader is None and (scope is None or key.topic_id in scope)
        ]
        not_looked_at = turn.not_looked_at(leaderless)
        is_done = not any(each is not None and has_work(each) for each in partitions)
        return ReplicationReport(
            partition_count=len(keys),
            slice_count=0 if is_sweep else len(looked_at),
            not_looked_at=not_looked_at,
            once_round_ms=turn.once_round_ms,
            copied_records=done.copied_records,
            copied_bytes=done.copied_bytes,
            truncated_records=done.truncated_records,
            isr_changes=done.isr_changes,
            failures=tuple(done.failures.values()),
            is_caught_up=is_done and not_looked_at == 0,
            left_out=done.left_out,
            resume_after_ms=min((each for each in done.waits_ms if each is not None), default=None),
        )


def _with_work(image: MetadataImage, scope: Scope) -> list[PartitionKey]:
    return [
        key
        for key, partition in image.unsettled_partitions()
        if (scope is None or key.topic_id in scope) and has_work(partition)
    ]


def _topic_ids(image: MetadataImage, topics: str | Iterable[str]) -> set[TopicId]:
    names = [topics] if isinstance(topics, str) else listed(topics, "topics", "names")
    return {image.topic(name).topic_id for name in names}


def _failures(
    image: MetadataImage,
    orders: Sequence[FetchOrder],
    results: Sequence[FetchResult],
    *,
    besides: Collection[tuple[PartitionKey, BrokerId]],
) -> Iterable[tuple[tuple[PartitionKey, BrokerId], str]]:
    seen = set(besides)
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
            yield place, f"{name} on broker {refused.broker_id}: {error_name}: {words}"
