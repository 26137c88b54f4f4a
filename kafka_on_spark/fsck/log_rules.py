"""I5, I10, I13, I14, I16, I25, I26: what must hold of one replica's log, and of a commit to it.

Audit, simulation and search hold their logs to these rules, each as it has them: by headers that it
has decoded, or as the product's values.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple, Protocol

from kafka_on_spark.base.ids import ChainDigest
from kafka_on_spark.fsck.registers import Registered
from kafka_on_spark.log.batch import epoch_in_name


class Flaw(NamedTuple):
    """Something that must not be: the invariant, a sentence, and the offset where."""

    invariant: str
    sentence: str
    offset: int | None = None


class Part(Protocol):
    """A batch or a merged segment. `chain_digest`: of the log up to its end."""

    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def chain_digest(self) -> ChainDigest: ...
    @property
    def has_append_time(self) -> bool: ...


class Ends(Protocol):
    """A log's counters. `leader_epoch`: its fence."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int | None: ...


def order_flaws(
    parts: Iterable[Part], *, last: Part | None, expected: int, end: int
) -> Iterator[Flaw]:
    """Yield where parts do not continue a log that ends at `expected`, with `last`, up to `end`."""
    for part in parts:
        base = part.base_offset
        # The first batch of an empty log may begin below the log start.
        if base != expected and not (last is None and base < expected < part.end_offset):
            sentence = f"a batch begins at {base}, not where the log ends, {expected}"
            yield Flaw("I10", sentence, base)
        if last is not None and part.leader_epoch < last.leader_epoch:
            sentence = f"a batch of leadership {part.leader_epoch} stands behind one of"
            yield Flaw("I5", f"{sentence} {last.leader_epoch}", base)
        last, expected = part, part.end_offset
    if end != expected:
        yield Flaw("I10", f"the log says that it ends at {end}, its batches end at {expected}")


def bound_flaws(log: Ends, register: Registered) -> Iterator[Flaw]:
    """Yield how a log is ahead of a register that is not older."""
    fence, start = log.leader_epoch, log.log_start_offset
    if fence is not None and fence > register.leader_epoch:
        known = f"the metadata log knows leadership {register.leader_epoch}"
        yield Flaw("I5", f"the table is fenced at {fence}, {known}: the metadata went back")
    if start > register.log_start_offset:
        decided = f"the decided log start {register.log_start_offset}"
        yield Flaw("I16", f"the log starts at {start}, above {decided}")


def commit_flaws(
    before: Ends, after: Ends, appended: Iterable[Part], *, is_fetched: bool
) -> Iterator[Flaw]:
    """Yield what is wrong with the counters of a commit, and with what it appends under which
    leadership."""
    start, end, fence = after.log_start_offset, after.log_end_offset, after.leader_epoch
    was = before.leader_epoch
    if start < before.log_start_offset:
        yield Flaw("I16", f"the log start went back from {before.log_start_offset} to {start}")
    if start > end:
        yield Flaw("I16", f"the log start {start} is above the log end {end}")
    if was is not None and (fence is None or fence < was):
        yield Flaw("I13", f"the fence went back from {was} to {fence}")
    if end < before.log_end_offset and fence == was:
        sentence = f"the log was cut from {before.log_end_offset} to {end} under one leadership"
        yield Flaw("I14", f"{sentence} ({fence}): only adopting a later one may cut", end)
    for part in appended:
        epoch = part.leader_epoch
        if was is None or epoch > was:
            sentence = f"a batch of leadership {epoch} was added before the table was fenced at it"
            yield Flaw("I13", f"{sentence} (fence {was})", part.base_offset)
        elif epoch < was and not is_fetched:
            sentence = f"a batch was appended by leadership {epoch} to a table fenced at {was}"
            yield Flaw("I13", sentence, part.base_offset)


def name_flaws(names: Iterable[str], fence: int | None, known: Set[str]) -> Iterator[Flaw]:
    """Yield how a commit under `fence` adds files that it may not: a cleaner may delete them.
    `known`: what the table has, or has removed before."""
    added = set(known)
    for name in names:
        epoch = epoch_in_name(name)
        if epoch is not None and epoch != fence:
            sentence = f"the file {name} is added by a commit of leadership {fence}"
            yield Flaw("I26", f"{sentence}, and may be deleted by a cleaner")
        if name in added:
            yield Flaw("I26", f"the file {name} is added again: the table has it, or had it")
        added.add(name)


def replacement_flaws(merged: Part, inputs: Sequence[Part], *, may_lack: bool) -> Iterator[Flaw]:
    """Yield how a merged segment is not what went into it (I25). `may_lack`: compaction made it."""
    base, end, count = merged.base_offset, merged.end_offset, sum(i.record_count for i in inputs)
    first, last = inputs[0], inputs[-1]
    kinds = {(each.leader_epoch, each.has_append_time) for each in (merged, *inputs)}
    covered = (first.base_offset, last.end_offset, last.chain_digest)
    if covered != (base, end, merged.chain_digest) or len(kinds) > 1:
        epochs = ", ".join(map(str, sorted({epoch for epoch, _ in kinds})))
        sentence = (
            f"the merged segment [{base}, {end}) took the place of"
            f" [{first.base_offset}, {last.end_offset}) of leaderships {epochs}, or has another"
            " chain digest at its end"
        )
        yield Flaw("I25", sentence, base)
    if merged.record_count > count:
        yield Flaw("I25", "a merged segment has more records than went into it", base)
    elif merged.record_count < count and not may_lack:
        sentence = f"a merged segment has {merged.record_count} records, and {count} went into it"
        yield Flaw("I25", f"{sentence}: only compaction removes any", base)
