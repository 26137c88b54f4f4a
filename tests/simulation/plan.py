"""What one seed's cluster is, and which faults it may meet: about half of the kinds, each at a
rate of its own (swarm testing), so that no fault hides what another would show."""

import random
from dataclasses import dataclass, field, replace
from typing import Final

CALL_FAULTS: Final = {
    "load": ("stale", "failed", "mistaken", "slow", "hung"),
    "commit": (
        "lost",
        "unsaid",
        "delayed",
        "resolved",
        "refused",
        "slow",
        "hung",
        "torn",
        "asleep",
    ),
    "metadata append": (
        "lost",
        "unsaid",
        "delayed",
        "resolved",
        "refused",
        "slow",
        "hung",
        "asleep",
    ),
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

LOSING: Final = (
    *("wipe", "lose tables", "lose producers", "empty", "rot", "forge"),
    *("roll back", "roll back live"),
)
EVENTS: Final = {
    # event: how often of 1,000 steps, at most
    "offline": 12,
    "read-only": 4,
    "full": 4,
    "burst": 6,
    "blink": 10,
    "sticky": 2,
    "wipe": 3,
    "lose tables": 3,
    "roll back": 30,  # most of the time its broker is not down, and nothing comes of it
    "empty": 3,
    "rot": 3,
    "mend": 20,  # most of the time nothing is damaged
    "metadata away": 3,
    "kill": 6,
    "freeze": 8,
    "second driver": 3,
    "clock jump": 4,
}
HEALING: Final = {"heal": 15, "thaw": 12, "metadata back": 40}
"""How faults end, in the same measure; not a matter of swarm."""


UNCLEAN_EVERY: Final = 15
"""One seed in so many has a plan that leads to unclean elections."""

RESTORED_EVERY: Final = 15
"""One seed in so many has a plan in which lost replicas are put right, and taken back."""


NO_BOUND: Final = 10**9

CLEANED_EVERY: Final = 5
"""One seed in so many has old commits that go while processes sleep."""


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
        delete_delay_ms: file.delete.delay.ms.
        sweep_ms: replica.sweep.interval.ms.
        sweeps_quietly: Sweeps look at idle replicas by their newest commits alone.
        verdict_ms: replica.verdict.delay.ms.
        is_unclean: unclean.leader.election.enable; one disk more may lose data at once.
        commits_kept: So many commits of a table stay below its newest; None: nothing is cleaned.
        retention_ms: retention.ms; None: nothing is deleted for its age or size.
        retention_bytes: retention.bytes; a record has 100.
        tidiers: Processes that do the upkeep of replicas: they clean their folders.
        merge_fan_in: So many files become one; None: nothing is merged.
        merge_lag: merge.min.lag.batches.
        compaction: How the topic is compacted; None: it is not.
        expiring: What expires, and when; None: nothing does.
        orphan_bytes: orphan.bytes.max.
        is_restamped: message.timestamp.type changes now and then.
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
    verdict_ms: int = 300
    is_unclean: bool = False
    delete_delay_ms: int = 0
    sweep_ms: int = 1000
    sweeps_quietly: bool = False
    is_uncontrolled: bool = False
    commits_kept: int | None = None
    retention_ms: int | None = None
    retention_bytes: int = -1
    tidiers: int = 0
    merge_fan_in: int | None = None
    merge_lag: int = 10
    compaction: Compacting | None = None
    expiring: Expiring | None = None
    orphan_bytes: int = NO_BOUND
    is_restamped: bool = False

    @property
    def are_clocks_right(self) -> bool:
        """Whether all nodes' wall clocks say the same."""
        return self.skew_ms == 0 and "clock jump" not in self.events


def uncontrolled(seed: int) -> Plan:
    """Return a plan in which nobody controls the cluster, or only for a moment: appends decide for
    themselves, some of which lose sight of roots that others reach."""
    rng = random.Random(f"lonely/{seed}")
    rare = {"kill": 0.002, "second driver": 0.002, "metadata away": 0.002, "read-only": 0.004}
    return Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 4]),
        partitions=rng.choice([1, 2]),
        min_isr=rng.choice([2, 2, 1]),
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(2, 4))),
        steps=rng.choice([2000, 4000]),
        call_faults=rng.choice([{}, {"slow": 0.01}, {"slow": 0.02, "lost": 0.02}]),
        events={
            "offline": rng.choice([0.002, 0.01]),
            "freeze": rng.choice([0.0, 0.01]),
            "cut off": rng.choice([0.0, 0.004, 0.01]),
            "denied": rng.choice([0.0, 0.004]),
            "rejoin": 0.005,
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        controllers=rng.choice([0, 0, 0, 1]),
        lag_ms=rng.choice([1000, 30_000]),
        session_ms=rng.choice([200, 400]),
        is_uncontrolled=True,
    )


