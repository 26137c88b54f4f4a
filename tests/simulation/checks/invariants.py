"""What must hold of the tables after every effect (docs/architecture.md).

One function an invariant, called with the effect that may break it: between effects nothing
changes, so this is the same as checking everything after every step, and fast. A table whose
disk has lost commits is suspect: what it holds is no fault of the code, and it must not count.
"""

from dataclasses import replace

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.fsck.log_rules import bound_flaws, commit_flaws, name_flaws, order_flaws
from kafka_on_spark.log.batch import Batch, LogPart
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.log.unnamed_files import files_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.simulation.checks.ledger import Ledger, Log, chain_link, hold, records_of, require
from tests.simulation.faults.forging import FORGED
from tests.simulation.world.disks import Root, Table, rows_of


def committed_prefix(ledger: Ledger, key: PartitionKey, partition: PartitionRegistration) -> None:
    """I1: every live member of the ISR has all that is committed, and all have the same."""
    log = ledger.log(key)
    for broker_id in sorted(partition.isr):
        table = ledger.live_table(key, partition, broker_id)
        if table is not None:
            _has_committed(ledger, log, key, partition, table, "I1 committed prefix")


def _has_committed(
    ledger: Ledger,
    log: Log,
    key: PartitionKey,
    partition: PartitionRegistration,
    table: Table,
    invariant: str,
) -> None:
    state, mark = table.state, partition.high_watermark
    broker_id = table.identity.broker_id
    if partition.begins_empty and state.log_end_offset < partition.log_start_offset:
        return  # elected with nothing: it moves to the log start when it begins to lead
    require(
        state.log_end_offset >= mark,
        invariant,
        f"{key.partition} on {broker_id} ends at {state.log_end_offset}, below {mark}",
    )
    start = max(table.verified, state.log_start_offset)
    if start < mark:
        found = records_of(state, start, mark)
        log.learn(found)
        flaw = log.flaw_of(found, start, mark, state.compaction)
        require(flaw is None, invariant, f"{key.partition} on {broker_id} has {flaw}")
        table.verified = mark


def leader_completeness(
    ledger: Ledger, key: PartitionKey, partition: PartitionRegistration
) -> None:
    """I2: a leader that has begun has every acknowledged record at its offset."""
    if partition.leader is None:
        return
    table = ledger.live_table(key, partition, partition.leader)
    if table is None or table.state.leader_epoch != partition.leader_epoch:
        return
    log = ledger.log(key)
    _has_committed(ledger, log, key, partition, table, "I2 leader completeness")
    require(
        log.last_acked < partition.high_watermark,
        "I2 leader completeness",
        f"{key.partition}: {log.last_acked} was acked, the HW is {partition.high_watermark}",
    )


def no_acked_record_lost(ledger: Ledger) -> None:
    """I3: some assigned replica holds each acknowledged record, with its bytes."""
    for key, partition in ledger.image.partitions():
        log = ledger.log(key)
        below = (partition.compaction.compacted_below, partition.compaction.tombstones_below)
        wanted = {
            offset: value
            for offset, value in log.acked.items()
            if offset >= partition.log_start_offset and log.is_kept(offset, *below)
        }
        for broker_id in partition.replicas:
            table = ledger.disks.replica_table(partition, key, broker_id)
            if table is not None and wanted:
                for offset, value in _readable(ledger, table).items():
                    if wanted.get(offset) == value:
                        del wanted[offset]
        require(not wanted, "I3 no acked record lost", f"{key.partition}: {wanted}")


def _readable(ledger: Ledger, table: Table) -> dict[int, int]:
    identity = table.identity
    root = ledger.disks.root_of(identity.broker_id)
    place = f"{identity.topic_id}/{identity.partition}-{identity.replica_uuid}"
    files = {} if table.is_emptied else root.files.get(place, {})
    found = {}
    for batch in table.state.batches:
        if all(files.get(each.file_name) == each.digest for each in batch.segments):
            found |= dict(rows_of(batch))
    return found


def log_matching(
    ledger: Ledger, key: PartitionKey, before: ReplicaState, change: LogChange
) -> None:
    """I4: the same epoch at the same offset is the same record, after the same prefix."""
    log = ledger.log(key)
    kept = before.apply(change).batches
    place = len(kept) - len(change.adds)
    previous = kept[place - 1].leader_epoch if place > 0 else None
    for batch in change.adds:
        for at, value in rows_of(batch):
            position = (batch.leader_epoch, at)
            # Behind what compaction has removed of the same segment is a record of its leadership.
            previous = previous if at == batch.base_offset else batch.leader_epoch
            known = log.written.setdefault(position, (value, previous))
            same_prefix = previous is None or known[1] is None or known[1] == previous
            is_same = known[0] == value and same_prefix
            require(
                is_same or position in log.forgotten,
                "I4 log matching",
                f"{key.partition} at epoch, offset {position}: {known} and {(value, previous)}",
            )
        previous = batch.leader_epoch


