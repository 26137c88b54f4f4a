"""From staged files to an acknowledgement.

Executors have written segments to the leader's root and shipped them to the other members of
the ISR; nothing is committed. Here each partition's leader commits them, each member fetches
(the files are there already), and one metadata commit moves all high watermarks.

An append is acknowledged when the high watermark has passed it **and** it stands at that offset
in the log of the *current* leader (P*6): "the high watermark is past my offset" alone
acknowledges lost records (FAULTS b.5).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.errors import (
    CommitError,
    CommitOutcomeUnknownError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    RequestTimedOutError,
    RootAccessDeniedError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import BrokerId, Offset, PartitionKey
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import Clock, ReplicaAddress, ReplicaLog, ReplicaStore, SegmentStore
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.append_checks import (
    check_ends,
    check_min_isr,
    check_replicas,
    is_acknowledged,
)
from kafka_on_spark.service.append_parts import (
    AppendThreads,
    PartitionOutcome,
    StagedPartition,
    not_acknowledged,
)
from kafka_on_spark.service.append_watch import AppendWatch, Wait, wait_of
from kafka_on_spark.service.fetch_reports import (
    as_leaders_fault,
    leader_failed,
    merge_reports,
    partition_report,
    state_report,
)
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.producers import check_not_fenced, check_writer_not_fenced
from kafka_on_spark.service.replicas import (
    Appended,
    append,
    begin_leadership,
    fence_older_writers,
)
from kafka_on_spark.service.replication import FetchOrder, fetch
from kafka_on_spark.service.restaging import restage
from kafka_on_spark.service.second_look import SecondLooks

PAUSE_MS_MIN: Final = 10.0
PAUSE_MS_MAX: Final = 1000.0

# After these, the image is refreshed and the append goes on, with the new leader if there is one.
_TRY_AGAIN: Final = (
    CommitError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    UnknownLeaderEpochError,
)

# After these from the metadata log, what stands in the leaders' logs may still be committed: an
# append waits for the log's root, and if that is too long, nobody may say "not written".
_METADATA_AWAY: Final = (CommitError, KafkaStorageError, ReplicaLostError, RequestTimedOutError)


@dataclass(slots=True)
class _Pending:
    """A partition that is not acknowledged yet, and what was seen of it last.

    `seen`: the log of `leader` as the last try found or put the append there; `failed`: that
    could not be read, or was found bad, by the last look.
    `may_be_appended`: a commit of it had an unknown outcome, so nobody may say "not written".
    `tried`: the partition as it was at the last try; `wait`: what that met, if it may last.
    """

    part: StagedPartition
    batch: Batch | None = None
    is_appended: bool = False
    may_be_appended: bool = False
    is_duplicate: bool = False
    seen: ReplicaState | None = None
    leader: ReplicaLog | None = None
    failed: PartitionReport | None = None
    last_error: KafkaOnSparkError | None = None
    tried: PartitionRegistration | None = None
    wait: Wait | None = None


class Appender:
    """Commits staged appends. One a process; threads may share it."""

    def __init__(
        self,
        metadata: MetadataService,
        replicas: ReplicaStore,
        segments: SegmentStore,
        clock: Clock,
        *,
        threads: AppendThreads,
        random: Callable[[], float],
        looks: SecondLooks,
    ) -> None:
        self._looks = looks
        self._metadata = metadata
        self._replicas = replicas
        self._segments = segments
        self._clock = clock
        self._threads = threads
        self._random = random

    def commit(
        self,
        parts: Sequence[StagedPartition],
        *,
        acks: str,
        timeout_ms: int,
        watch: AppendWatch,
        other_ends: Mapping[PartitionKey, Offset] | None = None,
    ) -> list[PartitionOutcome]:
        """Commit `parts` and wait for what `acks` asks; return an outcome for each, in order.

        What is ready is committed; a partition that waits goes into a later commit, and `watch`
        is told of it.
        `other_ends`: where partitions that get no record must end, of a conditional append.

        Raises:
            NotEnoughReplicasError, UnexpectedOffsetError: Before the first commit.
        """
        image = self._metadata.image
        if acks == "all":
            check_replicas(image, parts)
        check_ends(image, self._replicas, parts, other_ends or {})
        pending = {part.key: _Pending(part) for part in parts}
        outcomes: dict[PartitionKey, PartitionOutcome] = {}
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        pause_ms = PAUSE_MS_MIN
        while pending:
            ready = [each for key, each in pending.items() if not watch.is_blocked(key)]
            self._round(pending, outcomes, acks, ready)
            if acks == "0":
                self._give_up(pending, outcomes, watch)
            if not pending:
                break
            if self._clock.monotonic_ms() > deadline_ms:
                self._give_up(pending, outcomes, watch)
                break
            watch.look([each.wait for each in pending.values() if each.wait is not None])
            self._clock.sleep_ms(watch.pause_ms(pause_ms * (0.5 + self._random())))
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
            try:
                self._looks.settle()
                self._metadata.catch_up()
            except _METADATA_AWAY as error:
                self._not_concluded(error, pending, outcomes)
        return [outcomes[part.key] for part in parts]

    def _round(
        self,
        pending: dict[PartitionKey, _Pending],
        outcomes: dict[PartitionKey, PartitionOutcome],
        acks: str,
        ready: Sequence[_Pending],
    ) -> None:
        """Try the `ready` ones of the pending partitions once; move the finished to `outcomes`."""
        image = self._metadata.image
        tries = self._each(lambda each: self._try(image, each, acks), ready)
        self._looks.note(each.failed for each in ready if each.failed is not None)
        reports = []
        for each, attempt in zip(ready, tries, strict=True):
            each.wait = wait_of(each.part.key, each.tried, attempt)
            if isinstance(attempt, KafkaOnSparkError):
                self._failed(each, attempt, pending, outcomes)
            elif attempt is not None:
                reports.append(attempt)
        if reports:
            self._looks.note(reports)
            try:
                self._conclude(reports)
            except _METADATA_AWAY as error:
                self._not_concluded(error, pending, outcomes)
                return
        for each in list(pending.values()):
            self._acknowledge(each, acks, pending, outcomes)

    def _each(
        self,
        work: Callable[[_Pending], PartitionReport | KafkaOnSparkError | None],
        pending: Sequence[_Pending],
    ) -> list[PartitionReport | KafkaOnSparkError | None]:
        if len(pending) == 1:
            return [work(pending[0])]
        return list(self._threads.partitions.map(work, pending))

    def _try(
        self, image: MetadataImage, each: _Pending, acks: str
    ) -> PartitionReport | KafkaOnSparkError | None:
        each.failed = None
        try:
            return self._append_one(image, each, acks)
        except KafkaOnSparkError as error:
            return error

    def _append_one(self, image: MetadataImage, each: _Pending, acks: str) -> PartitionReport:
        """Append to the leader and, for acks=all, fetch to the rest of the ISR."""
        key = each.part.key
        partition = image.partition(key)
        each.seen = None
        if partition is None:
            raise UnknownTopicOrPartitionError(f"partition {key.partition} is gone: it was deleted")
        each.tried = partition
        if acks == "all":
            is_appended = each.is_appended or each.may_be_appended
            check_min_isr(image, key, partition, is_appended=is_appended)
        if partition.leader is None or not partition.is_made(partition.leader):
            raise NotLeaderOrFollowerError(f"partition {image.name_of(key)} has no leader")
        leader = address_of(image, key, partition, partition.leader)
        replica = self._replicas.open(leader)
        try:
            state = begin_leadership(replica, partition)
        except KafkaOnSparkError as error:
            each.failed = leader_failed(key, partition, leader, error, self._clock.now_ms())
            raise as_leaders_fault(error) from error
        stamp = each.part.staged.producer
        if not (each.is_appended and find_append(state, each.part.staged)):
            # It is written now, perhaps again; a leader that was elected after a newer run began
            # knows nothing of that run.
            if stamp is not None:
                check_not_fenced(image.producers, stamp.producer_id, stamp.producer_epoch)
            check_writer_not_fenced(image.producers, each.part.staged.writer)
            state = fence_older_writers(replica, state, each.part.staged.writer)
        staged = restage(self._segments, each.part, leader, partition.leader_epoch)
        appended = append(
            replica,
            staged,
            state,
            leader_epoch=state.leader_epoch or partition.leader_epoch,
            now_ms=self._clock.now_ms(),
            expected_offset=None if each.is_appended else each.part.expected_offset,
        )
        each.is_duplicate = each.is_duplicate or (appended.is_duplicate and not each.is_appended)
        each.is_appended, each.batch = True, appended.batch
        each.seen, each.leader = appended.state, replica
        return self._replicate(image, key, partition, leader, appended, acks)

    def _replicate(
        self,
        image: MetadataImage,
        key: PartitionKey,
        partition: PartitionRegistration,
        leader: ReplicaAddress,
        appended: Appended,
        acks: str,
    ) -> PartitionReport:
        mine = state_report(leader, appended.state, is_matched=True, missing=())
        now_ms = self._clock.now_ms()
        if acks != "all":
            return partition_report(key, partition, mine, appended.state, (), now_ms=now_ms)
        followers = [each for each in partition.isr if each != partition.leader]
        orders = [self._order(image, key, partition, leader, each) for each in followers]
        results = self._fetch_all([order for order in orders if order is not None], appended.state)
        own = partition_report(key, partition, mine, appended.state, (), now_ms=now_ms)
        return merge_reports([own, *results])[0]

    def _order(
        self,
        image: MetadataImage,
        key: PartitionKey,
        partition: PartitionRegistration,
        leader: ReplicaAddress,
        follower: BrokerId,
    ) -> FetchOrder | None:
        if not partition.is_made(follower):
            return None
        return FetchOrder(
            key=key,
            partition=partition,
            leader=leader,
            follower=address_of(image, key, partition, follower),
            fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
        )

    def _fetch_all(
        self, orders: Sequence[FetchOrder], leader_state: ReplicaState
    ) -> list[PartitionReport]:
        def one(order: FetchOrder) -> PartitionReport:
            return fetch(order, self._replicas, self._segments, self._clock, leader_state).report

        return list(self._threads.fetches.map(one, orders))

    def _conclude(self, reports: Sequence[PartitionReport]) -> None:
        """Commit all high watermarks, and who leaves the ISR, at once."""
        self._metadata.conclude(
            reports,
            timeout_ms=self._metadata.image.settings().integer("delivery.timeout.ms"),
        )

    def _not_concluded(
        self,
        error: KafkaOnSparkError,
        pending: dict[PartitionKey, _Pending],
        outcomes: dict[PartitionKey, PartitionOutcome],
    ) -> None:
        for each in pending.values():
            each.last_error = error
        if isinstance(error, RootAccessDeniedError):
            self._give_up(pending, outcomes, None)

    def _failed(
        self,
        each: _Pending,
        error: KafkaOnSparkError,
        pending: dict[PartitionKey, _Pending],
        outcomes: dict[PartitionKey, PartitionOutcome],
    ) -> None:
        each.last_error = error
        if isinstance(error, CommitOutcomeUnknownError):
            each.may_be_appended = True
        if isinstance(error, _TRY_AGAIN) and not isinstance(error, RootAccessDeniedError):
            return  # who is denied access is told at once: no time helps
        if each.is_appended or each.may_be_appended:
            # It refuses this try; what became of the one before, it does not say.
            words = f"{error.message}; an earlier try of this append may be committed"
            error = type(error)(words, **{**error.context, "may_be_committed": True})
        del pending[each.part.key]
        outcomes[each.part.key] = PartitionOutcome(
            key=each.part.key, base_offset=None, record_count=0, error=error
        )

    def _acknowledge(
        self,
        each: _Pending,
        acks: str,
        pending: dict[PartitionKey, _Pending],
        outcomes: dict[PartitionKey, PartitionOutcome],
    ) -> None:
        """Move `each` to `outcomes` if it is acknowledged under the image of now."""
        partition = self._metadata.image.partition(each.part.key)
        if partition is None or each.seen is None or each.leader is None:
            return  # not found in the log of its leader in this very round
        if acks == "all" and not is_acknowledged(partition, each.seen, each.batch, each.leader):
            return
        del pending[each.part.key]
        outcomes[each.part.key] = PartitionOutcome(
            key=each.part.key,
            base_offset=None if each.batch is None else each.batch.base_offset,
            record_count=each.part.staged.record_count,
            is_duplicate=each.is_duplicate,
        )

    def _give_up(
        self,
        pending: dict[PartitionKey, _Pending],
        outcomes: dict[PartitionKey, PartitionOutcome],
        watch: AppendWatch | None,
    ) -> None:
        """Answer "unknown" for what is left; without `watch` at once: nothing comes of waiting."""
        for key, each in pending.items():
            why = None if watch is None else watch.why(key)
            why = why or str(each.last_error or "the in-sync replicas did not catch up")
            error = not_acknowledged(each.part, why, is_late=watch is not None)
            outcomes[key] = PartitionOutcome(key=key, base_offset=None, record_count=0, error=error)
        pending.clear()
