"""I1, I27: whether replicas hold the same records, by the digests of what is in their files.

Headers and the chain say that of batches. Of a merged segment they say what it was made of, and of
a compacted one not even that: so what is in the files is added up, and the sums are compared, as
far as the replicas must hold the same: below the high watermark all that is not compacted, and what
is compacted if they have finished the same decision.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafka_on_spark.fsck.chains import brokers_of, has_chain, right_copy
from kafka_on_spark.fsck.findings import FindingList
from kafka_on_spark.fsck.partition_timeline import Member
from kafka_on_spark.fsck.registers import Register
from kafka_on_spark.fsck.trace import ContentSum, ReplicaTrace


def borders_of(register: Register) -> tuple[int, int, int]:
    """Return the offsets between which the records of each replica are added up: the log start,
    where compaction ends, and the high watermark."""
    start, mark = register.log_start_offset, register.high_watermark
    return start, min(max(start, register.compacted_below), mark), mark


def compare_contents(
    traces: Sequence[ReplicaTrace], register: Register, findings: FindingList
) -> tuple[str, ...]:
    """Compare what is in the files of replicas; return what could not be compared, in sentences.

    `register`: by whose borders the traces' contents were added up.
    """
    start, compacted, mark = borders_of(register)
    complete = [trace for trace in traces if _is_complete(trace, register)]
    summed = [t for t in complete if t.log_start_offset <= register.log_start_offset]
    # A decision that was made since the register was read may have taken records above its own.
    whole = [t for t in summed if t.compaction.compacted_below <= register.compacted_below]
    _compare(_Range("I1", compacted, mark, 1), whole, register, findings)
    return (
        *_left_out(complete, summed, start, mark, "logs were cut at their start"),
        *_left_out(summed, whole, compacted, mark, "logs were compacted further"),
        *_compare_compacted(summed, register, findings),
    )


def _left_out(
    traces: Sequence[ReplicaTrace],
    compared: Sequence[ReplicaTrace],
    first: int,
    end: int,
    why: str,
) -> Iterator[str]:
    """Say which of replicas that could be compared were not, where there was anything."""
    left = {_member(trace) for trace in traces} - {_member(trace) for trace in compared}
    if left and len(traces) > 1 and first < end:
        yield (
            f"the records in [{first}, {end}) on {brokers_of(left)}, since {why} while they were"
            " read: try again"
        )


def _compare_compacted(
    summed: Sequence[ReplicaTrace], register: Register, findings: FindingList
) -> tuple[str, ...]:
    start, compacted, _ = borders_of(register)
    if len(summed) < 2 or compacted == start:
        return ()
    groups: dict[tuple[int, int], list[ReplicaTrace]] = defaultdict(list)
    for trace in summed:
        progress = trace.compaction
        if progress.is_finished:
            groups[progress.compacted_below, progress.tombstones_below].append(trace)
    for group in groups.values():
        _compare(_Range("I27", start, compacted, 0), group, register, findings)
    largest = max(groups.values(), key=len, default=[])
    alone = [_member(trace) for trace in summed if trace not in largest]
    if not alone:
        return ()
    return (
        f"what {brokers_of(alone)} keeps below {compacted}, since not all replicas have finished"
        " the same decision of compaction",
    )


class _Range(NamedTuple):
    """Offsets, the invariant by which replicas have the same records there, and which of a trace's
    contents it is."""

    invariant: str
    first: int
    end: int
    place: int

    def sum_of(self, trace: ReplicaTrace) -> ContentSum:
        assert trace.contents is not None, "it was added up"
        return trace.contents[self.place]


def _is_complete(trace: ReplicaTrace, register: Register) -> bool:
    """Return whether a replica was added up, and must have all that is committed and was not cut
    from its start since."""
    is_member = _member(trace) in register.members(register.isr | register.elr)
    return (
        trace.contents is not None
        and trace.log_end_offset >= register.high_watermark
        and (is_member or has_chain(trace, register))
    )


def _member(trace: ReplicaTrace) -> Member:
    return (trace.broker_id, trace.replica_uuid)


def _compare(
    where: _Range, traces: Sequence[ReplicaTrace], register: Register, findings: FindingList
) -> None:
    groups: dict[str, set[Member]] = defaultdict(set)
    for trace in traces:
        groups[str(where.sum_of(trace))].add(_member(trace))
    if len(groups) < 2:
        return
    leader = next((_member(each) for each in traces if each.broker_id == register.leader), None)
    # The chain vouches for the bytes of files as they were appended.
    proven = {_member(t) for t in traces if not t.has_merged_files and has_chain(t, register)}
    right, why = right_copy(groups, leader=leader, proven=proven)
    for trace in traces:
        own = where.sum_of(trace)
        if str(own) != right:
            findings.add(
                where.invariant,
                f"the replica's files hold {own.record_count} records in [{where.first},"
                f" {where.end}), and not those that other replicas hold; {why}",
                broker_id=trace.broker_id,
                version=trace.last_version,
                offset=where.first,
            )
