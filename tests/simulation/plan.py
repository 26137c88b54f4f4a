"""What one seed's cluster is, and which faults it may meet; the plans themselves are drawn in faults/."""

from dataclasses import dataclass, field
from typing import Final

CALL_FAULTS: Final = {
    "load": ("stale", "failed", "mistaken", "slow", "hung"),
    "commit": ("lost", "unsaid", "delayed", "resolved", "refused", "slow", "hung"),
    "metadata append": ("lost", "unsaid", "delayed", "resolved", "refused", "slow", "hung"),
    "metadata read": ("failed", "slow", "hung"),
    "copy": ("failed", "slow", "hung"),
    "put": ("failed", "slow", "hung"),
    "make": ("lost", "slow", "hung"),
    "probe": ("failed", "slow", "hung"),
    "list": ("failed", "slow", "hung"),
    "hint read": ("lost", "failed", "slow", "hung"),
    "hint write": ("lost", "failed", "slow", "hung"),
    "remove": ("failed", "slow", "hung"),
    "read": ("failed", "slow", "hung"),
}
"""What a port call may meet, by operation."""

LOSING: Final = ("wipe", "lose tables", "empty", "rot", "forge", "roll back", "roll back live")

HEALING: Final = {"heal": 15, "thaw": 12, "metadata back": 40}
"""How faults end: how often of 1,000 steps; not a matter of swarm."""

NO_BOUND: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacting:
    """How the topic is compacted.

    Attributes:
        settings: Of the cluster.
        policy: cleanup.policy.
        keys_at_once: Keys that fit into a cleaner's memory.
        group_bytes: Bytes that are rewritten together; a record has 100.
        is_later: It is not compacted, and has records without keys, until the administrator says so.
    """

    settings: dict[str, object] = field(default_factory=dict)
    policy: str = "compact"
    keys_at_once: int = 1000
    group_bytes: int = 400
    is_later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """How producer ids and groups' offsets expire.

    Attributes:
        producers_ms: producer.id.expiration.ms.
        offsets_ms: offsets.retention.minutes, which count milliseconds here.
        groups: How many there are.
    """

    producers_ms: int
    offsets_ms: int
    groups: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One seed's cluster and dangers.

    Attributes:
        seed: Of everything else's randomness, too.
        brokers: How many.
        partitions: Of the one topic; each has 3 replicas.
        min_isr: min.insync.replicas; one less replicas may lose data at once.
        clients: Producer ids; None for a client without one.
        steps: Port calls before the faults end.
        call_faults: Rate of each fault of a call, by name.
        events: Rate of each event a step, by name.
        twin_chance: Share of tasks that run twice.
        weights: How quick nodes are, drawn in turn.
        snapshot_records: When a snapshot of the metadata is due.
        lag_ms: replica.lag.time.max.ms.
        session_ms: broker.session.timeout.ms; short ones make for many elections.
        fetch_bytes: replica.fetch.max.bytes.
        skew_ms: Wall clocks are wrong by at most this.
        clock_ahead_ms: clock.ahead.max.ms.
        delete_delay_ms: file.delete.delay.ms.
        sweep_ms: replica.sweep.interval.ms.
        verdict_ms: replica.verdict.delay.ms.
        is_unclean: unclean.leader.election.enable; one disk more may lose data at once.
        retention_ms: retention.ms; None: nothing is deleted for its age or size.
        retention_bytes: retention.bytes; a record has 100.
        tidiers: Processes that do the upkeep of replicas: they clean their folders.
        merge_fan_in: So many files become one; None: nothing is merged.
        merge_lag: merge.min.lag.batches.
        compaction: How the topic is compacted; None: it is not.
        expiring: What expires, and when; None: nothing does.
        orphan_bytes: orphan.bytes.max.
        is_restamped: message.timestamp.type changes now and then.
        changes_retries: Producers now and then retry with other records.
        is_uncontrolled: Small passes are judged, and one must save an append in the end.
    """

    seed: int
    brokers: int = 3
    partitions: int = 1
    min_isr: int = 2
    clients: tuple[str | None, ...] = (None, "p1")
    steps: int = 1000
    call_faults: dict[str, float] = field(default_factory=dict)
    events: dict[str, float] = field(default_factory=dict)
    twin_chance: float = 0.0
    controllers: int = 2
    replicators: int = 1
    snapshot_records: int = 1000
    lag_ms: int = 2000
    session_ms: int = 1500
    fetch_bytes: int = 1_000_000
    skew_ms: int = 0
    clock_ahead_ms: int = 60_000
    verdict_ms: int = 300
    is_unclean: bool = False
    delete_delay_ms: int = 0
    sweep_ms: int = 1000
    is_uncontrolled: bool = False
    retention_ms: int | None = None
    retention_bytes: int = -1
    tidiers: int = 0
    merge_fan_in: int | None = None
    merge_lag: int = 10
    compaction: Compacting | None = None
    expiring: Expiring | None = None
    orphan_bytes: int = NO_BOUND
    is_restamped: bool = False
    changes_retries: bool = False

    @property
    def are_clocks_right(self) -> bool:
        """Whether all nodes' wall clocks say the same."""
        return self.skew_ms == 0 and "clock jump" not in self.events