def tidied(seed: int) -> Plan:
    """Return a plan of replicas' folders that are cleaned by processes which freeze and die at it,
    while leaders change and records are deleted."""
    rng = random.Random(f"tidied/{seed}")
    rare = {"kill": 0.004, "second driver": 0.004, "clock jump": 0.004}
    return Plan(
        seed=seed,
        partitions=rng.choice([1, 1, 2]),
        min_isr=2,
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(1, 3))),
        steps=rng.choice([800, 1500]),
        call_faults=rng.choice([{}, {"slow": 0.02}, {"failed": 0.02, "stale": 0.03}]),
        events={
            "freeze": rng.choice([0.004, 0.02]),
            "offline": 0.01,
            "roll back": 0.1,  # of disks that are offline
            **{name: rate for name, rate in rare.items() if rng.random() < 0.6},
        },
        twin_chance=rng.choice([0.0, 0.3]),
        lag_ms=rng.choice([60, 500, 2000]),
        session_ms=rng.choice([40, 100, 300]),
        retention_ms=rng.choice([None, 300]),
        skew_ms=rng.choice([0, 3_600_000]),
        sweep_ms=200,
        tidiers=rng.choice([1, 2]),
        orphan_bytes=rng.choice([0, 200, NO_BOUND]),
    )


def remade(seed: int) -> Plan:
    """Return a plan in which the cluster is deleted and made again while processes have it open."""
    rng = random.Random(f"remade/{seed}")
    rare = {"kill": 0.002, "freeze": 0.01, "offline": 0.004, "second driver": 0.004}
    return Plan(
        seed=seed,
        partitions=rng.choice([1, 2]),
        steps=rng.choice([600, 1200]),
        call_faults=rng.choice(
            [{"torn": 0.03}, {"slow": 0.02}, {"delayed": 0.03, "unsaid": 0.02, "slow": 0.02}]
        ),
        events={"make again": 0.003, **{each: rare[each] for each in rare if rng.random() < 0.5}},
        twin_chance=rng.choice([0.0, 0.1]),
        snapshot_records=rng.choice([15, 1000]),
        session_ms=rng.choice([200, 1500]),
    )


def sole(seed: int) -> Plan:
    """Return a plan in which one client is alone: nobody else brings news of the roots that it can't
    reach, may not write to, or sleeps through the return of."""
    rng = random.Random(f"sole/{seed}")
    danger = rng.choice([{"nap": 0.02, "offline": 0.01}, {"denied": 0.01, "rejoin": 0.002}])
    return Plan(
        seed=seed,
        clients=("p1",),
        steps=rng.choice([800, 1500]),
        events=danger,
        controllers=0,
        replicators=0,
        lag_ms=30_000,
        session_ms=rng.choice([200, 400]),
        is_uncontrolled=True,
    )


def forged(seed: int) -> Plan:
    """Return a plan in which tables are rolled back while they serve, and changed by hand."""
    rng = random.Random(f"forged/{seed}")
    rare = {"kill": 0.002, "freeze": 0.004, "offline": 0.004, "rot": 0.001, "wipe": 0.001}
    return Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 4]),
        partitions=rng.choice([1, 1, 2]),
        min_isr=2,
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(1, 3))),
        steps=rng.choice([800, 1500]),
        call_faults=rng.choice([{}, {"slow": 0.01}, {"slow": 0.02, "stale": 0.02}]),
        events={
            "forge": rng.choice([0.0, 0.005, 0.01]),
            "roll back live": rng.choice([0.005, 0.01]),
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        twin_chance=rng.choice([0.0, 0.1]),
        replicators=rng.choice([1, 2]),
        lag_ms=rng.choice([200, 2000]),
        session_ms=rng.choice([200, 1500]),
        sweep_ms=200,
        verdict_ms=rng.choice([20, 300]),
    )


