"""A replica: where it is, its log at one version of its table, what that proves, and a change.

Every operation is a function of a ReplicaState that returns a LogChange, or what makes it needless;
the table commits the change at the next version, or not at all. Only `apply` makes a new state, in
the fake and in the real table alike, so the effect of a commit is written down once.

The chain has one digest at each border, which stands for everything below it: the digest of a
segment is computed from the digest before it, the segment's header, and the digest in its file's
name. So two logs whose chains compute and agree at an offset are the same below it. A digest in a
header is only a claim. Code that proves a log, counts its end, takes from it or audits it computes
the chain; a digest that does not compute is an error of the table that holds it. That of a merged
segment can't be computed and is taken: the chain goes on from it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from json.encoder import encode_basestring_ascii as as_json
from operator import attrgetter
from struct import Struct
from typing import Final, Self

from kafka_on_spark.base.config import HOLD
from kafka_on_spark.base.errors import (
    CorruptLogError,
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.base.ids import (
    NO_CHAIN,
    BrokerId,
    ChainDigest,
    DirectoryId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    ProducerEpoch,
    ReplicaUuid,
    TopicId,
    ensure,
)
from kafka_on_spark.log.batch import Batch, Border, LogPart, MergedSegment
from kafka_on_spark.log.compaction import NO_PROGRESS, CompactionProgress
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration, has_all_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAppend:
    """The last append of a producer to a partition; `payload_digest` as in ProducerStamp, and
    `partition_count` of the topic when it was split."""

    sequence: int
    base_offset: Offset
    record_count: int
    payload_digest: int
    partition_count: int
    appended_at_ms: int

    def __post_init__(self) -> None:
        ensure(self.sequence >= 0 and self.base_offset >= 0 and self.record_count > 0, self)
        ensure(self.partition_count > 0 and -(2**63) <= self.payload_digest < 2**63, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """What a log keeps of one producer, or of the writers under one transactional id.

    Attributes:
        producer_epoch: Its newest run; a lower one is fenced.
        last: Its last append of those whose headers went; None: only fenced.
        unknown_to: Of sequences up to this one nobody knows whether they stand, but for `last` and
            those in headers; -1: there is none.
    """

    producer_epoch: ProducerEpoch
    last: LastAppend | None = None
    unknown_to: int = -1

    @property
    def sequence(self) -> int:
        """The highest sequence that it knows, or -1."""
        return max(self.unknown_to, -1 if self.last is None else self.last.sequence)

    def with_append(self, producer_epoch: ProducerEpoch, append: LastAppend) -> Self:
        is_newer = self.last is None or append.sequence > self.last.sequence
        return replace(
            self,
            producer_epoch=max(self.producer_epoch, producer_epoch),
            last=append if is_newer else self.last,
        )

    def not_above(self, end_offset: Offset) -> Self:
        """Return the entry of a log that ends at `end_offset`: a last append at or above it may
        not stand, nor those before it that it has replaced here."""
        if self.last is None or self.last.base_offset < end_offset:
            return self
        return replace(self, last=None, unknown_to=self.sequence)

    def united_with(self, leaders: Self) -> Self:
        """Return the entry of a follower that has this one and takes its leader's."""
        lasts = [each.last for each in (leaders, self) if each.last is not None]
        is_vouched = leaders.last is not None and leaders.last.sequence >= self.unknown_to
        return replace(
            self,
            producer_epoch=max(self.producer_epoch, leaders.producer_epoch),
            last=max(lasts, key=lambda each: each.sequence, default=None),
            unknown_to=leaders.unknown_to
            if is_vouched
            else max(self.unknown_to, leaders.unknown_to),
        )


ProducerEntries = Mapping[str, ProducerEntry]
"""Entries by producer id, or by the key of a writer's fence. Never changed."""

_BASE_OFFSET: Final = attrgetter("base_offset")
_END_OFFSET: Final = attrgetter("end_offset")

DIGEST_BYTES: Final = 16
_HALVES: Final = Struct(">qq")


