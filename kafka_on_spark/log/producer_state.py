"""Idempotence: whether an append is a duplicate of one in the log, decided inside the commit.

The identity of an append is (producer, sequence), whatever the run: the producer epoch only
fences. Sequences rise within a partition and may skip, because the same number is used for all
partitions of an append (Kafka's rule, consecutive numbers a partition, is replaced by this one;
KIP-98). The digest tells a retry from another append under the same number (FAULTS b.33).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_on_spark.errors import (
    CorruptLogError,
    DuplicateSequenceError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from kafka_on_spark.log.batch import Batch, ProducerStamp, StagedBatch, WriterFence
from kafka_on_spark.log.state import ProducerCounter, ReplicaState


@dataclass(frozen=True, slots=True)
class AppendedBefore:
    """The append stands in the log already.

    Attributes:
        batch: The batch it became; None if retention has removed it.
    """

    batch: Batch | None


def find_append(state: ReplicaState, staged: StagedBatch) -> AppendedBefore | None:
    """Return the earlier append of the same files or the same sequence, or None.

    Raises:
        CorruptLogError: Some of its files are in the log and some are not.
        ProducerFencedError: A newer run of the producer has appended.
        DuplicateSequenceError: The sequence stands there with other records.
        OutOfOrderSequenceError: It is below the producer's last and stands nowhere.
    """
    by_files = _find_files(state, staged)
    if by_files is not None:
        return AppendedBefore(by_files)
    if staged.producer is None:
        return None
    return find_sequence(state, staged.producer)


def _find_files(state: ReplicaState, staged: StagedBatch) -> Batch | None:
    wanted = {segment.uuid for segment in staged.segments}
    for batch in reversed(state.batches):
        if batch.leader_epoch < staged.first_epoch:
            return None
        found = wanted & {segment.uuid for segment in batch.segments}
        if found and len(found) < len(wanted):
            raise CorruptLogError("a part of an append is in the log", offset=batch.base_offset)
        if found:
            return batch
    return None


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
    batches: tuple[Batch, ...], producer_id: str
) -> Iterable[tuple[Batch, ProducerStamp]]:
    for batch in reversed(batches):
        if batch.producer is not None and batch.producer.producer_id == producer_id:
            yield batch, batch.producer


def _same_payload(batch: Batch, stamp: ProducerStamp, retry: ProducerStamp) -> AppendedBefore:
    if stamp.payload_digest != retry.payload_digest:
        raise DuplicateSequenceError(
            f"producer {retry.producer_id!r} appended sequence {retry.sequence} before, with"
            " other records: a retry must bring the same records, a new append a new sequence"
        )
    return AppendedBefore(batch)


def producer_fenced(producer_id: str, producer_epoch: int, newer_epoch: int) -> ProducerFencedError:
    """Return the error for a run that a newer one has taken over from."""
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
    """Return the error for a writer that a newer one has taken over from."""
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
    """Return by how many partitions an append was split that stands in a log, or None."""
    for batch, stamp in _appends_of(state.batches, producer_id):
        if stamp.sequence == sequence:
            return batch.partition_count
        if stamp.sequence < sequence:
            return None
    return None


def counters_of(batches: Iterable[Batch]) -> dict[str, ProducerCounter]:
    """Return what must be remembered of the producers of `batches` once those are removed."""
    counters: dict[str, ProducerCounter] = {}
    for batch in batches:
        stamp = batch.producer
        if stamp is None:
            continue
        counter = ProducerCounter(stamp.sequence, stamp.producer_epoch)
        counters[stamp.producer_id] = counter.at_least(counters.get(stamp.producer_id, counter))
    return counters
