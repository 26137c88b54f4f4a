"""What must hold in every state of the search, and of every commit (docs/architecture.md).

Stated over the register, by the rules of `fsck`, the tables and what was ever committed, by nothing
that the product decides with: a rule of the product that is switched off must not take its check along.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from kafka_on_spark.base.ids import LOST, BrokerId
from kafka_on_spark.fsck.log_rules import bound_flaws, commit_flaws, name_flaws, order_flaws
from kafka_on_spark.fsck.registers import isr_flaws, log_start_flaws, state_flaws, step_flaws
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.log.unnamed_files import files_of
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.search.upkeep import checks
from tests.search.upkeep.rows import Entry, covered_epochs, entries_of, may_be_gone
from tests.search.world import Past, Violation, require

Logs = dict[BrokerId, dict[int, Entry]]
"""Records of live replicas, by broker and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One state, as invariants see it.

    Attributes:
        partition: The register.
        logs: Logs of live replicas, by broker.
        past: What was ever committed, and which leaders led.
        acked: (record, offset) of each acknowledged append.
        refused: Records whose append says that nothing was written.
        losses: Disks that have lost something.
        min_isr: min.insync.replicas.
        one_append: Records that are tries of one append: whichever is there is all of them.
    """

    partition: PartitionRegistration
    logs: dict[BrokerId, ReplicaState]
    past: Past
    acked: tuple[tuple[str, int], ...]
    refused: tuple[str, ...]
    losses: int
    min_isr: int
    one_append: str = ""


def check(view: View) -> None:
    """Check a state."""
    entries = {broker_id: entries_of(state) for broker_id, state in view.logs.items()}
    for broker_id, state in view.logs.items():
        _one_log(broker_id, state, entries[broker_id], view)
    _committed_prefix(view, entries)
    _leader_completeness(view, entries)
    _acked_records(view, entries)
    _log_matching(view, entries)


def _committed_prefix(view: View, entries: Logs) -> None:
    """I1, I14: a replica in sync or eligible has all that is committed. I9: and the mark's epoch. I27:
    and what compaction may take of it went, and nothing else.

    No other replica must keep it: a task of a leadership between its fence and the newest one may still
    cut what that leadership lacked, and the newest has committed.
    """
    partition, committed = view.partition, view.past.committed
    mark, start = partition.high_watermark, partition.log_start_offset
    require(len(committed) == mark, "I8", f"{mark}, committed are {committed}")
    for broker_id in sorted((partition.isr | partition.elr) & entries.keys()):
        log, found = view.logs[broker_id], entries[broker_id]
        flaw = checks.flaw_of(log, found, committed, start)
        require(flaw is None, "I1 committed prefix", f"broker {broker_id} has {flaw}")
        _hold(checks.flaw_of_member(log, found, committed, start), broker_id)
    if mark:
        require(
            partition.high_watermark_epoch == committed[-1][1],
            "I9",
            f"epoch {partition.high_watermark_epoch}, the record is {committed[-1]}",
        )
    _once(view, [value for value, _ in committed], "committed")


def _hold(flaw: tuple[Any, ...] | None, broker_id: int | None = None) -> None:
    """Raise a violation for what is wrong, if anything is."""
    if flaw is not None:
        where = "" if broker_id is None else f"broker {broker_id}: "
        raise Violation(flaw[0], f"{where}{flaw[1]}")


def _leader_completeness(view: View, entries: Logs) -> None:
    """I2: a leader that has begun has all that is committed."""
    leader = view.partition.leader
    if leader is None or leader not in entries:
        return
    log = view.logs[leader]
    if log.leader_epoch == view.partition.leader_epoch:
        start = view.partition.log_start_offset
        flaw = checks.flaw_of(log, entries[leader], view.past.committed, start)
        require(flaw is None, "I2 leader completeness", f"leader {leader} has {flaw}")


def _acked_records(view: View, entries: Logs) -> None:
    """H1, H4, I3: what was acknowledged is committed and somewhere; what was refused is not. But for
    what an unclean election has lost, and what was deleted or compacted."""
    committed, kept = view.past.committed, view.partition.compaction
    below = (kept.compacted_below, kept.tombstones_below)
    for value, offset in view.acked:
        if value in view.past.lost:
            continue
        found = committed[offset][0] if offset < len(committed) else None
        is_there = found is not None if view.one_append else found == value
        require(is_there, "H1 acked is committed", f"{value} at {offset} of {committed}")
        if offset < view.partition.log_start_offset or may_be_gone(committed, offset, *below):
            continue
        holders = [each for each in entries.values() if each.get(offset) == committed[offset]]
        is_bound = view.losses < view.min_isr
        require(bool(holders) or not is_bound, "I3 no acked record lost", f"{value} is nowhere")
    for value in view.refused:
        is_there = any(value == each for each, _ in committed)
        require(not is_there, "H4 aborted read", f"{value} was refused, and is committed")


def _log_matching(view: View, entries: Logs) -> None:
    """I4: the same epoch at the same offset is the same record, after the same records; of what both
    still have."""
    epochs = {broker_id: covered_epochs(view.logs[broker_id]) for broker_id in entries}
    for one, other in combinations(sorted(entries), 2):
        mine, theirs, is_same = epochs[one], epochs[other], True
        for at in sorted(mine.keys() & theirs.keys()):
            pair = (entries[one].get(at), entries[other].get(at))
            is_same = is_same and mine[at] == theirs[at] and (None in pair or pair[0] == pair[1])
            require(
                mine[at] != theirs[at] or is_same,
                "I4 log matching",
                f"at {at}: broker {one} {entries[one]}, broker {other} {entries[other]}",
            )


def _one_log(broker_id: BrokerId, state: ReplicaState, found: dict[int, Entry], view: View) -> None:
    """I5, I10, I11, I16: what `fsck` asks of a table, and no record is twice."""
    start, end = state.log_start_offset, state.log_end_offset
    flaws = [
        *order_flaws(state.batches, last=None, expected=start, end=end),
        *bound_flaws(state, view.partition),
    ]
    _hold(next(iter(flaws), None), broker_id)
    _once(view, [value for value, _ in found.values()], f"broker {broker_id}")


def _once(view: View, values: list[str], where: str) -> None:
    """I11, H3: an append stands in a log once."""
    appends = ["one append" if each in view.one_append else each for each in values]
    require(len(set(appends)) == len(appends), "I11 idempotence", f"{where}: {values}")


def check_commit(
    broker_id: BrokerId,
    before: ReplicaState,
    change: LogChange,
    after: ReplicaState,
    *,
    past: Past,
    removed: frozenset[str],
) -> None:
    """Check one commit to a replica's table. `removed`: files that it can't add again."""
    parts = [*change.adds, *([] if change.merged is None else [change.merged])]
    names = [segment.file_name for part in parts for segment in part.segments]
    flaws = [
        *commit_flaws(before, after, change.adds, is_fetched=change.operation != "append"),
        *name_flaws(names, after.leader_epoch, removed | files_of(before)),
    ]
    _hold(next(iter(flaws), None), broker_id)
    if change.operation == "append":
        epoch = change.adds[0].leader_epoch
        leader = past.leaders[epoch]
        is_leader = leader == broker_id
        require(is_leader, "I6", f"{broker_id} appends in {leader}'s {epoch}")
    lost = bool(past.lost)
    _hold(checks.flaw_of_replacement(before, change, past.committed, lost), broker_id)


def check_register(
    before: PartitionRegistration,
    after: PartitionRegistration,
    *,
    min_isr: int,
    losses: int,
    logs: dict[BrokerId, ReplicaState],
) -> None:
    """Check one commit to the register.

    `losses`: disks that have lost something; without any, no replica may be called lost, but where
    it may have missed tombstones. `logs`: of live replicas.
    """
    flaws = [*state_flaws(after), *step_flaws(before, after)]
    flaws += log_start_flaws(before, after.log_start_offset, None)
    is_unclean = after.unclean_generation > before.unclean_generation
    if not is_unclean and after.high_watermark > before.high_watermark:
        flaws += isr_flaws(before, after.high_watermark, min_isr)
    for invariant, sentence in flaws:
        raise Violation(invariant, sentence)
    may_lack = losses or before.compaction.tombstones_below or after.unclean_generation
    is_blamed = LOST in after.directories and not may_lack
    require(not is_blamed, "no replica is lost without a loss", f"{after.directories}")
    _hold(checks.flaw_of_register(before, after, logs))
