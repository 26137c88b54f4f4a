"""Idempotence: whether an append is a duplicate of one in the log, decided inside the commit.

An append is identified by producer and sequence, in any run; the producer epoch only fences.
Sequences rise within a partition and may skip, because one number is used for all partitions of an
append. Those of a client of Kafka's protocol count the records of a partition (KIP-98): each append
begins where the one before ends, and at 0 in a new epoch. The payload digest, which is that of the
whole append, tells a retry from another append with the same number; a log that has only the number
left says that nobody knows.

Retention, merging and compaction take headers away. Before that their producers are entered in the
log's producer state, one entry an id. What is entered of an offset that the log has not reached, or
was cut at, says only that nobody knows: it must never be taken for a record that stands.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    CorruptLogError,
    DuplicateSequenceError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import LeaderEpoch, Offset, ProducerEpoch
from kafka_on_spark.log.batch import (
    CLIENT_EPOCH_BITS,
    Batch,
    LogPart,
    MergedSegment,
    ProducerStamp,
    StagedBatch,
    WriterFence,
)
from kafka_on_spark.log.state import (
    LastAppend,
    LogChange,
    ProducerEntries,
    ProducerEntry,
    ReplicaState,
    check_leader_epoch,
)
from kafka_on_spark.metadata.image import MetadataImage

_FILE_NAME: Final = re.compile(r"producers-([0-9]{20})\.parquet")


def producers_file_name(number: int) -> str:
    return f"producers-{number:020d}.parquet"


def producers_file_number(name: str) -> int | None:
    found = _FILE_NAME.fullmatch(name)
    return None if found is None else int(found[1])


class ProducersFile(NamedTuple):
    """Which producer-state file of a replica counts, as its commits say.

    A number alone does not tell: where a disk has lost the file, a writer that slept may put under
    its number what it would have committed before.

    Attributes:
        number: In its name; 0: there is no file.
        digest: Of what is in it, 63 bits.
    """

    number: int
    digest: int


NO_FILE: Final = ProducersFile(0, 0)


def with_batches(entries: ProducerEntries, batches: Iterable[LogPart]) -> ProducerEntries:
    """Return `entries` after the headers of `batches` went; the same object if none had a
    producer."""
    after: dict[str, ProducerEntry] = {}
    for batch in batches:
        stamp = batch.producer
        if stamp is None or not isinstance(batch, Batch):
            continue
        new = ProducerEntry(producer_epoch=stamp.producer_epoch)
        known = after.get(stamp.producer_id) or entries.get(stamp.producer_id) or new
        after[stamp.producer_id] = known.with_append(
            stamp.producer_epoch,
            LastAppend(
                sequence=stamp.sequence,
                base_offset=batch.base_offset,
                record_count=batch.record_count,
                payload_digest=stamp.payload_digest,
                partition_count=batch.partition_count,
                appended_at_ms=batch.appended_at_ms,
            ),
        )
    return {**entries, **after} if after else entries


def not_above(entries: ProducerEntries, end_offset: Offset) -> ProducerEntries:
    """Return the entries of a log that ends at `end_offset`; the same object if all lie below."""
    if all(each.last is None or each.last.base_offset < end_offset for each in entries.values()):
        return entries
    return {producer_id: each.not_above(end_offset) for producer_id, each in entries.items()}


def united(own: ProducerEntries, leaders: ProducerEntries) -> ProducerEntries:
    """Return a follower's entries with those of its leader, as they were read.

    Whoever takes from a leader what has no headers (a merged segment, a later log start) needs what
    the leader knows of those.
    """
    return {
        **own,
        **{
            producer_id: own[producer_id].united_with(each) if producer_id in own else each
            for producer_id, each in leaders.items()
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProducers:
    """Which producer ids the cluster knows.

    Attributes:
        ids: The ids that have not expired, as of some moment; an image's own mapping, as a rule,
            since a copy of it for each append would cost too much.
        expired_epoch: The highest epoch of those that have expired by then. An id that comes back,
            or is new, begins above it.
    """

    ids: Collection[str]
    expired_epoch: int

    def without_expired(self, entries: ProducerEntries) -> ProducerEntries:
        """Return the entries but those of ids that have expired.

        These values may be old: an id that was registered since has a later epoch, and stays.
        """
        expired = [
            producer_id
            for producer_id, entry in entries.items()
            if producer_id not in self.ids and entry.producer_epoch <= self.expired_epoch
        ]
        if not expired:
            return entries
        gone = frozenset(expired)
        return {name: entry for name, entry in entries.items() if name not in gone}


def registered_producers(image: MetadataImage) -> RegisteredProducers | None:
    """Return which producer ids have not expired; None: none ever has."""
    if image.expired_epoch < 0:
        return None
    return RegisteredProducers(ids=image.producers, expired_epoch=image.expired_epoch)


_WRAP: Final = 2**31
"""A client's sequence begins again at 0 there."""

