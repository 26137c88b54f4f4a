"""What must hold of compaction (I27): the checker has the whole log, so it knows what a replica that
has finished a decision must have, and what one that is on the way may lack."""

from collections.abc import Mapping

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.simulation.checks.ledger import NOBODY_HAS, Ledger, Log, records_of, require
from tests.simulation.world.disks import Table
from tests.simulation.world.keyed import is_tombstone, key_of, table_of

CONTENT = "I27 what is kept is a function of log, C and T"
DECIDED = "I27 compacted as decided"
FINISHED = "I27 finished before the next"
JOINED = "I27 a member has finished K"
LOWERED = "I27 a leader's target is not above its log"
TOMBSTONES = "I27 tombstones outlive what they delete"
READ = "I27 a reader has the last values"


def what_is_gone_may_be(ledger: Ledger, key: PartitionKey, table: Table, change: LogChange) -> None:
    """After a commit that rewrites, or takes what was rewritten: what is missing may be, by counters
    that were decided, and a replica that has finished has what it must and nothing more."""
    state, partition = table.state, ledger.image.partition(key)
    if change.operation in ("compact", "merge"):
        table.verified = 0
    if partition is None or not _is_bound(ledger, key, partition, table):
        return
    done, decided = state.compaction, partition.compaction
    told = f"{key.partition} on {table.identity.broker_id}: {done}, {decided}"
    if not done.compacted_below:
        return
    is_led = table.identity.broker_id == partition.leader
    require(not is_led or done.compacted_below <= state.log_end_offset, LOWERED, told)
    log, start = ledger.log(key), state.log_start_offset
    # A log that comes back after an unclean election may be compacted as decided before.
    known = (decided,) if partition.unclean_generation == 0 else (decided, *log.decided)
    is_decided = done.compacted_below <= max(
        each.compacted_below for each in known
    ) and done.tombstones_below <= max(each.tombstones_below for each in known)
    require(is_decided, DECIDED, told)
    mark = min(state.log_end_offset, partition.high_watermark)
    found = records_of(state, start, mark)
    log.learn(found)
    flaw = log.flaw_of(found, start, mark, done)
    require(flaw is None, CONTENT, f"{told}: {flaw}")
    if done.is_finished:
        below = (done.compacted_below, done.tombstones_below)
        more = [at for at in found if not log.is_kept(at, *below)]
        require(not more, CONTENT, f"{told}: {more} are kept")


def _is_bound(
    ledger: Ledger, key: PartitionKey, partition: PartitionRegistration, table: Table
) -> bool:
    """Return whether a table follows the leadership of now, of a leader whose disk is sound."""
    identity = table.identity
    leader = partition.leader
    if leader is None or identity.broker_id not in partition.replicas:
        return False
    if partition.uuid_of(identity.broker_id) != identity.replica_uuid:
        return False
    live = ledger.live_table(key, partition, leader)
    is_led = live is not None and live.state.leader_epoch == partition.leader_epoch
    return is_led and table.state.leader_epoch == partition.leader_epoch


def left_of(log: Log, state: ReplicaState, mark: int) -> list[tuple[int, int]]:
    """Return what is committed once a log leads that an unclean election has chosen.

    What it lacks since later records have replaced it is known, if those are below its end. Else the
    last values of their keys are gone, and what it has is the log.
    """
    found = records_of(state, state.log_start_offset, mark)
    is_lacking = state.compaction.compacted_below > mark
    committed = log.committed[: state.log_start_offset]
    for at in range(state.log_start_offset, mark):
        known = log.committed[at] if at < len(log.committed) and not is_lacking else NOBODY_HAS
        is_same = known[1] == state.epoch_at(at)  # type: ignore[arg-type]
        committed.append(found.get(at) or (known if is_same else NOBODY_HAS))
    return committed


def compacted_to(state: ReplicaState) -> int:
    """Return below which offset a log may lack records."""
    return state.compaction.compacted_below


