"""I27: how far one replica is compacted, by the counters of its commits and by the register.

Which records it keeps is in its files: see `log.flaws`, and `contents`, which compares
replicas.
"""

from collections.abc import Iterable, Mapping

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.fsck.findings import FindingList
from kafka_on_spark.fsck.registers import Register
from kafka_on_spark.fsck.trace import ReplicaTrace
from kafka_on_spark.log.progress import COUNTERS, NO_PROGRESS, CompactionProgress

_RISING = ("compacted_below", "tombstones_below", "finished_below")


class CompactionReplay:
    """Follows the counters of one table.

    Attributes:
        progress: How far its log is compacted.
    """

    def __init__(self, findings: FindingList) -> None:
        self.progress = NO_PROGRESS
        self._findings = findings

    def follow(self, counters: Mapping[str, int], version: int, *, may_fall: bool) -> None:
        """Take the counters of a commit. `may_fall`: it begins a leadership, or a log anew."""
        before, after = self.progress, _after(self.progress, counters)
        if after is None:
            said = ", ".join(f"{name} {counters[name]}" for name in _named(counters))
            sentence = f"the counters of compaction contradict each other: {said}"
            self._findings.add("I27", sentence, version=version)
            return
        self.progress = after
        for field in () if may_fall else _RISING:
            was, now = getattr(before, field), getattr(after, field)
            if now < was:
                sentence = f"the counter {COUNTERS[field]} went back from {was} to {now}"
                self._findings.add("I27", sentence, version=version)

    def begin_at(self, counters: Mapping[str, int]) -> None:
        """Begin with the counters of a checkpoint."""
        self.progress = _after(NO_PROGRESS, counters) or NO_PROGRESS

    def agrees(self, counters: Mapping[str, int]) -> bool:
        """Return whether a checkpoint says the same."""
        return _after(NO_PROGRESS, counters) == self.progress


def _named(counters: Mapping[str, int]) -> list[str]:
    return [name for name in COUNTERS.values() if name in counters]


def _after(before: CompactionProgress, counters: Mapping[str, int]) -> CompactionProgress | None:
    """Return the progress after a commit; None: its counters contradict each other."""
    if not _named(counters):
        return before
    values = {
        field: Offset(counters.get(name, getattr(before, field)))
        for field, name in COUNTERS.items()
    }
    try:
        return CompactionProgress(**values)
    except AssertionError:
        return None


def register_flaws(
    trace: ReplicaTrace, before: Register, after: Register, *, had_unclean_election: bool
) -> Iterable[tuple[str, int]]:
    """Yield what is wrong with a replica's compaction by the register, and an offset.

    The table was read after `before` and before `after`; `had_unclean_election`: as its timeline
    says at `after`.
    """
    progress = trace.compaction
    # A log that comes back by an unclean election may be compacted as was decided before it.
    if trace.fence == after.leader_epoch and not had_unclean_election:
        for field in ("compacted_below", "tombstones_below"):
            own, decided = getattr(progress, field), getattr(after, field)
            if own > decided:
                yield f"{COUNTERS[field]} is {own}, above what is decided, {decided}", decided
    is_same_log = before.unclean_generation == after.unclean_generation
    member = (trace.broker_id, trace.replica_uuid)
    # A leader that was elected because it has all records finishes the decision afterwards.
    is_asked = trace.broker_id != before.leader and member in before.members(before.isr)
    if is_same_log and is_asked and progress.finished_below < before.cleaned_below:
        yield (
            f"the replica is in sync and has finished compaction below {progress.finished_below},"
            f" not below {before.cleaned_below} as each that is read must have",
            progress.finished_below,
        )
