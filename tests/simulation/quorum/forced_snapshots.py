"""Seeds of a cluster that is forced to go on from one voter, among snapshots of what was given up.

A process decides and writes snapshots while the third voter now and then takes no commit. It is then
forced to go on alone. The others go on, too, as some process sees it, and whoever was frozen may
still put a snapshot of theirs on the third root. In the end, and at each place before, the newest
snapshot and the tail must be what the third voter's log says.
"""

import random
from collections import deque
from itertools import count

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.metadata.quorum.forcing import force_voter
from kafka_on_spark.metadata.quorum.voter_table import OffsetAndEpoch
from kafka_on_spark.metadata.records import ClusterRecord, ConfigRecord
from tests.voter_fakes import (
    STAMP,
    MemoryQuorum,
    MemoryVoterLog,
    VoterFault,
    settings_of,
    voter_of,
)

LEFT = 2
"""The voter that goes on alone."""

STEPS = 12
MANY = 100


class Forced:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"forced/{seed}")
        self.quorum = MemoryQuorum()
        self.values = count()
        self.flaw: str | None = None

    def run(self) -> str | None:
        """Return what did not hold; None: all did."""
        old = self.quorum.process("old")
        self.steps(old, may_refuse=True)
        left = self.quorum.process("left")
        left.cut_off = {0, 1}
        ids = count()
        try:
            force_voter(
                left.tables, voter_of(LEFT), begun, stamp=STAMP, new_id=lambda: f"forced{next(ids)}"
            )
            old.cut_off = {LEFT}
            for _ in range(STEPS):
                self.steps(self.rng.choice([old, left]), may_refuse=False)
                self.plant()
            self.check(left)
        except KafkaOnSparkError as error:
            self.flaw = self.flaw or f"{type(error).__name__}: {error}"
        return self.flaw

    def steps(self, process, *, may_refuse) -> None:
        """Decide a few things, hold an election, or write a snapshot."""
        for _ in range(self.rng.randrange(STEPS)):
            refused = MANY if may_refuse and self.rng.random() < 0.5 else 0
            self.quorum.roots[LEFT].faults = deque([VoterFault.REFUSED] * refused)
            kind = self.rng.choice(["decide", "decide", "elect", "snapshot"])
            if kind == "decide":
                some = self.rng.randrange(1, 4)
                process.decide(*(f"v{next(self.values)}" for _ in range(some)))
            elif kind == "snapshot":
                self.write_snapshot(process)
            elif len(process.tables.voters.voters) > 1:
                process.changes.elect(self.quorum.roots[self.rng.choice((0, 1))].key)
        self.quorum.roots[LEFT].faults.clear()

    def write_snapshot(self, process) -> None:
        end = process.read(from_offset=0)[-1].end_offset
        before = [set(root.snapshots) for root in self.quorum.roots]
        process.write_snapshot(settings_of(*process.names()), STAMP, end)
        for root, known in zip(self.quorum.roots, before, strict=True):
            if root.snapshots.keys() - known and root.table.log.border_before(end) != end:
                self.flaw = self.flaw or f"{root.key} has a snapshot to {end}, which it lacks"

    def plant(self) -> None:
        """Put a snapshot of what was given up on the root that goes on."""
        given_up, left = self.quorum.roots[0], self.quorum.roots[LEFT]
        batch = self.rng.choice(given_up.table.log.batches[1:])
        log = given_up.table.log.cut_to(batch.end_offset)
        names = [name for each in log.batches for name in names_in(given_up.content[each.write_id])]
        MemoryVoterLog(left, voter_of(LEFT)).write_snapshot(
            settings_of(*names), STAMP, OffsetAndEpoch(batch.end_offset, batch.epoch)
        )

    def check(self, process) -> None:
        batches = process.read(from_offset=0)
        for end in range(batches[-1].end_offset + 1):
            snapshot = process.newest_snapshot(to_offset=end)
            if snapshot is None:
                continue
            tail = process.read(from_offset=snapshot.end_offset)
            found = [name for each in (snapshot, *tail) for name in names_in(each)]
            if found != process.names():
                self.flaw = self.flaw or f"up to {end}: {found} is read of {process.names()}"


def begun(image, generation, cause):
    return [ClusterRecord(cluster_id="a-cluster", generation=generation, cause=cause)]


def names_in(batch):
    return [each.config_name for each in batch.records if isinstance(each, ConfigRecord)]
