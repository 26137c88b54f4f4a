"""What must hold in every state of the search, and of every commit (docs/architecture.md).

Stated over the register, by the rules of `fsck`, the tables and what was ever committed, by nothing
that the product decides with: a rule of the product that is switched off must not take its check along.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from kafka_on_spark.base.ids import LOST, BrokerId
from kafka_on_spark.fsck.log_rules import bound_flaws, commit_flaws, name_flaws, order_flaws
from kafka_on_spark.fsck.registers import isr_flaws, state_flaws, step_flaws
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.log.unnamed_files import files_of
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.search.world import Entry, Past, Violation, entries_of, require

Logs = dict[BrokerId, tuple[Entry, ...]]
"""Records of live replicas, by broker."""


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
    _log_matching(entries)


def _committed_prefix(view: View, entries: Logs) -> None:
    """I1, I14: a replica in sync or eligible has all that is committed. I9: and the mark's epoch.

    No other replica must keep it: a task of a leadership between its fence and the newest one may still
    cut what that leadership lacked, and the newest has committed.
    """
    partition, committed = view.partition, view.past.committed
    mark = partition.high_watermark
    require(len(committed) == mark, "I8", f"{mark}, committed are {committed}")
    for broker_id in sorted((partition.isr | partition.elr) & entries.keys()):
        found = entries[broker_id]
        has_all = found[:mark] == committed
        require(has_all, "I1 committed prefix", f"broker {broker_id} has {found} of {committed}")
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
    if view.logs[leader].leader_epoch == view.partition.leader_epoch:
        found, committed = entries[leader], view.past.committed
        has_all = found[: len(committed)] == committed
        require(has_all, "I2 leader completeness", f"{leader} has {found} of {committed}")


def _acked_records(view: View, entries: Logs) -> None:
    """H1, H4, I3: what was acknowledged is committed and somewhere; what was refused is not."""
    committed = view.past.committed
    for value, offset in view.acked:
        found = committed[offset][0] if offset < len(committed) else None
        is_there = found is not None if view.one_append else found == value
        require(is_there, "H1 acked is committed", f"{value} at {offset} of {committed}")
        holders = [
            each for each in entries.values() if each[offset : offset + 1] == (committed[offset],)
        ]
        is_bound = view.losses < view.min_isr
        require(bool(holders) or not is_bound, "I3 no acked record lost", f"{value} is nowhere")
    for value in view.refused:
        is_there = any(value == each for each, _ in committed)
        require(not is_there, "H4 aborted read", f"{value} was refused, and is committed")


def _log_matching(entries: Logs) -> None:
    """I4: the same epoch at the same offset is the same record, after the same records."""
    for one, other in combinations(sorted(entries), 2):
        is_same = True
        for mine, theirs in zip(entries[one], entries[other], strict=False):
            is_same = is_same and mine == theirs
            require(
                mine[1] != theirs[1] or is_same,
                "I4 log matching",
                f"broker {one} {entries[one]}, broker {other} {entries[other]}",
            )


def _one_log(
    broker_id: BrokerId, state: ReplicaState, found: tuple[Entry, ...], view: View
) -> None:
    """I5, I10, I11, I16: what `fsck` asks of a table, and no record is twice."""
    start, end = state.log_start_offset, state.log_end_offset
    flaws = [
        *order_flaws(state.batches, last=None, expected=start, end=end),
        *bound_flaws(state, view.partition),
    ]
    _hold(next(iter(flaws), None), broker_id)
    _once(view, [value for value, _ in found], f"broker {broker_id}")


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
    names = [segment.file_name for part in change.adds for segment in part.segments]
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


def check_register(
    before: PartitionRegistration,
    after: PartitionRegistration,
    *,
    min_isr: int,
    losses: int,
) -> None:
    """Check one commit to the register. `losses`: disks that have lost something; without any, no
    replica may be called lost."""
    flaws = [*state_flaws(after), *step_flaws(before, after)]
    if after.high_watermark > before.high_watermark:
        flaws += isr_flaws(before, after.high_watermark, min_isr)
    for invariant, sentence in flaws:
        raise Violation(invariant, sentence)
    is_blamed = LOST in after.directories and not losses
    require(not is_blamed, "no replica is lost without a loss", f"{after.directories}")
