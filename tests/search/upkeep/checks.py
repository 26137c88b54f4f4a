"""What must hold of what keeps logs small: I16, I25, I26 and I27 (docs/architecture.md).

Stated over logs, the register and what was committed, by nothing that the product decides with.
"""

from collections.abc import Mapping

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.fsck.log_rules import replacement_flaws
from kafka_on_spark.fsck.registers import compaction_flaws
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.partition import Compaction, PartitionRegistration
from tests.search.upkeep.rows import Entry, covered_epochs, may_be_gone, rows_of, table_of

SAME_RECORDS = "I25 the same records"
COMMITTED = "I25 merged is committed"
CONTENT = "I27 what is kept is a function of log, C and T"
FINISHED = "I27 finished before the next"
JOINED = "I27 a member has finished K"
LAST_VALUES = "I27 a member has the last values"

Flaw = tuple[str, str]
"""(invariant, why it does not hold)."""


def flaw_of(
    log: ReplicaState, found: Mapping[int, Entry], committed: tuple[Entry, ...], start: int
) -> str | None:
    """Return how a log has not all of what is committed from `start` on; None: it has, but for what
    compaction takes."""
    done, covered = log.compaction, covered_epochs(log)
    for at in range(start, len(committed)):
        is_covered = covered.get(at) == committed[at][1]
        below = (done.compacted_below, done.tombstones_below)
        if at not in found and is_covered and may_be_gone(committed, at, *below):
            continue
        if found.get(at) != committed[at]:
            return f"{found.get(at)} at {at} of {committed}"
    return None


def flaw_of_member(
    log: ReplicaState, found: Mapping[int, Entry], committed: tuple[Entry, ...], start: int
) -> Flaw | None:
    """Return what is wrong with what compaction has left of a member's log (I27): each key has its
    last value, and who has finished has nothing besides."""
    wanted = table_of(dict(enumerate(committed)), start, len(committed))
    own = table_of(found, start, len(committed))
    if own != wanted:
        return LAST_VALUES, f"last values at {own}, not {wanted}, of {committed}"
    done = log.compaction
    below = (done.compacted_below, done.tombstones_below)
    more = [
        at for at in found if start <= at < len(committed) and may_be_gone(committed, at, *below)
    ]
    if done.is_finished and more:
        return CONTENT, f"finished {done}, and has {more} of {committed}"
    return None


def flaw_of_replacement(
    before: ReplicaState, change: LogChange, committed: tuple[Entry, ...], has_lost: bool
) -> Flaw | None:
    """Return what is wrong with a commit that puts one file in the place of others (I25).

    `has_lost`: an unclean election has lost some of what was committed when it was planned.
    """
    merged = change.merged
    if merged is None:
        return None
    inputs = before.removed_by(change)
    told = f"{inputs} became {merged}"
    if not inputs:
        return "I25", told
    may_lack = change.operation == "compact"
    for flaw in replacement_flaws(merged, inputs, may_lack=may_lack):
        return flaw.invariant, f"{flaw.sentence}: {told}"
    had = [row for each in inputs for row in rows_of(each)]
    kept = set(rows_of(merged))
    done = change.compaction or before.compaction
    below = (done.compacted_below, done.tombstones_below)
    gone = [row for row in had if row not in kept]
    if not has_lost and any(committed[at : at + 1] != ((v, merged.leader_epoch),) for at, v in had):
        return COMMITTED, f"{told}; committed is {committed}"
    if kept - set(had):
        return SAME_RECORDS, told
    if not has_lost and any(not may_be_gone(committed, at, *below) for at, _ in gone):
        return CONTENT, f"{gone} went, {done}, of {committed}"
    return None


def flaw_of_register(
    before: PartitionRegistration,
    after: PartitionRegistration,
    logs: Mapping[BrokerId, ReplicaState],
) -> Flaw | None:
    """Return what is wrong with how far a log is compacted after a commit to the register; `logs`:
    of live replicas."""
    if after.unclean_generation > before.unclean_generation:
        return None
    flaw = _flaw_of_decision(before, after, logs)
    if flaw is not None:
        return flaw
    for broker_id in sorted((after.isr - before.isr - {after.leader}) & logs.keys()):
        done, decided = logs[broker_id].compaction, after.compaction
        if done.finished_below < decided.cleaned_below:
            return JOINED, f"broker {broker_id}: {done}, {decided}"
    return None


def _flaw_of_decision(
    before: PartitionRegistration,
    after: PartitionRegistration,
    logs: Mapping[BrokerId, ReplicaState],
) -> Flaw | None:
    """Return what is wrong with a decision of compaction: it rises, below what is committed, and all
    that are in sync have finished the one before."""
    was, now = before.compaction, after.compaction
    for invariant, sentence in compaction_flaws(was, now, before.high_watermark):
        return invariant, f"{sentence}: {was} became {now}"
    if (now.compacted_below, now.cleaned_below) != (was.compacted_below, was.cleaned_below):
        late = [each for each in before.isr & logs.keys() if not _has_finished(logs[each], was)]
        if late:
            return FINISHED, f"brokers {sorted(late)} have not: {was} became {now}"
    return None


def _has_finished(log: ReplicaState, decided: Compaction) -> bool:
    done = log.compaction
    below = (done.finished_below, done.tombstones_below)
    wanted = (decided.compacted_below, decided.tombstones_below)
    return not done.round_below and below[0] >= wanted[0] and below[1] >= wanted[1]