_NO_ENTRY: Final = ProducerEntry(producer_epoch=ProducerEpoch(0))


@dataclass(frozen=True, slots=True)
class AppendedBefore:
    """The append is in the log already, as `batch`; without one, since its header went, as the
    `last` append of its producer."""

    batch: Batch | None
    last: LastAppend | None = None


def find_append(state: ReplicaState, staged: StagedBatch) -> AppendedBefore | None:
    """Return the earlier append of the same files or the same sequence, or None.

    Raises:
        CorruptLogError: Some of its files are in the log and some are not.
        ProducerFencedError: A newer run of the producer has appended.
        DuplicateSequenceError: The log has the sequence with other records.
        OutOfOrderSequenceError: It is below the producer's last one, and the log does not have it.
        UnknownProducerIdError: Nobody knows whether the log has it, or with which records.
    """
    wanted = {segment.uuid for segment in staged.segments}
    first_epoch = staged.first_epoch
    for batch in state.batches_with(wanted):
        if batch.leader_epoch < first_epoch:
            break
        if isinstance(batch, Batch):  # else its file's name is of the merge
            if not wanted <= {segment.uuid for segment in batch.segments}:
                raise CorruptLogError("a part of an append is in the log", offset=batch.base_offset)
            return AppendedBefore(batch)
    producer = staged.producer
    if producer is not None and producer.is_consecutive:
        return _find_range(state, numbered(state, producer), staged.record_count)
    return None if producer is None else find_sequence(state, producer)


def find_sequence(state: ReplicaState, producer: ProducerStamp) -> AppendedBefore | None:
    """Return the append of `producer`'s sequence, by headers, then by entries; None: it is new."""
    entry = state.producers.get(producer.producer_id, _NO_ENTRY)
    if producer.producer_epoch < entry.producer_epoch:
        raise producer_fenced(producer.producer_id, producer.producer_epoch, entry.producer_epoch)
    last_sequence: int | None = None
    for batch, stamp in _appends_of(state.batches, producer.producer_id):
        if stamp.producer_epoch > producer.producer_epoch:
            raise producer_fenced(
                producer.producer_id, producer.producer_epoch, stamp.producer_epoch
            )
        if stamp.sequence == producer.sequence:
            _check_payload(producer, stamp.payload_digest, batch)
            return AppendedBefore(batch)
        last_sequence = stamp.sequence if last_sequence is None else last_sequence
        if producer.sequence > last_sequence:
            break
    found = _find_in_entry(state, entry, producer)
    if found is not None or last_sequence is None or producer.sequence > last_sequence:
        return found
    raise OutOfOrderSequenceError(
        f"producer {producer.producer_id!r} sent sequence {producer.sequence} after"
        f" {last_sequence}: sequences must rise; give each append the next number"
    )


# Clients of Kafka's protocol


class _Last(NamedTuple):
    """A producer's last append that a log knows."""

    sequence: int
    record_count: int