def retained(seed: int) -> Plan:
    """Return a plan in which records are deleted for their age and size, leaders change meanwhile,
    and the clocks of processes or those of disks are wrong, but not both.

    All clients have producers: an append without one is known by its files alone, and is made again
    if an unknown commit of it was deleted before it is looked for.
    """
    rng = random.Random(f"retained/{seed}")
    rare = {"kill": 0.004, "freeze": 0.01, "second driver": 0.004, "rot": 0.001, "wipe": 0.001}
    wrong = rng.choice([{}, {"clock jump": 0.05}, {"root clock jump": 0.05}])
    plan = Plan(
        seed=seed,
        partitions=rng.choice([1, 2]),
        clients=tuple(f"p{number}" for number in range(rng.randint(2, 3))),
        steps=rng.choice([800, 1500]),
        call_faults=rng.choice(
            [{}, {"slow": 0.02}, {"delayed": 0.03, "lost": 0.02, "stale": 0.03}]
        ),
        events={
            "offline": rng.choice([0.0, 0.01]),
            **wrong,
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        twin_chance=rng.choice([0.0, 0.1]),
        snapshot_records=rng.choice([15, 1000]),
        session_ms=rng.choice([100, 300, 1500]),
        sweep_ms=200,
        retention_ms=rng.choice([300, 1000, 3000]),
        retention_bytes=rng.choice([-1, 600]),
    )
    if seed % 3:
        return plan
    unclean = _unclean(plan)
    return replace(unclean, events=unclean.events | wrong, retention_ms=100, retention_bytes=-1)


def plan_of(seed: int) -> Plan:
    """Return the plan of a seed."""
    rng = random.Random(f"plan/{seed}")

    def swarm(names: dict[str, float]) -> dict[str, float]:
        return {name: most * rng.random() for name, most in names.items() if rng.random() < 0.5}

    calls = sorted(
        {fault for faults in CALL_FAULTS.values() for fault in faults} - {"hung", "torn", "asleep"}
    )
    plan = Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 4]),
        partitions=rng.choice([1, 1, 2]),
        min_isr=rng.choice([2, 2, 2, 2, 1]),
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(1, 3))),
        steps=rng.choice([400, 800, 1200]),
        call_faults=swarm(dict.fromkeys(calls, 0.06)) | _hangs(seed),
        events=swarm({name: most / 1000 for name, most in EVENTS.items()}),
        twin_chance=rng.choice([0.0, 0.0, 0.1, 0.5]),
        controllers=rng.choice([1, 2, 2]),
        replicators=rng.choice([1, 1, 2]),
        snapshot_records=rng.choice([15, 50, 1000]),
        lag_ms=rng.choice([60, 300, 2000, 10_000]),
        session_ms=rng.choice([40, 100, 300, 1500]),
        fetch_bytes=rng.choice([100, 400, 1_000_000]),
        skew_ms=rng.choice([0, 0, 3000, 3_600_000]),
        is_unclean=rng.random() < 0.12,
        delete_delay_ms=rng.choice([0, 200, 2000]),
        sweep_ms=rng.choice([100, 1000, 10_000]),
        verdict_ms=rng.choice([20, 100, 300, 2000]),
    )
    if seed % CLEANED_EVERY == 1:
        plan = _cleaned(plan)
    if seed % RESTORED_EVERY == 3:
        return _restored(plan)
    return _unclean(plan) if seed % UNCLEAN_EVERY == 7 else plan


def quiet(seed: int) -> Plan:
    """Return a plan of few appends and many disks that lose what they have, while sweeps open no
    table in which nothing happens."""
    rng = random.Random(f"quiet/{seed}")
    return Plan(
        seed=seed,
        brokers=rng.choice([3, 4]),
        partitions=rng.choice([1, 2]),
        clients=("p0",),
        steps=600,
        call_faults=rng.choice([{}, {"slow": 0.02}, {"failed": 0.02}]),
        events={name: rng.choice([0.0, 0.004, 0.01]) for name in ("offline", "wipe", "kill")},
        lag_ms=300,
        session_ms=100,
        sweep_ms=rng.choice([100, 300]),
        verdict_ms=20,
        sweeps_quietly=True,
    )


def _cleaned(plan: Plan) -> Plan:
    """Return the plan with commits that are cleaned soon, and processes that sleep meanwhile in one
    of theirs; drawn apart, so that its other dangers are as ever."""
    rng = random.Random(f"plan/{plan.seed}/cleaned")
    return replace(
        plan,
        commits_kept=rng.choice([1, 1, 2, 4]),
        call_faults=plan.call_faults | {"asleep": rng.choice([0.02, 0.05, 0.1])},
    )


def _restored(plan: Plan) -> Plan:
    """Return the plan with files that are damaged, and put right once the replica is called lost;
    its new incarnation takes many commits, so that the old one is found whole before that is in sync."""
    return replace(
        plan,
        brokers=3,
        partitions=1,
        min_isr=2,
        steps=1200,
        call_faults={},
        events={"rot": 0.05, "mend": 0.01, "restore": 0.3},
        fetch_bytes=100,
        lag_ms=2000,
        session_ms=300,
        skew_ms=0,
        is_unclean=False,
        delete_delay_ms=0,
        sweep_ms=100,
        verdict_ms=20,
    )


def _unclean(plan: Plan) -> Plan:
    """Return the plan with only what leads to unclean elections: an ISR that shrinks to one, whose
    disk then loses what it has. Swarms meet them too rarely, and they are forbidden to most."""
    return replace(
        plan,
        brokers=3,
        min_isr=1,
        steps=1200,
        call_faults={},
        events={"offline": 0.03, "empty": 0.01, "rot": 0.01, "wipe": 0.005, "lose tables": 0.005},
        lag_ms=60,
        session_ms=40,
        verdict_ms=20,
        is_unclean=True,
    )


def _hangs(seed: int) -> dict[str, float]:
    """Return how often a seed's calls hang; drawn apart, so that its other dangers are as ever."""
    rng = random.Random(f"plan/{seed}/hangs")
    return {"hung": 0.03 * rng.random()} if seed % 5 == 0 else {}