def appends_by_the_leader(
    ledger: Ledger, key: PartitionKey, table: Table, change: LogChange
) -> None:
    """I6: records of an epoch enter through its leader only."""
    for batch in change.adds if change.operation == "append" else ():
        leader = ledger.log(key).leaders.get(batch.leader_epoch)
        require(
            leader == table.identity.broker_id,
            "I6",
            f"{key.partition}: broker {table.identity.broker_id} appends in epoch"
            f" {batch.leader_epoch} of {leader}",
        )


def chain_at_the_mark(ledger: Ledger, key: PartitionKey, partition: PartitionRegistration) -> None:
    """I23: a replica that is counted has the registered chain digest at the high watermark."""
    mark = partition.high_watermark
    for broker_id in sorted(partition.isr):
        table = ledger.live_table(key, partition, broker_id)
        if table is None or not table.state.log_start_offset <= mark <= table.state.log_end_offset:
            continue
        require(
            table.state.chain_at(mark) == partition.high_watermark_chain,
            "I23 chain",
            f"{key.partition} on {broker_id} has {table.state.chain_at(mark)} at {mark},"
            f" registered is {partition.high_watermark_chain}",
        )


def chains_tell_logs_apart(
    ledger: Ledger, key: PartitionKey, before: ReplicaState, change: LogChange
) -> None:
    """I23: the same digest is the same batch behind the same digest, a merged segment's leads to the
    one before it, and nobody copies what nobody has appended."""
    log, digest = ledger.log(key), before.apply(replace(change, adds=())).chain_digest
    for batch in change.adds:
        if not isinstance(batch, Batch):
            require(
                log.leads_to(digest, batch.chain_digest),
                "I23 chain",
                f"{key.partition}: {batch} does not continue {digest}",
            )
            digest = batch.chain_digest
            continue
        made = chain_link(digest, batch)
        known = log.chains.setdefault(batch.chain_digest, made)
        require(
            known == made,
            "I23 chain",
            f"{key.partition}: one digest for {known} and {batch}",
        )
        digest = batch.chain_digest
        forged = [value for _, value in rows_of(batch) if value >= FORGED]
        require(not forged, "I23 chain", f"{key.partition}: copied {forged}, which is forged")


ONE_CLOCK = "I31 one clock gives nobody its time"


def time_is_bounded(
    image: MetadataImage,
    what: str,
    time_ms: int,
    true_ms: int,
    own_ms: int,
    *,
    is_root_told: bool = True,
) -> None:
    """I31: what a process commits or appends at the true time `true_ms`, when its own clock says
    `own_ms`, has a time between both, and one ahead of the true one by the setting at most. While
    the root tells no time, the newest commit's stands for it, which may be that far ahead."""
    ahead_ms = true_ms + image.settings().integer("clock.ahead.max.ms")
    most_ms = min(max(own_ms, true_ms), ahead_ms) if is_root_told else ahead_ms
    told = f"{what} has {time_ms}, by a clock that says {own_ms} at {true_ms}"
    require(min(own_ms, true_ms) <= time_ms <= most_ms, ONE_CLOCK, told)


def appended_in_time(ledger: Ledger, change: LogChange, true_ms: int) -> None:
    """I31, of an append. Whose clock it was by, and when that was read, a table does not say."""
    for each in change.adds if change.operation == "append" and true_ms else ():
        if isinstance(each, Batch):
            own_ms = each.appended_at_ms if each.appended_at_ms < true_ms else 2**62
            time_is_bounded(ledger.image, "an append", each.appended_at_ms, true_ms, own_ms)


def counted(
    key: PartitionKey, before: ReplicaState, after: ReplicaState, change: LogChange
) -> None:
    """I10: each commit is the next version, and a batch has the records that it says."""
    require(after.version == before.version + 1, "I10", "a version was skipped")
    for batch in change.adds:
        in_segments = sum(each.record_count for each in batch.segments)
        counts = {in_segments, batch.record_count, len(rows_of(batch))}
        require(len(counts) == 1, "I10", f"{key.partition}: {batch.base_offset} has {counts}")


NEWEST = 3
"""Of a log's parts so many are looked at after a commit, or all that it adds."""


def next_log(
    ledger: Ledger, key: PartitionKey, table: Table, before: ReplicaState, change: LogChange
) -> None:
    """I5, I10, I13, I14, I16, I26: what `fsck` asks of a table and its commits."""
    after, count = table.state, max(NEWEST, len(change.adds) + 1)
    place = max(0, len(after.batches) - count)
    last = after.batches[place - 1] if place else None
    names = [segment.file_name for part in _added_by(change) for segment in part.segments]
    partition = ledger.image.partition(key)
    flaws = [
        *commit_flaws(before, after, change.adds, is_fetched=change.operation != "append"),
        *name_flaws(names, change.leader_epoch, table.removed | files_of(before)),
        *order_flaws(
            after.batches[place:],
            last=last,
            expected=after.log_start_offset if last is None else last.end_offset,
            end=after.log_end_offset,
        ),
        *(() if partition is None else bound_flaws(after, partition)),
    ]
    hold(f"{key.partition} on {table.identity.broker_id}", flaws)