def _find_range(
    state: ReplicaState, producer: ProducerStamp, record_count: int
) -> AppendedBefore | None:
    """Return the append of a client that has all of some sequences: it may have been put together
    with others, and comes again alone. None: they are new, and follow its last ones, or the log
    knows none of the client. Source: ProducerAppendInfo.checkSequence."""
    producer_id, begin = producer.producer_id, producer.sequence
    end = begin + record_count
    entry = state.producers.get(producer_id, _NO_ENTRY).not_above(state.log_end_offset)
    known = known_producer(state, producer_id)
    if producer.producer_epoch < known.producer_epoch:
        raise producer_fenced(producer_id, producer.producer_epoch, known.producer_epoch)
    for batch, stamp in _appends_of(state.batches, producer_id):
        if _has_range(stamp, batch.record_count, producer, end):
            return AppendedBefore(batch)
        if stamp.sequence < begin:
            break
    if entry.last is not None and _has_range(entry.last, entry.last.record_count, producer, end):
        return AppendedBefore(None, entry.last)
    if begin <= entry.unknown_to:
        raise _is_unknown(producer, entry)
    last = _last_append(state, producer_id)
    if last is None or begin == (expected := next_sequence(*last, begin)):
        return None
    raise OutOfOrderSequenceError(
        f"producer {producer_id!r} sent sequence {begin % _WRAP} where {expected % _WRAP} follows:"
        " an append before it is missing, or it is no repeat that the log knows"
    )


def _has_range(
    stands: ProducerStamp | LastAppend, record_count: int, producer: ProducerStamp, end: int
) -> bool:
    """Return whether an append has all sequences of another; of the same ones the records count."""
    begin, of_same = stands.sequence, (stands.sequence, record_count)
    if of_same == (producer.sequence, end - producer.sequence):
        return stands.payload_digest == producer.payload_digest
    return begin <= producer.sequence and end <= begin + record_count


def _last_append(state: ReplicaState, producer_id: str) -> _Last | None:
    found = [
        _Last(stamp.sequence, batch.record_count)
        for batch, stamp in islice(_appends_of(state.batches, producer_id), 1)
    ]
    last = state.producers.get(producer_id, _NO_ENTRY).not_above(state.log_end_offset).last
    if last is not None:
        found.append(_Last(last.sequence, last.record_count))
    return max(found, default=None)


