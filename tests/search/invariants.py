"""What must hold in every state of the search, and of every commit (docs/architecture.md).

Stated over the register, the tables and what was ever committed, by nothing that the product
decides with: a rule of the product that is switched off must not take its check along.
"""

from dataclasses import dataclass

from kafka_on_spark.ids import LOST, BrokerId
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.search.world import Entry, Past, entries_of, require


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
        is_one_append: The records are tries of one append: whichever is there is all of them.
    """

    partition: PartitionRegistration
    logs: dict[BrokerId, ReplicaState]
    past: Past
    acked: tuple[tuple[str, int], ...]
    refused: tuple[str, ...]
    losses: int
    min_isr: int
    is_one_append: bool = False


def check(view: View) -> None:
    """Check a state.

    Raises:
        Violation: An invariant does not hold.
    """
    entries = {broker_id: entries_of(state) for broker_id, state in view.logs.items()}
    _committed_prefix(view, entries)
    _leader_completeness(view, entries)
    _acked_records(view, entries)
    _log_matching(entries)
    for broker_id, state in view.logs.items():
        _one_log(broker_id, state, entries[broker_id], view)


def _committed_prefix(view: View, entries: dict[BrokerId, tuple[Entry, ...]]) -> None:
    """I1, I14: a replica in sync or eligible has all that is committed. I9: and the mark's epoch.

    No other replica must keep it: a task of a leadership between its fence and the newest one may still
    cut what that leadership lacked, and the newest has committed .
    """
    partition, committed = view.partition, view.past.committed
    mark = partition.high_watermark
    require(len(committed) == mark, "I8 high watermark", f"{mark}, committed are {committed}")
    for broker_id in sorted(partition.isr | partition.elr):
        if broker_id in entries:
            found = entries[broker_id][:mark]
            require(
                found == committed,
                "I1 committed prefix",
                f"broker {broker_id} has {found} of {committed}",
            )
    if mark:
        require(
            partition.high_watermark_epoch == committed[-1][1],
            "I9 high watermark bounds",
            f"epoch {partition.high_watermark_epoch}, the record is {committed[-1]}",
        )
    _once(view, committed, "committed")


def _leader_completeness(view: View, entries: dict[BrokerId, tuple[Entry, ...]]) -> None:
    """I2: a leader that has begun has all that is committed."""
    leader = view.partition.leader
    if leader is None or leader not in entries:
        return
    if view.logs[leader].leader_epoch == view.partition.leader_epoch:
        committed = view.past.committed
        require(
            entries[leader][: len(committed)] == committed,
            "I2 leader completeness",
            f"leader {leader} has {entries[leader]} of {committed}",
        )


def _acked_records(view: View, entries: dict[BrokerId, tuple[Entry, ...]]) -> None:
    """H1, H4, I3: what was acknowledged is committed and somewhere; what was refused is not."""
    committed = view.past.committed
    for value, offset in view.acked:
        found = committed[offset][0] if offset < len(committed) else None
        is_there = found is not None if view.is_one_append else found == value
        require(is_there, "H1 acked is committed", f"{value} at {offset} of {committed}")
        holders = [each for each in entries.values() if committed[offset] in each]
        is_bound = view.losses < view.min_isr
        require(bool(holders) or not is_bound, "I3 no acked record lost", f"{value} is nowhere")
    for value in view.refused:
        is_there = any(value == each for each, _ in committed)
        require(not is_there, "H4 aborted read", f"{value} was refused, and is committed")


def _log_matching(entries: dict[BrokerId, tuple[Entry, ...]]) -> None:
    """I4: the same epoch at the same offset is the same record, after the same records."""
    brokers = sorted(entries)
    for place, one in enumerate(brokers):
        for other in brokers[place + 1 :]:
            pairs = list(zip(entries[one], entries[other], strict=False))
            for offset, (mine, theirs) in enumerate(pairs):
                is_same = all(a == b for a, b in pairs[: offset + 1])
                require(
                    mine[1] != theirs[1] or is_same,
                    "I4 log matching",
                    f"at {offset}: broker {one} {entries[one]}, broker {other} {entries[other]}",
                )


def _one_log(
    broker_id: BrokerId, state: ReplicaState, entries: tuple[Entry, ...], view: View
) -> None:
    """I5, I10, I11: epochs don't fall nor pass the fence, offsets are dense, no record is twice."""
    epochs = [epoch for _, epoch in entries]
    fence = state.leader_epoch
    bounds = [*epochs, *([] if fence is None else [fence]), view.partition.leader_epoch]
    require(bounds == sorted(bounds), "I5 epochs never fall", f"broker {broker_id}: {bounds}")
    offsets = [batch.base_offset for batch in state.batches]
    is_dense = offsets == list(range(len(offsets))) and state.log_end_offset == len(offsets)
    require(is_dense, "I10 dense offsets", f"broker {broker_id}: {offsets}")
    _once(view, entries, f"broker {broker_id}")


def _once(view: View, entries: tuple[Entry, ...], where: str) -> None:
    """I11, H3: an append stands in a log once."""
    values = ["one append" if view.is_one_append else value for value, _ in entries]
    require(len(set(values)) == len(values), "I11 idempotence", f"{where}: {entries}")


def check_commit(
    broker_id: BrokerId, before: ReplicaState, change: LogChange, after: ReplicaState, past: Past
) -> None:
    """Check one commit to a replica's table.

    Raises:
        Violation: An invariant does not hold.
    """
    fence, name = before.leader_epoch, "I13 fence"
    if fence is not None:
        is_kept = after.leader_epoch is not None and after.leader_epoch >= fence
        require(is_kept, name, f"broker {broker_id}: {fence} became {after.leader_epoch}")
    for batch in change.adds:
        epoch = batch.leader_epoch
        is_below = fence is not None and epoch <= fence
        require(is_below, name, f"broker {broker_id}: epoch {epoch} under {fence}")
    if change.operation == "append":
        epoch = change.adds[0].leader_epoch
        require(epoch == fence, name, f"broker {broker_id}: appends {epoch} under {fence}")
        leader = past.leaders[epoch]
        is_leader = leader == broker_id
        require(is_leader, "I6 one leader per epoch", f"{broker_id} appends in {leader}'s {epoch}")
    is_cut = after.log_end_offset < before.log_end_offset
    if is_cut:
        is_adopted = fence is None or (after.leader_epoch or 0) > fence
        require(is_adopted, "I13 fence", f"broker {broker_id} cuts under its epoch {fence}")


def check_register(
    before: PartitionRegistration, after: PartitionRegistration, *, min_isr: int, losses: int
) -> None:
    """Check one commit to the register.

    `losses`: disks that have lost something; without any, no replica may be called lost.

    Raises:
        Violation: An invariant does not hold.
    """
    increase = after.leader_epoch - before.leader_epoch
    is_kept = increase >= 0 and (increase > 0 or after.leader == before.leader)
    require(
        is_kept,
        "I6 one leader per epoch",
        f"epoch {before.leader_epoch} of {before.leader}, {after.leader_epoch} of {after.leader}",
    )
    has_risen = after.high_watermark >= before.high_watermark
    require(has_risen, "I8 high watermark", f"{before.high_watermark}, {after.high_watermark}")
    minimum = min(min_isr, len(before.replicas))
    is_frozen = after.high_watermark == before.high_watermark
    is_enough = is_frozen or len(before.isr) >= minimum
    require(is_enough, "I9 high watermark bounds", f"it moves with ISR {sorted(before.isr)}")
    is_blamed = LOST in after.directories and not losses
    require(not is_blamed, "no replica is lost without a loss", f"{after.directories}")
