"""Checks every invariant after every effect, and what clients were told after each answer.

The observer of the disks; what clients were told is judged in history.py. It holds no rule of its
own about tables: those are in invariants.py and registers.py.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.fsck.metadata_checks import MetadataReplay, MetadataRows
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.state import LogChange, ReplicaState, batch_digests
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_files import rows_of as rows_of_columns
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    encode,
)
from tests.simulation.checks import compaction, invariants, merging, producers, registers
from tests.simulation.checks.compaction import compacted_to, left_of
from tests.simulation.checks.controllers import check_controllers
from tests.simulation.checks.expiry import comes_back_above_what_stands, expired_is_silent
from tests.simulation.checks.history import History
from tests.simulation.checks.ledger import (
    NOBODY_HAS,
    Ledger,
    Log,
    chain_link,
    hold,
    records_of,
    require,
)
from tests.simulation.checks.retention import deleted_is_due
from tests.simulation.checks.verdicts import (
    note_created_again,
    removed_is_not_waited_for,
    sound_is_not_lost,
    taken_back_is_whole,
)
from tests.simulation.world.cleaning import removed_is_unassigned, replica_at
from tests.simulation.world.disks import Disks, Root, Table, rows_of

if TYPE_CHECKING:
    from tests.simulation.checks.passes import Passes


class Checker(History):
    def __init__(self, disks: Disks) -> None:
        super().__init__(Ledger(disks))
        self.passes: Passes | None = None
        self._replay = MetadataReplay()
        self.true_now_ms: Callable[[], float] = lambda: 0.0

    def on_commit(self, root: Root, table: Table, before: ReplicaState, change: LogChange) -> None:
        after = table.state
        identity = table.identity
        key = PartitionKey(identity.topic_id, identity.partition)
        if after.log_end_offset < before.log_end_offset:
            table.verified = min(table.verified, after.log_end_offset)
        self._note_appended(key, table, before, change)
        invariants.appended_in_time(self.ledger, change, int(self.true_now_ms()))
        invariants.appends_by_the_leader(self.ledger, key, table, change)
        if table.is_suspect:
            self._forget(key, table)
            return
        invariants.next_log(self.ledger, key, table, before, change)
        merging.replaced_is_the_same(self.ledger, key, before, change)
        invariants.counted(key, before, after, change)
        invariants.log_matching(self.ledger, key, before, change)
        invariants.chains_tell_logs_apart(self.ledger, key, before, change)
        producers.kept(self.ledger, key, before, change)
        invariants.truncation_floor(self.ledger, key, table, before, after)
        compaction.what_is_gone_may_be(self.ledger, key, table, change)
        invariants.integrity(self.ledger, key, root, table, change)
        partition = self.ledger.image.partition(key)
        if partition is not None and self._counts(partition, table):
            invariants.committed_prefix(self.ledger, key, partition)
            invariants.leader_completeness(self.ledger, key, partition)
            compaction.member_stays_finished(key, partition, table, before)

    def _note_appended(
        self, key: PartitionKey, table: Table, before: ReplicaState, change: LogChange
    ) -> None:
        """Remember each batch that is added, of suspect tables too, and what its digest stands for.

        In a table that was changed by hand after its commit was decided, it stands for nothing.
        """
        log, digest = self.ledger.log(key), before.apply(replace(change, adds=())).chain_digest
        for each in change.adds:
            if isinstance(each, Batch):
                log.batches.setdefault(each.chain_digest, each)
                if each.producer is not None and change.operation == "append":
                    run = dict.fromkeys(
                        (at for _, at in rows_of(each)), each.producer.producer_epoch
                    )
                    self.ledger.newest_run.update(run)
                computed = batch_digests(digest, key.topic_id, key.partition, each)
                if not table.is_suspect or each.chain_digests == computed:
                    log.chains.setdefault(each.chain_digest, chain_link(digest, each))
            digest = each.chain_digest

    def on_unlink(self, root: Root, place: str, name: str) -> None:
        invariants.nothing_named_is_deleted(root, place, name)

    def _forget(self, key: PartitionKey, table: Table) -> None:
        """Let what a disk has lost be written again under the same epoch and offset."""
        lost, table.forgotten = table.forgotten, []
        for batch in chain.from_iterable(state.batches for state in lost):
            for offset in range(batch.base_offset, batch.end_offset):
                self.ledger.log(key).forgotten.add((batch.leader_epoch, offset))

    def _counts(self, partition: PartitionRegistration, table: Table) -> bool:
        identity = table.identity
        return (
            identity.broker_id in partition.isr
            and partition.uuid_of(identity.broker_id) == identity.replica_uuid
        )

    def on_remove(self, place: str) -> None:
        """Check one removal of a replica's folder."""
        removed_is_unassigned(self.ledger, place)
        removed_is_not_waited_for(self.ledger, *replica_at(place))

    def on_metadata(
        self, before: MetadataImage, after: MetadataImage, batch: MetadataBatch
    ) -> None:
        self._audit_metadata()
        check_controllers(before, batch)
        comes_back_above_what_stands(self.ledger, before, batch)
        expired_is_silent(self.ledger, before, batch, self.true_now_ms())
        if self.passes is not None:
            self.passes.on_metadata(before, after, batch)
        changed: dict[PartitionKey, None] = {}
        for record in batch.records:
            if isinstance(record, PartitionChangeRecord | PartitionRecord | HighWatermarkRecord):
                changed[record.key] = None
                if isinstance(record, HighWatermarkRecord):
                    deleted_is_due(self.ledger, before, record, self.true_now_ms())
        for key in changed:
            old, new = before.partition(key), after.partition(key)
            if new is not None:
                self._check_register(key, old, new, before, after)

    def _audit_metadata(self) -> None:
        """Have `fsck` replay what was committed since the last time, the cluster's first commits
        too."""
        batches = self.ledger.disks.batches
        end = self._replay.end_offset
        for batch in batches[bisect_left(batches, end, key=lambda each: each.base_offset) :]:
            rows = rows_of_columns(encode(batch.records, batch.stamp), len(batch.records))
            self._replay.take(MetadataRows(batch.base_offset, tuple(rows)))
        found = self._replay.findings.all()
        hold("the metadata log", [(each.invariant, each.sentence) for each in found])

    def _check_register(
        self,
        key: PartitionKey,
        old: PartitionRegistration | None,
        new: PartitionRegistration,
        before: MetadataImage,
        after: MetadataImage,
    ) -> None:
        ledger = self.ledger
        registers.one_register(ledger, key, new, after)
        if old is None:
            return
        registers.high_watermark_bounds(ledger, key, old, new)
        compaction.decision_is_sound(ledger, key, old, new, before, self.true_now_ms())
        compaction.joined_has_finished(ledger, key, old, new)
        sound_is_not_lost(ledger, key, old, new)
        taken_back_is_whole(ledger, key, old, new)
        note_created_again(ledger, key, old, new)
        if new.unclean_generation > old.unclean_generation:
            self._restart(key, old, new)
        elif new.high_watermark > old.high_watermark:
            self._extend(key, old, new)
            invariants.chain_at_the_mark(ledger, key, new)
        invariants.committed_prefix(ledger, key, new)
        invariants.leader_completeness(ledger, key, new)
        invariants.not_ahead(ledger, key, new)

    def _vouched(self, key: PartitionKey, new: PartitionRegistration) -> ReplicaState | None:
        """Return a log whose chain is the registered one, of a replica that is known complete."""
        complete = sorted(new.isr | new.elr)
        tables = [self.ledger.disks.replica_table(new, key, each) for each in complete]
        states = [table.state for table in tables if table is not None]
        mark, digest = new.high_watermark, new.high_watermark_chain
        return next((state for state in states if state.chain_at(mark) == digest), None)

    def _extend(
        self, key: PartitionKey, old: PartitionRegistration, new: PartitionRegistration
    ) -> None:
        """Take what the high watermark has passed as committed, for ever (I12, H2, H3)."""
        log = self.ledger.log(key)
        source = self._source(key, new) or self._vouched(key, new)
        if source is None:
            # All disks of the ISR have lost commits since they were counted.
            is_allowed = may_lose_records(self.ledger.image, key)
            require(is_allowed, "I1 committed prefix", f"{key.partition}: no live member")
            log.committed += [NOBODY_HAS] * (new.high_watermark - len(log.committed))
            return
        records = records_of(source, old.high_watermark, new.high_watermark)
        # A log that has come back after an unclean election may be compacted above the mark.
        for offset in range(old.high_watermark, min(new.high_watermark, compacted_to(source))):
            records.setdefault(offset, NOBODY_HAS)
        require(
            len(records) == new.high_watermark - old.high_watermark,
            "I1 committed prefix",
            f"{key.partition}: nobody has the records up to HW {new.high_watermark}",
        )
        records = dict(sorted(records.items()))
        for offset, record in records.items():
            if record == NOBODY_HAS:
                continue
            invariants.stable_content(log, key, offset, record)
            self._commit_value(log, key, offset, record[0], new.log_start_offset)
        log.committed[old.high_watermark :] = records.values()
        self._check_sequences(log, key, source, old, new)

    def _source(self, key: PartitionKey, partition: PartitionRegistration) -> ReplicaState | None:
        members = [partition.leader, *sorted(partition.isr)]
        tables = [
            table
            for each in members
            if each is not None
            and (table := self.ledger.live_table(key, partition, each)) is not None
        ]
        longest = max(tables, key=lambda table: table.state.log_end_offset, default=None)
        return None if longest is None else longest.state

    def _commit_value(
        self, log: Log, key: PartitionKey, offset: int, value: int, log_start: int
    ) -> None:
        known = log.offset_of.setdefault(value, offset)
        is_unknown = value not in self.ledger.idempotent or self.ledger.is_forgotten(log, value)
        if known < log_start and is_unknown:
            # Without a producer an append is known by its files, and those were deleted.
            known = log.offset_of[value] = offset
        if known == offset and value in self.ledger.newest_run:
            log.run_of[value] = self.ledger.newest_run[value]
        require(known == offset, "H3 one offset a value", f"{value} at {known} and {offset}")
        home = self.ledger.home_of.setdefault(value, key.partition)
        if home != key.partition and self._is_gone(PartitionKey(key.topic_id, home), value):
            home = self.ledger.home_of[value] = key.partition
        require(
            home == key.partition,
            "H3 one offset a value",
            f"{value} is committed in partitions {home} and {key.partition}",
        )
        require(value in self.ledger.invoked, "H4 aborted read", f"{value}: nobody appended it")
        require(
            value not in self.ledger.failed,
            "H4 aborted read",
            f"{value} is committed at {offset} of {key.partition}; its append was refused",
        )

    def _is_gone(self, key: PartitionKey, value: int) -> bool:
        """Return whether a value is deleted there, and its producer id has expired."""
        log, partition = self.ledger.log(key), self.ledger.image.partition(key)
        start = 0 if partition is None else partition.log_start_offset
        return self.ledger.is_forgotten(log, value) and log.offset_of.get(value, start) < start

    def _check_sequences(
        self,
        log: Log,
        key: PartitionKey,
        source: ReplicaState,
        old: PartitionRegistration,
        new: PartitionRegistration,
    ) -> None:
        for batch in source.batches_between(old.high_watermark, new.high_watermark):
            stamp = batch.producer
            if stamp is None:
                continue
            last = log.sequences.get(stamp.producer_id, -1)
            end, epoch = log.last_ends.get(stamp.producer_id, (0, 0))
            if end <= new.log_start_offset and self.ledger.has_expired(stamp.producer_id, epoch):
                last = -1  # its appends are deleted, and its id has expired: nobody knows
            require(
                stamp.sequence > last,
                "I11 idempotence" if stamp.sequence == last else "H6 producer order",
                f"{key.partition}: {stamp.producer_id} has {stamp.sequence} after {last}",
            )
            if stamp.is_consecutive:
                expected = log.next_sequences.get(stamp.producer_id, stamp.sequence)
                is_new_epoch = stamp.sequence >> 40 > expected >> 40 and stamp.sequence % 2**40 == 0
                require(
                    stamp.sequence == expected or is_new_epoch,
                    "I11 consecutive sequences",
                    f"{key.partition}: {stamp.producer_id} has {stamp.sequence}, not {expected}",
                )
                log.next_sequences[stamp.producer_id] = stamp.sequence + batch.record_count
            log.sequences[stamp.producer_id] = stamp.sequence
            log.last_ends[stamp.producer_id] = (batch.end_offset, stamp.producer_epoch)

    def _restart(
        self, key: PartitionKey, old: PartitionRegistration, new: PartitionRegistration
    ) -> None:
        """Begin again after an unclean election: what the new leader has is committed.

        Also if its disk has lost commits: what it has left is what there is. If it has gone
        since it was inspected, nobody has, and nobody can read, what it had.
        """
        require(new.leader is not None, "I1 committed prefix", "an unclean election without leader")
        assert new.leader is not None
        log, mark = self.ledger.log(key), new.high_watermark
        table = self.ledger.disks.replica_table(new, key, new.leader)
        found = log.committed[:mark]
        if table is not None:
            table.is_suspect = False
        if table is not None and table.state.log_end_offset >= mark:
            found = left_of(log, table.state, mark)
        log.sequences, log.next_sequences = {}, {}
        if table is not None and not new.begins_empty:
            log.sequences = _sequences(table.state, mark)
        log.last_ends = {
            each: (mark, self.ledger.image.producers.get(each, 0)) for each in log.sequences
        }
        log.restart(found + [NOBODY_HAS] * (mark - len(found)))
        # Of deleted records only the producers' counters know, which the new leader may lack.
        first = new.log_start_offset
        if table is not None:
            first = max(first, table.state.log_start_offset)
        kept_values = {value: at for at, (value, _) in enumerate(log.committed) if at >= first}
        for value in log.offset_of.keys() - kept_values.keys():
            self.ledger.home_of.pop(value, None)
        log.offset_of = kept_values
        kept = {at: value for at, value in log.acked.items() if log.offset_of.get(value) == at}
        log.acked, log.last_acked = kept, max(kept, default=-1)
        log.high_watermark_read = min(log.high_watermark_read, mark)
        log.unclean_generation = new.unclean_generation
        for each in self.ledger.disks.roots.values():
            for other in each.tables.values():
                other.verified = 0


def may_lose_records(image: MetadataImage, key: PartitionKey) -> bool:
    """Return whether more disks may lose data at once than the topic can do without."""
    return image.settings(key.topic_id).boolean("unclean.leader.election.enable")


def _sequences(state: ReplicaState, mark: int) -> dict[str, int]:
    """Return the last sequence of each producer that a log has below `mark`."""
    stamps = [each.producer for each in state.batches if each.end_offset <= mark]
    return {each.producer_id: each.sequence for each in stamps if each is not None}
