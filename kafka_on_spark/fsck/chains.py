"""I23: which replicas have the registered chain digest, and which of two copies is right.

Below the high watermark the registered chain digest decides, even where headers and digests of one
replica were all forged to fit, and even against a majority. Above it only the tables can decide.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from kafka_on_spark.fsck.partition_timeline import Member
from kafka_on_spark.fsck.registers import Register
from kafka_on_spark.fsck.trace import ReplicaTrace


def has_chain(trace: ReplicaTrace, register: Register) -> bool:
    """Return whether a replica's chain computes and has the registered digest."""
    found = trace.chain_at(register.high_watermark)
    return trace.is_chained and found == register.high_watermark_chain


def chain_flaws(
    traces: Sequence[ReplicaTrace], register: Register, after: Register
) -> Iterable[tuple[ReplicaTrace, str]]:
    """Yield the replicas that must be complete and have another chain digest (I23), with why.

    The tables were read after `register` and before `after`.
    """
    complete, mark = register.members(register.isr | register.elr), register.high_watermark
    has_risen = after.high_watermark > mark
    for trace in traces:
        is_there = trace.log_start_offset <= mark <= trace.log_end_offset
        is_asked = is_there and (trace.broker_id, trace.replica_uuid) in complete
        if has_risen and _is_merged_across(trace, mark):
            continue
        if is_asked and not has_chain(trace, register):
            yield (
                trace,
                f"the log's chain digest at the high watermark {mark} is"
                f" {trace.chain_at(mark) or 'none'} and the registered one is"
                f" {register.high_watermark_chain}: it has other records than were committed",
            )


def _is_merged_across(trace: ReplicaTrace, mark: int) -> bool:
    """Return whether a merged segment that does not tell where its batches ended lies across a high
    watermark that was: nothing is merged or compacted across the one that is."""
    is_across = any(each.base_offset < mark < each.end_offset for each in trace.merged)
    return is_across and trace.chain_at(mark) is None


def right_copy(
    groups: Mapping[str, Set[Member]], *, leader: Member | None, proven: Set[Member]
) -> tuple[str | None, str]:
    """Return which of different copies of a batch is right, if that is known, and why.

    `groups`: the replicas that have each copy. `leader`: of the batch's leader epoch. `proven`: the
    replicas with the registered chain digest above the batch.
    """
    right = [copy for copy, members in groups.items() if members & proven]
    if len(right) == 1:
        who = brokers_of(groups[right[0]] & proven)
        return right[0], f"{who} has what was committed, by the registered chain digest"
    sizes = sorted((len(members) for members in groups.values()), reverse=True)
    largest = max(groups, key=lambda each: len(groups[each]))
    if len(sizes) == 1 or sizes[0] > sizes[1]:
        return largest, f"most replicas have it as {brokers_of(groups[largest])}"
    for copy, members in groups.items():
        if leader is not None and leader in members:
            return copy, f"broker {leader[0]}, which led then, has the right one"
    return None, "which one is right can't be told from the tables"


def brokers_of(members: Iterable[Member]) -> str:
    """Return the brokers of replicas, in words."""
    numbers = sorted({broker_id for broker_id, _ in members})
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
