"""Idempotence: whether an append is a duplicate of one in the log, decided inside the commit.

An append is identified by producer and sequence, in any run; the producer epoch only fences.
Sequences rise within a partition and may skip, because one number is used for all partitions of an
append (Kafka has consecutive numbers a partition, KIP-98). The payload digest tells a retry from
another append with the same number.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_on_spark.errors import (
    CorruptLogError,
    DuplicateSequenceError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.log.batch import (
    Batch,
    ProducerStamp,
    StagedBatch,
    WriterFence,
    uuid_in_name,
)
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.state import ProducerCounter, ReplicaState


@dataclass(frozen=True, slots=True)
class AppendedBefore:
    """The append is in the log already.

    Attributes:
        batch: The batch it became; None if retention has removed it.
    """

    batch: Batch | None


def find_append(state: ReplicaState, staged: StagedBatch) -> AppendedBefore | None:
    """Return the earlier append of the same files or the same sequence, or None.

    Raises:
        CorruptLogError: Some of its files are in the log and some are not.
        ProducerFencedError: A newer run of the producer has appended.
        DuplicateSequenceError: The log has the sequence with other records.
        OutOfOrderSequenceError: It is below the producer's last one, and the log does not have it.
    """
    by_files = _find_files(state, staged)
    if by_files is not None:
        return AppendedBefore(by_files)
    if staged.producer is None:
        return None
    return find_sequence(state, staged.producer)


def _find_files(state: ReplicaState, staged: StagedBatch) -> Batch | None:
    wanted = {segment.uuid for segment in staged.segments}
    first_epoch = staged.first_epoch
    for batch in reversed(state.batches):
        if batch.leader_epoch < first_epoch:
            return None
        if not isinstance(batch, Batch):
            continue  # its file's name is of the merge
        for segment in batch.segments:  # written out: a log has thousands of batches
            if uuid_in_name(segment.file_name) in wanted:
                return _whole(batch, wanted)
    return None


def _whole(batch: Batch, wanted: set[str]) -> Batch:
    if not wanted <= {segment.uuid for segment in batch.segments}:
        raise CorruptLogError("a part of an append is in the log", offset=batch.base_offset)
    return batch


def find_sequence(state: ReplicaState, producer: ProducerStamp) -> AppendedBefore | None:
    """Return the append of `producer`'s sequence, or None if the sequence is a new one.

    Raises: as `find_append`.
    """
    counter = state.producers.get(producer.producer_id, ProducerCounter(-1, -1))
    if producer.producer_epoch < counter.producer_epoch:
        raise producer_fenced(producer.producer_id, producer.producer_epoch, counter.producer_epoch)
    last_sequence: int | None = None
    for batch, stamp in _appends_of(state.batches, producer.producer_id):
        if stamp.producer_epoch > producer.producer_epoch:
            raise producer_fenced(
                producer.producer_id, producer.producer_epoch, stamp.producer_epoch
            )
        if stamp.sequence == producer.sequence:
            return _same_payload(batch, stamp, producer)
        last_sequence = stamp.sequence if last_sequence is None else last_sequence
        if producer.sequence > last_sequence:
            return None
    if producer.sequence <= counter.sequence:
        return AppendedBefore(None)
    if last_sequence is None:
        return None
    raise OutOfOrderSequenceError(
        f"producer {producer.producer_id!r} sent sequence {producer.sequence} after"
        f" {last_sequence}: sequences must rise; give each append the next number"
    )


def _appends_of(
    batches: tuple[LogPart, ...], producer_id: str
) -> Iterable[tuple[Batch, ProducerStamp]]:
    for batch in reversed(batches):
        stamp = batch.producer
        if stamp is not None and stamp.producer_id == producer_id and isinstance(batch, Batch):
            yield batch, stamp


def _same_payload(batch: Batch, stamp: ProducerStamp, retry: ProducerStamp) -> AppendedBefore:
    if stamp.payload_digest != retry.payload_digest:
        raise DuplicateSequenceError(
            f"producer {retry.producer_id!r} appended sequence {retry.sequence} before, with"
            " other records: a retry must bring the same records, a new append a new sequence"
        )
    return AppendedBefore(batch)


def producer_fenced(producer_id: str, producer_epoch: int, newer_epoch: int) -> ProducerFencedError:
    """Return the error of a run that a newer one has fenced."""
    return ProducerFencedError(
        f"producer {producer_id!r} was taken over by a newer run: stop this one",
        producer_epoch=producer_epoch,
        newer_epoch=newer_epoch,
    )


def check_writer(state: ReplicaState, writer: WriterFence | None) -> None:
    """Check that no newer writer under the same transactional id has begun to write this log.

    Raises:
        ProducerFencedError: One has.
    """
    if writer is None:
        return
    known = state.producers.get(writer.key)
    if known is not None and known.producer_epoch > writer.epoch:
        raise writer_fenced(writer, known.producer_epoch)


def writer_fenced(writer: WriterFence, newer_epoch: int) -> ProducerFencedError:
    """Return the error of a writer that a newer one has fenced."""
    return ProducerFencedError(
        f"transactional id {writer.transactional_id!r} was taken over by a newer writer, which"
        " fences this one: stop it; if it is the one to go on, restart it (the query, or"
        " Cluster.open), and it takes over in turn",
        producer_epoch=writer.epoch,
        newer_epoch=newer_epoch,
    )


def known_producer(state: ReplicaState, producer_id: str) -> ProducerCounter:
    """Return the last sequence and the newest run of a producer that a log knows; -1: none."""
    found = counters_of(state.batches).get(producer_id, ProducerCounter(-1, -1))
    return found.at_least(state.producers.get(producer_id, found))


def split_of(state: ReplicaState, producer_id: str, sequence: int) -> int | None:
    """Return the partition count by which an append in a log was split, or None."""
    for batch, stamp in _appends_of(state.batches, producer_id):
        if stamp.sequence == sequence:
            return batch.partition_count
        if stamp.sequence < sequence:
            return None
    return None


def counters_of(batches: Iterable[LogPart]) -> dict[str, ProducerCounter]:
    """Return the counters to keep of the producers of `batches` once those are removed."""
    counters: dict[str, ProducerCounter] = {}
    for batch in batches:
        stamp = batch.producer
        if stamp is None:
            continue
        counter = ProducerCounter(stamp.sequence, stamp.producer_epoch)
        counters[stamp.producer_id] = counter.at_least(counters.get(stamp.producer_id, counter))
    return counters


def surviving_counters(state: ReplicaState, log_start_offset: Offset) -> dict[str, ProducerCounter]:
    """Return the counters to write when the log start moves to `log_start_offset`.

    A producer that still has a batch in the log gets one, too: that batch may lie above the high
    watermark and be cut off, and the removed ones must not be forgotten with it. A counter that the
    log has never goes back: it may be the fence of a run that appended nothing.
    """
    removed = [batch for batch in state.batches if batch.end_offset <= log_start_offset]
    return {
        producer_id: counter.at_least(state.producers.get(producer_id, counter))
        for producer_id, counter in counters_of(removed).items()
    }