def numbered(state: ReplicaState, producer: ProducerStamp) -> ProducerStamp:
    """Return the stamp under which an append stands. A client's sequence has 31 bits: it is the
    number nearest to where the last append in its epoch ends. Source:
    DefaultRecordBatch.incrementSequence."""
    last = _last_append(state, producer.producer_id) if producer.is_consecutive else None
    if last is None or (last.sequence ^ producer.sequence) >> CLIENT_EPOCH_BITS:
        return producer
    wraps = (next_sequence(*last, producer.sequence) - producer.sequence + _WRAP // 2) // _WRAP
    return replace(producer, sequence=producer.sequence + max(wraps, 0) * _WRAP)


def next_sequence(last_sequence: int, record_count: int, sequence: int) -> int:
    """Return what a client's sequence has to be, in its epoch: where its last append ends, or 0 in
    a new epoch. Source: ProducerAppendInfo.checkSequence."""
    begin = sequence >> CLIENT_EPOCH_BITS << CLIENT_EPOCH_BITS
    return last_sequence + record_count if last_sequence >= begin else begin


def _find_in_entry(
    state: ReplicaState, entry: ProducerEntry, producer: ProducerStamp
) -> AppendedBefore | None:
    """Return an append whose header went, or None: the sequence is above what the entry knows."""
    entry = entry.not_above(state.log_end_offset)
    last = entry.last
    if last is not None and producer.sequence == last.sequence:
        _check_payload(producer, last.payload_digest, last)
        return AppendedBefore(None, last)
    if producer.sequence <= entry.unknown_to:
        raise _is_unknown(producer, entry)
    if producer.sequence > entry.sequence:
        return None
    raise UnknownProducerIdError(
        f"which records sequence {producer.sequence} of producer {producer.producer_id!r} had is"
        f" not known any more, since the log keeps that of its last one only, {entry.sequence}:"
        " read the topic, and append what is missing with a later sequence; a query's checkpoint is"
        " older than the topic: put the newest one back, or start it with a new checkpointLocation"
    )


def _is_unknown(producer: ProducerStamp, entry: ProducerEntry) -> UnknownProducerIdError:
    return UnknownProducerIdError(
        f"whether sequence {producer.sequence} of producer {producer.producer_id!r} stands in the"
        f" log is not known, for sequences up to {entry.unknown_to}: an unclean election may have"
        " lost it; read the topic, and append what is missing with a later sequence"
    )


def _appends_of(
    batches: tuple[LogPart, ...], producer_id: str
) -> Iterable[tuple[Batch, ProducerStamp]]:
    for batch in reversed(batches):
        stamp = batch.producer
        if stamp is not None and stamp.producer_id == producer_id and isinstance(batch, Batch):
            yield batch, stamp


def _check_payload(retry: ProducerStamp, payload_digest: int, stands: Batch | LastAppend) -> None:
    if payload_digest != retry.payload_digest:
        raise DuplicateSequenceError(
            f"producer {retry.producer_id!r} appended sequence {retry.sequence} before, with"
            " other records: a retry must bring the same records, a new append a new sequence",
            base_offset=stands.base_offset,
            record_count=stands.record_count,
        )


def producer_fenced(producer_id: str, producer_epoch: int, newer_epoch: int) -> ProducerFencedError:
    return ProducerFencedError(
        f"producer {producer_id!r} was taken over by a newer run: stop this one",
        producer_epoch=producer_epoch,
        newer_epoch=newer_epoch,
    )


def check_writer(state: ReplicaState, writer: WriterFence) -> None:
    """Check that no newer writer under the same transactional id has begun to write this log."""
    known = state.producers.get(writer.key)
    if known is not None and known.producer_epoch > writer.epoch:
        raise writer_fenced(writer, known.producer_epoch)


def writer_fenced(writer: WriterFence, newer_epoch: int) -> ProducerFencedError:
    return ProducerFencedError(
        f"transactional id {writer.transactional_id!r} was taken over by a newer writer, which"
        " fences this one: stop it; if it is the one to go on, restart it (the query, or"
        " Cluster.open), and it takes over in turn",
        producer_epoch=writer.epoch,
        newer_epoch=newer_epoch,
    )


def may_have_forgotten(state: ReplicaState) -> bool:
    """Return whether a log may have forgotten producers: headers went, and their entries go once
    an id has expired.

    It says so of every log that was merged, or has lost records at its start, whatever it knows of
    one producer: older headers may stand where newer ones went.
    """
    return state.log_start_offset > 0 or any(
        isinstance(part, MergedSegment) for part in state.batches
    )


class KnownProducer(NamedTuple):
    """The last sequence and the newest run of a producer that a log knows; -1: none."""

    sequence: int
    producer_epoch: int


def known_producer(state: ReplicaState, producer_id: str) -> KnownProducer:
    entry = state.producers.get(producer_id)
    sequence, epoch = (-1, -1) if entry is None else (entry.sequence, int(entry.producer_epoch))
    for _, stamp in _appends_of(state.batches, producer_id):
        sequence, epoch = max(sequence, stamp.sequence), max(epoch, stamp.producer_epoch)
    return KnownProducer(sequence, epoch)


def partition_count_of(state: ReplicaState, producer_id: str, sequence: int) -> int | None:
    """Return the partition count by which an append in a log was split, or None.

    Of those whose headers went only the producer's last one tells; an older one may have been
    split otherwise, since the topic may have grown between both.
    """
    for batch, stamp in _appends_of(state.batches, producer_id):
        if stamp.sequence == sequence:
            return batch.partition_count
        if stamp.sequence < sequence:
            break
    last = state.producers.get(producer_id, _NO_ENTRY).not_above(state.log_end_offset).last
    return last.partition_count if last is not None and last.sequence == sequence else None


def entries_without(
    state: ReplicaState,
    removed: Iterable[LogPart],
    registered: RegisteredProducers | None = None,
) -> ProducerEntries | None:
    """Return the entries to write in the commit that takes the headers of `removed` out of a log.

    None: they stay as they are, and no file is written. For every commit that takes headers:
    retention, merging, compaction. A producer that still has a batch in the log gets an entry, too:
    that batch may be above the high watermark and be cut, and what went must not be forgotten with
    it. An entry that the log has never goes back: it may be the fence of a run that appended
    nothing. `registered`: the ids that the cluster knows, if at hand; the entries of others go.
    """
    after = with_batches(state.producers, removed)
    if after is state.producers:
        return None
    return after if registered is None else registered.without_expired(after)


def fence_producer(
    state: ReplicaState,
    producer_id: str,
    producer_epoch: ProducerEpoch,
    *,
    leader_epoch: LeaderEpoch,
    registered: RegisteredProducers | None = None,
) -> LogChange:
    """Decide to write a producer's epoch, so that none of its older runs can append.

    It is also written if the log has it already: the commit itself excludes an append that was
    tried at this version and never answered.
    """
    check_leader_epoch(state.leader_epoch, leader_epoch)
    known = known_producer(state, producer_id)
    if known.producer_epoch > producer_epoch:
        raise producer_fenced(producer_id, producer_epoch, known.producer_epoch)
    entry = state.producers.get(producer_id, ProducerEntry(producer_epoch=producer_epoch))
    fenced = replace(entry, producer_epoch=producer_epoch)
    producers = state.producers
    if fenced != producers.get(producer_id):
        producers = {**producers, producer_id: fenced}
        producers = producers if registered is None else registered.without_expired(producers)
    return state.changed("fence_producer", producers=producers)


def fence_writer(
    state: ReplicaState,
    writer: WriterFence,
    *,
    leader_epoch: LeaderEpoch,
    registered: RegisteredProducers | None = None,
) -> LogChange | None:
    """Decide to write a writer's epoch before its first append, so that no older one appends after.

    None if the log has it already.
    """
    check_leader_epoch(state.leader_epoch, leader_epoch)
    check_writer(state, writer)
    known = state.producers.get(writer.key)
    if known is not None and known.producer_epoch == writer.epoch:
        return None
    return fence_producer(
        state, writer.key, writer.epoch, leader_epoch=leader_epoch, registered=registered
    )


def find_put(state: ReplicaState, puts: Sequence[Batch]) -> Batch | None:
    """Return which commit of one append stands in a log, also after its batch was merged; or None.

    `puts`: the commits, each of which has succeeded or has an unknown outcome. They are found by
    the chain digest, never by offset and epoch alone: a table that was set back has other records
    there under the same epoch. Once a batch is merged, its files' names are gone, and the digest
    stands among the borders in the merged segment's file.

    Raises:
        CommitOutcomeUnknownError: Nobody can tell, since compaction has dropped the borders there,
            or retention the records.
    """
    kept_from = state.batches[0].base_offset if state.batches else state.log_end_offset
    for each in puts:
        if state.chain_at(each.end_offset) == each.chain_digest:
            return each
    for each in puts:
        is_compacted = _is_compacted_over(state, each.end_offset)
        if is_compacted or each.end_offset < kept_from:
            raise CommitOutcomeUnknownError(
                "the records where the append would stand were"
                f" {'compacted' if is_compacted else 'deleted'} meanwhile: the log does not tell"
                " any more whether it stood there",
                end_offset=each.end_offset,
            )
    return None


def _is_compacted_over(state: ReplicaState, offset: Offset) -> bool:
    """Return whether a border at `offset` may have been there, and compaction have dropped it.

    A file that a merge has made of compacted and other parts keeps the borders of the others.
    """
    merged = state.merged_over(offset)
    is_in_front = offset < state.compaction.compacted_below
    return merged is not None and (is_in_front or not merged.borders)