def decision_is_sound(
    ledger: Ledger,
    key: PartitionKey,
    old: PartitionRegistration,
    new: PartitionRegistration,
    image: MetadataImage,
    now_ms: float,
) -> None:
    """Every member has finished the decision before; and what tombstones that go have deleted has
    been gone for delete.retention.ms from all that is read.

    `image` is the one that the decision was committed to.
    """
    was, now = old.compaction, new.compaction
    log = ledger.log(key)
    if new.unclean_generation > old.unclean_generation:
        log.cleaned_at = _not_above(log.cleaned_at, now.cleaned_below)
        return
    if was == now:
        return
    log.decided.append(now)
    told = f"{key.partition}: {was} became {now}"
    if now.compacted_below > was.compacted_below or now.cleaned_below > was.cleaned_below:
        for broker_id in sorted(old.isr):
            table = ledger.live_table(key, old, broker_id)
            is_done = table is None or table.state.compaction.has_finished(was)
            require(is_done, FINISHED, f"{told}: broker {broker_id} has not")
    if now.cleaned_below > was.cleaned_below:
        log.cleaned_at[now.cleaned_below] = now_ms
    if now.tombstones_below > was.tombstones_below:
        retention_ms = image.settings(key.topic_id).integer("delete.retention.ms")
        since_ms = min(at for below, at in log.cleaned_at.items() if below >= now.tombstones_below)
        require(
            not ledger.are_tombstones_timed or now_ms - since_ms >= retention_ms,
            TOMBSTONES,
            f"{told}: cleaned {now_ms - since_ms} ms ago",
        )


def _not_above(cleaned_at: dict[int, float], most: int) -> dict[int, float]:
    """Return when each K was decided after an unclean election has lowered those above."""
    lowered: dict[int, float] = {}
    for below, at in cleaned_at.items():
        place = min(below, most)
        lowered[place] = min(at, lowered.get(place, at))
    return lowered


def joined_has_finished(
    ledger: Ledger, key: PartitionKey, old: PartitionRegistration, new: PartitionRegistration
) -> None:
    """A replica that joins the ISR has lost what every member has lost. A leader that is elected
    for its proof of all that is committed may have more: it is not read before it has lost that."""
    for broker_id in sorted(new.isr - old.isr - {new.leader}):
        table = ledger.live_table(key, new, broker_id)
        if table is not None and new.unclean_generation == old.unclean_generation:
            _has_finished(key, new, table)


def member_stays_finished(
    key: PartitionKey, partition: PartitionRegistration, table: Table, before: ReplicaState
) -> None:
    """No commit takes a member of the ISR back behind what every member has lost."""
    was_finished = partition.compaction.may_count(before.compaction.finished_below)
    if was_finished and not partition.begins_empty:
        _has_finished(key, partition, table)


def _has_finished(key: PartitionKey, partition: PartitionRegistration, table: Table) -> None:
    done, decided = table.state.compaction, partition.compaction
    told = f"{key.partition} on {table.identity.broker_id}: {done}, {decided}"
    require(decided.may_count(done.finished_below), JOINED, told)


def reader_has_last_values(
    ledger: Ledger,
    key: PartitionKey,
    table: Mapping[bytes, int],
    end: int,
    *,
    is_cut: bool,
) -> None:
    """A reader that has come to `end` within delete.retention.ms has the last value of each key, and
    no value of one that was deleted. Unless it reads a cut, it may lack or have an older value of a
    key whose next value is above `end`, and was committed meanwhile."""
    log = ledger.log(key)
    partition = ledger.image.partition(key)
    assert partition is not None
    rows = [(at, value) for at, (value, _) in enumerate(log.committed[:end])]
    wanted = table_of(rows)
    below = min(len(log.committed), partition.compaction.compacted_below)
    later = {key_of(log.committed[at][0]) for at in range(end, below)}
    known = {each for each in wanted.keys() | table.keys() if is_cut or each not in later}
    start = partition.log_start_offset
    for each in sorted(known):
        last = wanted.get(each)
        if last is not None and last < start:
            continue  # it was deleted, perhaps before it was read
        if last is None and not _is_deleted_above(log, each, start, end):
            continue
        told = f"{key.partition}: {each!r} at {table.get(each)}, not {last}, below {end}"
        require(table.get(each) == last, READ, told)


def _is_deleted_above(log: Log, key: bytes, start: int, end: int) -> bool:
    """Return whether the tombstone that deletes a key has not been deleted with old records."""
    values = [log.committed[at][0] for at in range(start, end)]
    return any(key_of(each) == key and is_tombstone(each) for each in values)
