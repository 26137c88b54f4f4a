"""What one round of replication did, in figures and words.

Apart from the round: who serves, commands or prints needs the report, and not what plans and runs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationReport:
    """What one round did.

    Attributes:
        partition_count: Partitions visited because they had work; of a sweep, all.
        slice_count: Partitions inspected in the slice, whether or not they had work.
        not_looked_at: Partitions that were not inspected within `replica.sweep.interval.ms` by
            this round or another; whose last inspection failed, or had no fetch to run; or that
            have no leader.
        copied_records: Records committed to followers.
        copied_bytes: The same in bytes of segments.
        truncated_records: Records cut from followers, all of them uncommitted.
        isr_changes: How many ISRs changed.
        failures: What went wrong, in words, by partition and broker.
        is_caught_up: By the metadata after the round, no partition has a follower behind or out of
            the ISR; and all replicas were inspected within the interval.
        resume_after_ms: How long until a round can do more than now: a back-off ends, or a throttle
            lets bytes through; 0: its time to copy was over. None: nothing waits for time.
    """

    partition_count: int = 0
    slice_count: int = 0
    not_looked_at: int = 0
    copied_records: int = 0
    copied_bytes: int = 0
    truncated_records: int = 0
    isr_changes: int = 0
    failures: tuple[str, ...] = ()
    is_caught_up: bool = True
    resume_after_ms: float | None = None
