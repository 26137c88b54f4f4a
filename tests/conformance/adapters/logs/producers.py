"""Kinds of file 07 about idempotent producers: those of Kafka's clients, whose sequences count records.

Kafka knows a repeat among the last batches of a producer; here every header that stands tells it, and
since several batches may be one append, a part of one is a repeat, too. What Kafka alone refuses is left
out: it changes nothing there.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import ClassVar

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import (
    CLIENT_EPOCH_BITS,
    CLIENT_PREFIX,
    Batch,
    ProducerStamp,
    StagedBatch,
)
from kafka_on_spark.log.producer_state import AppendedBefore, known_producer
from kafka_on_spark.log.state import LogChange
from tests.conformance.logs import in_chain, log_of, segment_of
from tests.conformance.runner import Adapter, Answer, CutOffError, kafka_names

EPOCH = LeaderEpoch(0)
SEQUENCES, TRANSACTIONS = "sequences", "transactions"
NO_SNAPSHOTS = "no-producer-snapshots"
WINDOW, SEQUENCES_END = 5, 2**31
OF_TRANSACTIONS = ("txn_first_offset", "coordinator_epoch")
OF_THE_WINDOW = ("first_seq", "first_offset")


@dataclass(slots=True)
class Known:
    """What Kafka remembers of a producer: its epoch, and its last batches as (first, last)."""

    epoch: int
    batches: list[tuple[int, int]] = field(default_factory=list)


class IdempotentLog(Adapter):
    CUT_OFF: ClassVar = {"append_txn": TRANSACTIONS, "end_txn": TRANSACTIONS}

    def __init__(self, log="empty", log_start_offset=0):
        assert log == "empty", log
        self.state = log_of([], start=log_start_offset, fence=EPOCH)
        self.known: dict[int, Known] = {}
        self.count = 0

    def op_append_leader(self, producer_id, epoch, first_seq, count):
        if self.is_repeat_here(producer_id, epoch, first_seq, count):
            return Answer(None, {"": SEQUENCES})
        return self.tried(producer_id, epoch, first_seq, count)

    def tried(self, producer_id, epoch, first_seq, count):
        """Append as a leader does; what is refused is not known."""
        before = deepcopy(self.known)
        answer = self.append(self.staged(count, producer_id, epoch, first_seq))
        if "error" in answer:
            self.known = before
        return answer

    def op_append_plain(self, count):
        self.append(self.staged(count))

    def op_roll(self):
        """Batches are files of their own already."""

    def op_append_follower(self, producer_id, epoch, base_offset, first_seq, count):
        self.fetch(base_offset, self.staged(count, producer_id, epoch, first_seq))

    def op_append_follower_batches(self, batches, note=None):
        for offset, (producer_id, sequence) in enumerate(batches):
            self.fetch(offset, self.staged(1, producer_id, 0, sequence))

    def staged(self, count, producer_id=None, epoch=0, first_seq=0):
        self.count += 1
        stamp = None
        if producer_id is not None:
            self.note(producer_id, epoch, first_seq, count)
            stamp = ProducerStamp(
                producer_id=f"{CLIENT_PREFIX}{producer_id}",
                producer_epoch=epoch,
                sequence=(epoch << CLIENT_EPOCH_BITS) + first_seq,
                payload_digest=count,
            )
        segment = segment_of(self.count, EPOCH, count)
        return StagedBatch(segments=(segment,), partition_count=1, producer=stamp)

    def is_repeat_here(self, producer_id, epoch, first_seq, count):
        """Return whether Kafka alone knows a batch for none: it is out of its window, or a part."""
        known = self.known.get(producer_id)
        if known is None or epoch != known.epoch or self.is_repeat(known, first_seq, count):
            return False
        last_seq = first_seq + count - 1
        return any(first <= first_seq and last_seq <= last for first, last in known.batches)

    def is_repeat(self, known, first_seq, count):
        return (first_seq, first_seq + count - 1) in known.batches[-WINDOW:]

    def note(self, producer_id, epoch, first_seq, count):
        known = self.known.get(producer_id)
        if known is not None and epoch < known.epoch:
            return
        if known is None or epoch > known.epoch:
            known = self.known[producer_id] = Known(epoch)
        if not self.is_repeat(known, first_seq, count):
            known.batches.append((first_seq, first_seq + count - 1))

    def append(self, staged):
        """Append as a leader does; return where the batch stands."""
        try:
            found = operations.append(self.state, staged, leader_epoch=EPOCH, now_ms=0)
        except KafkaOnSparkError as error:
            return {"error": kafka_names(error), "log_start_offset": self.state.log_start_offset}
        if isinstance(found, LogChange):
            self.state = self.state.apply(found)
            batch = self.state.batches[-1]
        else:
            batch = found.batch
        return {
            "first_offset": batch.base_offset,
            "last_offset": batch.end_offset - 1,
            "duplicate": isinstance(found, AppendedBefore),
        }

    def fetch(self, base_offset, staged):
        """Append as a follower does, which asks no producer."""
        batch = Batch(
            base_offset=Offset(base_offset),
            record_count=staged.record_count,
            leader_epoch=EPOCH,
            partition_count=1,
            producer=staged.producer,
            appended_at_ms=0,
            segments=staged.segments,
        )
        change = operations.append_fetched(
            self.state, in_chain(self.state, [batch]), leader_epoch=EPOCH
        )
        self.state = self.state.apply(change)

    def producers(self):
        stamps = [each.producer for each in self.state.batches if each.producer is not None]
        found = {*(each.producer_id for each in stamps), *self.state.producers}
        return sorted(each.removeprefix(CLIENT_PREFIX) for each in found)

    def expected(self):
        return {
            "log_end_offset": self.state.log_end_offset,
            "active_producers": len(self.producers()),
        }


class ProducerState(IdempotentLog):
    """What a log knows of its producers. Appends name their offsets; other records fill gaps."""

    CUT_OFF: ClassVar = {
        "end_txn_marker": TRANSACTIONS,
        "snapshot_and_reload": SEQUENCES,
        "sleep": SEQUENCES,
        "expire": SEQUENCES,
        "reload_from_snapshot": NO_SNAPSHOTS,
        "delete_snapshots_before": NO_SNAPSHOTS,
    }

    def __init__(self, state="empty", topic=None):
        super().__init__()
        if topic is not None:
            raise CutOffError(TRANSACTIONS)  # what a coordinator writes has no sequence
        assert state == "empty", state
        self.prepared = None
        self.snapshots = set()

    def op_append(
        self,
        producer_id,
        epoch,
        first_seq,
        last_seq,
        offset,
        transactional,
        origin,
        note=None,
        timestamp_ms=None,
    ):
        if transactional:
            raise CutOffError(TRANSACTIONS)
        count = (last_seq - first_seq) % SEQUENCES_END + 1
        if origin == "CLIENT":
            return self.append_at(offset, producer_id, epoch, first_seq, count)
        assert origin == "REPLICATION", origin
        known = self.known.get(producer_id)
        is_behind = known is not None and epoch < known.epoch
        if is_behind or offset < self.state.log_end_offset:
            raise CutOffError(SEQUENCES)  # a leader of ours has refused it before
        staged = self.staged(count, producer_id, epoch, first_seq)
        self.fill(offset)
        self.fetch(offset, staged)
        return {}

    def append_at(self, offset, producer_id, epoch, first_seq, count):
        """Append as a leader does, at an offset; what is refused changes nothing."""
        known = self.known.get(producer_id)
        # Kafka asks its log for repeats, before it asks this.
        if known is not None and epoch == known.epoch and first_seq in dict(known.batches):
            return Answer(None, {"": SEQUENCES})
        if offset < self.state.log_end_offset:
            raise CutOffError(SEQUENCES)  # it is inspected apart from any log
        before = self.state
        self.fill(offset)
        answer = self.tried(producer_id, epoch, first_seq, count)
        if "error" in answer:
            self.state = before
        return answer

    def fill(self, offset):
        missing = offset - self.state.log_end_offset
        if missing:
            self.append(self.staged(missing))

    def op_prepare(self, producer_id, epoch, first_seq, last_seq):
        staged = self.staged(last_seq - first_seq + 1, producer_id, epoch, first_seq)
        self.prepared = operations.append(self.state, staged, leader_epoch=EPOCH, now_ms=0)

    def op_commit_prepared(self):
        self.state = self.state.apply(self.prepared)

    def op_last_entry(self, producer_id):
        entry = self.entry(producer_id)
        if entry is None:
            return None
        return Answer(entry, left_out_of_entries())

    def entry(self, producer_id):
        """Return what the log knows of a producer; None if it knows none of that id."""
        if str(producer_id) not in self.producers():
            return None
        name = f"{CLIENT_PREFIX}{producer_id}"
        known = known_producer(self.state, name)
        batch = next(
            each
            for each in reversed(self.state.batches)
            if each.producer is not None and each.producer.producer_id == name
        )
        return {
            "epoch": known.producer_epoch,
            "last_seq": (known.sequence + batch.record_count - 1) % SEQUENCES_END,
            "last_offset": batch.end_offset - 1,
        }

    def op_snapshot(self):
        self.snapshots.add(self.state.log_end_offset)

    def op_truncate_and_reload(self, start, end):
        """Cut the log; what was known there is known again, if Kafka has kept it, too."""
        is_kept = end in self.snapshots or end == self.state.log_end_offset
        if start > self.state.log_start_offset or not is_kept:
            raise CutOffError(SEQUENCES)
        change = operations.adopt(
            self.state, leader_epoch=LeaderEpoch(EPOCH + 1), truncate_to=end, floor=Offset(0)
        )
        cut = self.state.apply(change)
        self.state = log_of(cut.batches, start=cut.log_start_offset, fence=EPOCH)
        self.snapshots = {each for each in self.snapshots if each <= end}
        self.known = {}
        for batch in cut.batches:
            if (stamp := batch.producer) is not None:
                first_seq = stamp.sequence % SEQUENCES_END
                number = int(stamp.producer_id.removeprefix(CLIENT_PREFIX))
                self.note(number, stamp.producer_epoch, first_seq, batch.record_count)

    def op_high_watermark(self, offset):
        """Kafka tells by it which transactions are decided."""

    def op_first_undecided_offset(self):
        return Answer(None, {"": TRANSACTIONS})

    def op_first_unstable_offset(self):
        return Answer(None, {"": TRANSACTIONS})

    def op_snapshot_offsets(self):
        return Answer(None, {"": NO_SNAPSHOTS})

    def expected(self):
        value = {
            "producers": {each: self.entry(each) for each in self.producers()},
            "map_end_offset": self.state.log_end_offset,
        }
        return Answer(value, left_out_of_entries())


def left_out_of_entries():
    """Return why parts of an entry are not compared."""
    return dict.fromkeys(OF_TRANSACTIONS, TRANSACTIONS) | dict.fromkeys(OF_THE_WINDOW, SEQUENCES)