def stable_content(log: Log, key: PartitionKey, offset: int, record: tuple[int, int]) -> None:
    """I12: what was committed at an offset is that for ever."""
    known = log.committed[offset] if offset < len(log.committed) else record
    require(
        known == record,
        "I12 stable content",
        f"{key.partition}: {known} was committed at {offset}, now it is {record}",
    )


def truncation_floor(
    ledger: Ledger, key: PartitionKey, table: Table, before: ReplicaState, after: ReplicaState
) -> None:
    """I14: no commit takes a committed record out of a live replica, or a member of the ISR below
    the high watermark.

    A late task of a leadership in between may take one from a replica on which nothing rests: its
    fence can't know of the newer leadership (found by search). So may one that follows a leader
    whose disk was changed since: planned before the high watermark rose, it can't know of that.
    """
    partition = ledger.image.partition(key)
    broker_id = table.identity.broker_id
    if partition is None or after.log_end_offset >= before.log_end_offset:
        return
    if broker_id not in partition.replicas:
        return
    if partition.uuid_of(broker_id) != table.identity.replica_uuid:
        return
    has_older_epoch = (after.leader_epoch or 0) < partition.leader_epoch
    if has_older_epoch and partition.unclean_generation > 0:
        # Such an election takes what it has looked at, and fences nobody before: a leader that is
        # cut meanwhile fails its proof, and the next election says what is lost.
        table.is_suspect = table.is_suspect or broker_id in partition.isr
        return
    if broker_id in partition.isr:
        require(
            after.log_end_offset >= partition.high_watermark,
            "I14 truncation floor",
            f"{key.partition} on {broker_id}: cut to {after.log_end_offset}",
        )
    is_held = broker_id in partition.isr | partition.elr
    if not is_held and (has_older_epoch or _is_cut_by(ledger, key, partition, after)):
        return
    start = max(after.log_end_offset, partition.log_start_offset, before.log_start_offset)
    end = min(before.log_end_offset, partition.high_watermark)
    if start < end:
        lost = records_of(before, start, end)
        kept = dict(enumerate(ledger.log(key).committed[start:end], start))
        is_same = [own for at, own in lost.items() if kept.get(at) == own]
        # What follows the point of divergence is not the committed record even if it looks alike:
        # only a run of them from `start` on was shared, in the very batch that was committed. A
        # producer that repeats itself to a leader that was rolled back makes another one.
        first = min(lost, default=start)
        batch = next(each for each in before.batches if each.end_offset > first)
        digest = _digest_after(ledger, batch, first)
        is_shared = ledger.log(key).leads_to(digest, partition.high_watermark_chain)
        require(
            not (is_same and lost[first] == kept.get(first) and is_shared),
            "I14 truncation floor",
            f"{key.partition} on {broker_id}: committed {is_same} from {start} on was cut",
        )


def _digest_after(ledger: Ledger, part: LogPart, offset: int) -> str:
    """Return the chain digest at the end of the appended batch that holds `offset`."""
    if isinstance(part, Batch):
        return part.chain_digest
    borders = ledger.disks.borders.get(part.segment.uuid, ())
    return next((each.chain_digest for each in borders if each.offset > offset), part.chain_digest)


def _is_cut_by(
    ledger: Ledger, key: PartitionKey, partition: PartitionRegistration, after: ReplicaState
) -> bool:
    """Return whether a leader makes others cut what is committed: its disk was changed, or it has no
    border there any more by which both could be compared, since it is compacted."""
    leader = partition.leader
    table = None if leader is None else ledger.disks.replica_table(partition, key, leader)
    if table is None:
        return False
    return table.is_suspect or table.state.compaction.compacted_below > after.log_end_offset


def integrity(
    ledger: Ledger, key: PartitionKey, root: Root, table: Table, change: LogChange
) -> None:
    """I15: a commit names files that are there and are what their names say, unless this very
    disk has damaged them."""
    identity = table.identity
    place = f"{identity.topic_id}/{identity.partition}-{identity.replica_uuid}"
    files = root.files.get(place, {})
    for batch in _added_by(change):
        for segment in batch.segments:
            is_whole = files.get(segment.file_name) == segment.digest
            is_planted = (place, segment.file_name) in root.rotten
            require(
                is_whole or is_planted,
                "I15 integrity",
                f"{key.partition} on {identity.broker_id}: {segment.file_name} is"
                f" {files.get(segment.file_name)!r}",
            )


def _added_by(change: LogChange) -> tuple[LogPart, ...]:
    return (*change.adds, *(() if change.merged is None else (change.merged,)))


def nothing_named_is_deleted(root: Root, place: str, name: str) -> None:
    """I26: no cleaner deletes a file that its table names."""
    table = root.tables.get(place)
    if table is not None and not table.is_suspect:
        named = files_of(table.state)
        require(
            name not in named,
            "I26 nothing named is deleted",
            f"{place} on {root.url}: {name}",
        )


def not_ahead(ledger: Ledger, key: PartitionKey, partition: PartitionRegistration) -> None:
    """I5, I16: no member of the ISR is ahead of the register."""
    for broker_id in sorted(partition.isr):
        table = ledger.live_table(key, partition, broker_id)
        if table is not None:
            hold(f"{key.partition} on {broker_id}", bound_flaws(table.state, partition))