def batch_digests(
    before: ChainDigest, topic_id: TopicId, partition: int, batch: Batch
) -> tuple[ChainDigest, ...]:
    """Return the chain digest at the end of each segment of `batch`, computed from `before`.

    The batch's own digests are not read. Each digest is BLAKE2b of 16 bytes over one JSON array in
    ASCII without spaces; the text is built here because `json.dumps` takes several times as long.
    """
    stamp = batch.producer
    where = f"{as_json(topic_id)},{partition}"
    producer = (
        "null,null,null,null"
        if stamp is None
        else f"{as_json(stamp.producer_id)},{stamp.producer_epoch},{stamp.sequence},"
        f"{stamp.payload_digest}"
    )
    header = (
        f"{batch.base_offset},{batch.record_count},{batch.partition_count},{batch.leader_epoch},"
        f"{producer},{int(batch.has_append_time)},{batch.appended_at_ms},null"
    )
    digests = []
    base_offset = int(batch.base_offset)
    for segment in batch.segments:
        end_offset = base_offset + segment.record_count
        text = f'["{before}",{where},{base_offset},{end_offset},{header},{as_json(segment.digest)}]'
        digest = blake2b(text.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()
        before = ChainDigest(digest)
        digests.append(before)
        base_offset = end_offset
    return tuple(digests)


def check_chain(
    before: ChainDigest, topic_id: TopicId, partition: int, batches: Iterable[LogPart]
) -> ChainDigest:
    """Check that the digests in the headers of `batches` compute; return the one at their end."""
    for batch in batches:
        if isinstance(batch, Batch) and batch.chain_digests != batch_digests(
            before, topic_id, partition, batch
        ):
            raise CorruptLogError(
                "the chain digest of a batch does not compute",
                base_offset=batch.base_offset,
                claimed=batch.chain_digests,
            )
        before = batch.chain_digest
    return before


def halves(digest: ChainDigest) -> tuple[int, int]:
    """Return a digest as two signed numbers of 64 bits, high and low, for counters."""
    high, low = _HALVES.unpack(bytes.fromhex(digest))
    return high, low


def from_halves(high: int | None, low: int | None) -> ChainDigest:
    """Return the digest in two counters; without them, that of an empty chain."""
    if high is None or low is None:
        return NO_CHAIN
    return ChainDigest(f"{high % 2**64:016x}{low % 2**64:016x}")  # damage may be any number


UNINDEXED_MAX: Final = 64
"""Batches that a log grows by before they are taken in: that copies the index."""


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The files of the first `count` batches of a log.

    Attributes:
        places: The newest of these that has a file, by the file's uuid; 0 is the first of the log.
    """

    count: int = 0
    places: Mapping[str, int] = field(default_factory=dict)

    def grown(self, batches: Sequence[LogPart]) -> Self:
        """Return the index of `batches`, which begin with those that it covers, unless few lack."""
        if len(batches) - self.count <= UNINDEXED_MAX:
            return self
        places = dict(self.places)
        for place in range(self.count, len(batches)):
            uuids = (segment.uuid for segment in batches[place].segments)
            places |= dict.fromkeys(uuids, place)
        return type(self)(len(batches), places)


NO_FILES: Final = FileIndex()
"""Covers no batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    """The replica that a table is, as its properties say from version 0 on; of a disk that is a
    copy they name the original's directory."""

    topic_id: TopicId
    partition: int
    broker_id: BrokerId
    directory_id: DirectoryId
    replica_uuid: ReplicaUuid


DELETE_DELAY_MS: Final = 3_600_000
"""The default of file.delete.delay.ms."""

TOPIC_NAME_MAX: Final = 255 - len("-") - 32
"""Letters of a topic's name in a folder's, which has 255 on local disks; a topic's may have 249."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAddress:
    """Where a replica is and which one it must be. Picklable: tasks get these.

    Attributes:
        topic: The topic's name, for people who read the folder's path.
        directory_id: The disk that it was created on, or is to be created on.
        is_flushed: Every commit is flushed before it counts (flush.messages=1).
        delete_delay_ms: How long what it removes stays (file.delete.delay.ms), if it is to be
            created.
        held_until_ms: Until when no old commit is deleted (delete.hold.until.ms).
        registered_voters: Of the metadata log that names the replica, all that it ever had: the
            root must obey one of them to be fenced or deleted from.
    """

    root: str
    topic: str
    key: PartitionKey
    broker_id: BrokerId
    directory_id: DirectoryId
    replica_uuid: ReplicaUuid
    is_flushed: bool = True
    delete_delay_ms: int = field(default=DELETE_DELAY_MS, compare=False)
    registered_voters: tuple[str, ...] = field(default=(), compare=False)
    held_until_ms: int = field(default=0, compare=False)

    @property
    def identity(self) -> ReplicaIdentity:
        return ReplicaIdentity(
            topic_id=self.key.topic_id,
            partition=self.key.partition,
            broker_id=self.broker_id,
            directory_id=self.directory_id,
            replica_uuid=self.replica_uuid,
        )

    @property
    def folder(self) -> str:
        """Its folder: topic id and replica uuid are in the path, and of the topic's name, for
        people, what a folder's has room for."""
        topic = f"{self.topic[:TOPIC_NAME_MAX]}-{self.key.topic_id}"
        return f"{self.root}/{topic}/{self.key.partition}-{self.replica_uuid}"


def address_of(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    broker_id: BrokerId,
    *,
    directory_id: DirectoryId | None = None,
) -> ReplicaAddress:
    """Return the address of a replica. `directory_id`: the disk to create it on, if it is not
    created."""
    created_on = directory_id or partition.directory_of(broker_id)
    assert created_on is not None, "a replica that was not created has no address"
    settings = image.settings(key.topic_id)
    return ReplicaAddress(
        root=image.brokers[broker_id].root,
        topic=image.topics[key.topic_id].name,
        key=key,
        broker_id=broker_id,
        directory_id=created_on,
        replica_uuid=partition.uuid_of(broker_id),
        is_flushed=settings.is_flushed,
        delete_delay_ms=settings.delete_delay_ms,
        registered_voters=image.registered_voters,
        held_until_ms=settings.integer(HOLD),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One replica's log, as of `version` of its table.

    Attributes:
        log_start_offset: First offset still kept; may lie inside the first batch.
        leader_epoch: The fence: the highest leadership this replica has adopted; None
            before the first.
        batches: Batches and merged segments in offset order; what they cover is dense.
        producers: Entries of producers whose headers went (log/producer_state.py), and of fences.
        chain_before: Chain digest before the first batch that is kept; of an emptied log, at
            its end.
        files: The files of its first batches; follows from `batches`. Who replaces those begins
            with none.
    """

    identity: ReplicaIdentity
    version: int = 0
    log_start_offset: Offset = Offset(0)
    log_end_offset: Offset = Offset(0)
    leader_epoch: LeaderEpoch | None = None
    batches: tuple[LogPart, ...] = ()
    producers: ProducerEntries = field(default_factory=dict)
    chain_before: ChainDigest = NO_CHAIN
    compaction: CompactionProgress = NO_PROGRESS
    files: FileIndex = field(default=NO_FILES, init=False, repr=False, compare=False)

    def batch_index_at(self, offset: Offset) -> int | None:
        """Return the place of the batch that covers `offset`, or None if none does."""
        place = bisect_right(self.batches, offset, key=_BASE_OFFSET) - 1
        if place < 0 or offset >= self.batches[place].end_offset:
            return None
        return place

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        place = self.batch_index_at(offset)
        return None if place is None else self.batches[place].leader_epoch

    def batches_between(self, start_offset: Offset, end_offset: Offset) -> tuple[LogPart, ...]:
        """Return the batches that cover any of ``[start_offset, end_offset)``."""
        first = bisect_right(self.batches, start_offset, key=_END_OFFSET)
        last = bisect_right(self.batches, end_offset - 1, key=_BASE_OFFSET)
        return self.batches[first:last]

    def batches_with(self, uuids: Collection[str]) -> Iterator[LogPart]:
        """Yield the batches that have any of the files of these uuids, the newest first."""
        batches, files = self.batches, self.files
        for place in range(len(batches) - 1, files.count - 1, -1):
            for segment in batches[place].segments:  # written out: this is most of an append
                if segment.uuid in uuids:
                    yield batches[place]
                    break
        places = {files.places[uuid] for uuid in uuids if uuid in files.places}
        for place in sorted(places, reverse=True):
            yield batches[place]

    @property
    def chain_digest(self) -> ChainDigest:
        return self.batches[-1].chain_digest if self.batches else self.chain_before

    def chain_at(self, offset: Offset) -> ChainDigest | None:
        """Return the chain digest at `offset`, or None where no batch begins or ends.

        Inside a merged segment None says nothing if its borders were not read: see `merged_over`.
        """
        found = next(self.borders_down_from(offset), None)
        return found[1] if found is not None and found[0] == offset else None

    def with_borders(self, merged: MergedSegment, borders: tuple[Border, ...]) -> Self:
        """Return the same log with the borders that were read from the file of `merged`."""
        place = self.batch_index_at(merged.base_offset)
        assert place is not None, "it is in the log"
        known = replace(merged, borders=borders)
        return replace(self, batches=(*self.batches[:place], known, *self.batches[place + 1 :]))

    def merged_over(self, offset: Offset) -> MergedSegment | None:
        """Return the merged segment inside which `offset` lies, if there is one: a border may have
        been there."""
        place = self.batch_index_at(offset)
        found = None if place is None else self.batches[place]
        if not isinstance(found, MergedSegment) or found.base_offset == offset:
            return None
        return found

    def chain_kept_from(self, offset: Offset) -> ChainDigest:
        """Return the chain digest before the first batch that ends above `offset`."""
        place = self.batch_index_at(offset)
        if place is None:
            return self.chain_digest
        return self.batches[place - 1].chain_digest if place else self.chain_before

    def borders_down_from(self, offset: Offset) -> Iterator[tuple[Offset, ChainDigest]]:
        """Yield offset and chain digest of each border at or below `offset`, the highest first.

        A border is where a batch begins or ends, or a plain segment ended that was merged, if that
        is known; of an emptied log, its end.
        """
        place = bisect_right(self.batches, offset, key=_BASE_OFFSET)
        for number in range(place - 1, -1, -1):
            batch = self.batches[number]
            if isinstance(batch, MergedSegment):
                own = (Border(batch.end_offset, batch.chain_digest),)
                yield from (each for each in reversed(batch.borders or own) if each[0] <= offset)
            elif batch.end_offset <= offset:
                yield batch.end_offset, batch.chain_digest
        first = self.batches[0].base_offset if self.batches else self.log_end_offset
        if first <= offset:
            yield first, self.chain_before

    def chained(self, batch: Batch) -> Batch:
        """Return `batch`, which continues this log, with its chain digests."""
        identity = self.identity
        digests = batch_digests(self.chain_digest, identity.topic_id, identity.partition, batch)
        return replace(batch, chain_digests=digests)

    def apply(self, change: "LogChange") -> Self:
        kept = self.batches
        if change.cut_from is not None:
            place = bisect_right(kept, change.cut_from - 1, key=_BASE_OFFSET)
            kept = kept[:place]
        if change.drop_below is not None:
            place = bisect_right(kept, change.drop_below, key=_END_OFFSET)
            kept = kept[place:]
        if change.merged is not None:
            first, end = self._places_of(change.merged)
            kept = (*kept[:first], change.merged, *kept[end:])
        after = replace(
            self,
            version=self.version + 1,
            log_start_offset=change.log_start_offset,
            log_end_offset=change.log_end_offset,
            leader_epoch=change.leader_epoch,
            batches=(*kept, *change.adds),
            producers=self.producers if change.producers is None else change.producers,
            chain_before=self.chain_before if change.chain_before is None else change.chain_before,
            compaction=self.compaction if change.compaction is None else change.compaction,
        )
        files = self.files if kept is self.batches else NO_FILES
        object.__setattr__(after, "files", files.grown(after.batches))
        return after

    def changed(
        self,
        operation: str,
        *,
        producers: ProducerEntries | None = None,
        compaction: CompactionProgress | None = None,
    ) -> "LogChange":
        """Return a change that keeps all else; what is as it was is not written again."""
        return LogChange(
            operation=operation,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            leader_epoch=self.leader_epoch,
            producers=None if producers == self.producers else producers,
            compaction=None if compaction == self.compaction else compaction,
        )

    def removed_by(self, change: "LogChange") -> tuple[LogPart, ...]:
        if change.merged is not None:
            first, end = self._places_of(change.merged)
            return self.batches[first:end]
        if change.cut_from is None and change.drop_below is None:
            return ()
        after = {batch.base_offset for batch in self.apply(replace(change, adds=())).batches}
        return tuple(batch for batch in self.batches if batch.base_offset not in after)

    def _places_of(self, merged: MergedSegment) -> tuple[int, int]:
        """Return the place of the first batch that `merged` covers, and that after the last."""
        first = bisect_left(self.batches, merged.base_offset, key=_BASE_OFFSET)
        end = bisect_left(self.batches, merged.end_offset, key=_BASE_OFFSET)
        return first, end


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChange:
    """One commit to a replica's table, decided on one state of it.

    Attributes:
        log_start_offset, log_end_offset, leader_epoch: As they are after the commit.
        merged: Takes the place of the batches that it covers, whole neighbours; None: no merge.
            Such a change neither cuts nor drops.
        cut_from: Batches that begin at or after it are removed (truncation); None: no cut.
        drop_below: Batches that end at or below it are removed (retention); None: no drop.
        producers: The producer entries after it, all of them; None: unchanged. A change that takes
            headers away has what `producer_state.entries_without` says.
        chain_before: Chain digest before the first batch that is kept after it; None: unchanged.
            A change that removes batches at the front has one.
        compaction: How far the log is compacted after the commit; None: as far as before.
    """

    operation: str
    log_start_offset: Offset
    log_end_offset: Offset
    leader_epoch: LeaderEpoch | None
    adds: tuple[LogPart, ...] = ()
    merged: MergedSegment | None = None
    cut_from: Offset | None = None
    drop_below: Offset | None = None
    producers: ProducerEntries | None = None
    chain_before: ChainDigest | None = None
    compaction: CompactionProgress | None = None


def check_leader_epoch(known: LeaderEpoch | None, asked: LeaderEpoch | None) -> None:
    """Check the leader epoch of a request against the one `known` here: that of an older one is
    fenced, that of a newer one unknown. A plain consumer's has none, and is not checked."""
    if asked is None or asked == known:
        return
    if known is not None and asked < known:
        raise FencedLeaderEpochError(
            "a later leadership has been adopted", known=known, leader_epoch=asked
        )
    raise UnknownLeaderEpochError(
        "this leadership has not been adopted", known=known, leader_epoch=asked
    )


def check_log(state: ReplicaState, *, checked: int = 0) -> None:
    """Check that a log that was read is dense, and that its chain computes, but for the first
    batches that were `checked` before, after the same digest."""
    check_dense(state)
    place = min(checked, len(state.batches))
    before = state.batches[place - 1].chain_digest if place else state.chain_before
    identity = state.identity
    check_chain(before, identity.topic_id, identity.partition, state.batches[place:])


def check_dense(state: ReplicaState) -> None:
    """Check that the batches of `state` run without gap or overlap to its end (I10).

    The first batch may begin below the log start; an emptied log starts where it ends.
    """
    expected = state.batches[0].base_offset if state.batches else state.log_start_offset
    last_epoch = 0
    if state.batches and expected > state.log_start_offset:
        raise CorruptLogError(
            "the log begins after its start", start=state.log_start_offset, first=expected
        )
    if not 0 <= state.log_start_offset <= state.log_end_offset:
        raise CorruptLogError(
            "the log starts after its end, or before there is any",
            start=state.log_start_offset,
            end=state.log_end_offset,
        )
    for batch in state.batches:
        if batch.base_offset != expected:
            raise CorruptLogError("a gap between batches", at=expected, found=batch.base_offset)
        fence = -1 if state.leader_epoch is None else state.leader_epoch
        if not last_epoch <= batch.leader_epoch <= fence:
            raise CorruptLogError(
                "a batch of a leadership that the log has not adopted, or of one before the last",
                base_offset=batch.base_offset,
                leader_epoch=batch.leader_epoch,
                last_epoch=last_epoch,
                fence=state.leader_epoch,
            )
        last_epoch = batch.leader_epoch
        in_segments = sum(segment.record_count for segment in batch.segments)
        if isinstance(batch, Batch) and in_segments != batch.record_count:
            raise CorruptLogError(
                "a batch's segments do not add up",
                base_offset=batch.base_offset,
                expected=batch.record_count,
                found=in_segments,
            )
        expected = batch.end_offset
    if expected != state.log_end_offset:
        raise CorruptLogError(
            "the log does not end where it says", end=state.log_end_offset, found=expected
        )


def check_complete(state: ReplicaState, partition: PartitionRegistration) -> None:
    """Check that the log proves to have every record that `partition` has committed.

    Raises:
        NotLeaderOrFollowerError: The log start has moved on, or the log is merged past the high
            watermark: the image is old; or the replica is in neither ISR nor ELR, and may be
            behind.
        ReplicaLostError: The log lacks committed records; the replica is bad.
    """
    if state.log_start_offset > partition.log_start_offset:
        # Records were deleted since: the image is old, and says nothing of this log.
        raise NotLeaderOrFollowerError(
            "the log starts above the log start of this image: refresh",
            start=state.log_start_offset,
            log_start=partition.log_start_offset,
        )
    if proves_complete(state, partition):
        return
    if state.merged_over(partition.high_watermark) is not None:
        raise NotLeaderOrFollowerError(
            "the log is merged past the high watermark of this image: refresh",
            high_watermark=partition.high_watermark,
        )
    # Of a replica that only catches up, this is no fault.
    is_member = state.identity.broker_id in partition.isr | partition.elr
    kind = ReplicaLostError if is_member else NotLeaderOrFollowerError
    raise kind(
        "the log does not have all committed records",
        start=state.log_start_offset,
        end=state.log_end_offset,
        high_watermark=partition.high_watermark,
    )


def check_readable(state: ReplicaState, partition: PartitionRegistration) -> None:
    """Check that the log can be read up to the high watermark of `partition`.

    The image may be older than the log. What is merged was committed: a log that is merged past
    that high watermark has all below it, if it has the registered epoch there. A log start that has
    moved on says nothing against the records that are left. What compaction has removed from every
    member of the ISR is not read from a replica that still has it (I27).
    """
    mark = partition.high_watermark
    if partition.log_start_offset < state.log_start_offset <= mark:
        partition = replace(partition, log_start_offset=state.log_start_offset)
    if not partition.compaction.may_count(state.compaction.finished_below):
        raise NotLeaderOrFollowerError(
            "the replica is not compacted as far as it must be to be read: the next round of"
            " replication or pass of a controller does that",
            finished_below=state.compaction.finished_below,
            cleaned_below=partition.compaction.cleaned_below,
        )
    if has_lost_replacements(state, partition):
        raise NotLeaderOrFollowerError(
            "the log lacks records that an unclean election has made the last of their keys again:"
            " read another",
            compacted_below=state.compaction.compacted_below,
            high_watermark=mark,
        )
    if (
        state.merged_over(mark) is not None
        and state.log_start_offset <= partition.log_start_offset
        and state.epoch_at(Offset(mark - 1)) == partition.high_watermark_epoch
    ):
        return
    check_complete(state, partition)


def has_lost_replacements(state: ReplicaState, partition: PartitionRegistration) -> bool:
    """Return whether a log lacks records that are the last of their keys again, since an unclean
    election has cut those that had replaced them (I27). The chain does not show it.

    Without one no target is above the high watermark. A log that has adopted this leadership, or a
    later one, was found to lack none; then the high watermark may be an old one. What its leader
    has is all that is left.
    """
    fence = state.leader_epoch
    has_followed = fence is not None and fence >= partition.leader_epoch
    if has_followed or state.identity.broker_id == partition.leader:
        return False
    return state.compaction.compacted_below > partition.high_watermark


def proves_complete(state: ReplicaState, partition: PartitionRegistration) -> bool:
    """Return whether the log has every record that `partition` has committed."""
    below = Offset(partition.high_watermark - 1)
    return has_all_committed(
        partition,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        epoch_below_high_watermark=state.epoch_at(below),
        chain_at_high_watermark=state.chain_at(partition.high_watermark),
    )
