"""What befalls the roots of the metadata quorum's voters, beside what befalls brokers and processes.

One voter's root at a time, the leader's every other time; or most of them, and then nothing may be
decided until they are back. After each change this process, which nothing befalls, makes a decision:
from the moment that a majority of roots was well, to its answer, is what is measured. A consumer's
commit is one that no other process takes part in.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from kafka_on_spark import Cluster, KafkaOnSparkError
from tests.rigs.torturing.checks.anomalies import Anomaly
from tests.rigs.torturing.checks.quorum import PROBE_GROUP, FirstDecision
from tests.rigs.torturing.checks.wholeness import patiently
from tests.rigs.torturing.faults.disk_faults import (
    BETWEEN_MOMENTS_S,
    MOMENT_S,
    MOMENTS_RANGE,
    PIPE_S,
    Pace,
    dealt,
)
from tests.rigs.torturing.faults.disks import Disks
from tests.rigs.torturing.faults.files import Undo, put_pipe_ahead
from tests.rigs.torturing.folder import TOPICS
from tests.rigs.torturing.history import NEMESIS, HistoryWriter

VOTER_FAULTS: Final = (
    "voter away",
    "voter read-only",
    "voter full",
    "voter hangs",
    "pipe for a voter's next commit",
    "voter away for moments",
    "most voters away",
    "voter lost and replaced",
)
NEEDS: Final = {"voter read-only": "read-only", "voter full": "full", "voter hangs": "hangs"}
"""What a fault needs of the place, by the name under which disks say why it can't be done."""

DECIDED_S_MAX: Final = 120.0


class VoterFaults:
    def __init__(
        self, disks: Disks, cluster: Cluster, over: threading.Event, pace: Pace, done: Counter[str]
    ) -> None:
        """`over`: set when faults are to end. `done`: counts them."""
        self.anomalies: list[Anomaly] = []
        self.decisions: list[FirstDecision] = []
        self._done = done
        self._disks = disks
        self._cluster = cluster
        self._over = over
        self._pace = pace
        self._count = 0

    def kinds(self) -> tuple[str, ...]:
        if not self._disks.folder.voter_disks:
            return ()
        return tuple(kind for kind in VOTER_FAULTS if NEEDS.get(kind) not in self._disks.why_not)

    def torment(self, rng: random.Random, writer: HistoryWriter) -> None:
        """Do one after the other until they are to end; what was done is undone then."""
        for kind in dealt(self.kinds(), rng):
            if self._over.wait(rng.uniform(*self._pace.pause_s)):
                return
            names = self._drawn(kind, rng)
            writer.note(NEMESIS, fault=kind, voters=names)
            self._hit(kind, names, rng)
            self._done[kind] += 1
            decided = [(each.after, each.seconds, each.tries) for each in self.decisions[-2:]]
            writer.note(NEMESIS, healed=kind, voters=names, decided=decided)

    def _drawn(self, kind: str, rng: random.Random) -> list[str]:
        disks = self._disks.folder.voter_disks
        leader = self._leader()
        if kind == "most voters away":
            return rng.sample(disks, len(disks) // 2 + 1)
        return [leader if leader is not None and rng.random() < 0.5 else rng.choice(disks)]

    def _leader(self) -> str | None:
        try:
            voters = self._cluster.describe_quorum().voters
        except KafkaOnSparkError:
            return None
        roots = [each.voter.root for each in voters if each.leads]
        disks = self._disks.folder.voter_disks
        return next((each for each in disks if str(self._disks.folder.root(each)) in roots), None)

    def _hit(self, kind: str, names: list[str], rng: random.Random) -> None:
        if kind == "voter away for moments":
            for _ in range(rng.randint(*MOMENTS_RANGE)):
                undo = self._disks.take_away(names[0])
                self._over.wait(rng.uniform(*MOMENT_S))
                undo()
                self._over.wait(rng.uniform(*BETWEEN_MOMENTS_S))
            self._decide(kind, time.monotonic())
            return
        if kind == "voter lost and replaced":
            self._replace(names[0], rng.uniform(*self._pace.hold_s))
            self._decide(kind, time.monotonic())
            return
        is_short = kind in ("voter hangs", "pipe for a voter's next commit")
        hold_s = rng.uniform(*(PIPE_S if is_short else self._pace.hold_s))
        undo_all = [self._begun(kind, name) for name in names]
        begun_s = time.monotonic()  # a disk of two GB takes seconds to be full
        try:
            if len(names) == 1:
                self._decide(kind, begun_s)
            self._over.wait(max(hold_s - (time.monotonic() - begun_s), 0))
        finally:  # what waits for a disk that hangs can't even be killed
            for undo in undo_all:
                undo()
        self._decide(f"{kind}, healed", time.monotonic())

    def _begun(self, kind: str, name: str) -> Undo:
        faults: dict[str, Callable[[str], Undo]] = {
            "voter away": self._disks.take_away,
            "most voters away": self._disks.take_away,
            "voter read-only": self._disks.set_read_only,
            "voter full": self._disks.fill,
            "voter hangs": self._disks.freeze,
            "pipe for a voter's next commit": self._put_pipe,
        }
        return faults[kind](name)

    def _put_pipe(self, name: str) -> Undo:
        """Have something that is no file stand where a voter's next commit would be."""
        root = self._disks.folder.root(name)
        [log] = root.glob("__cluster_metadata-*/_delta_log")
        undo = put_pipe_ahead(log, root)
        assert undo is not None, log
        return undo

    def _replace(self, name: str, hold_s: float) -> None:
        """Lose a voter's root for good, and do as an operator then: remove it, and add a new one."""
        root = str(self._disks.folder.root(name))
        self._disks.wipe(name)
        self._over.wait(hold_s)

        def replace() -> None:
            # Each step may have been done by a try of which nobody knows what became.
            voters = self._cluster.describe_quorum().voters
            lost = [each for each in voters if each.voter.root == root and each.problem]
            if lost or all(each.voter.root != root for each in voters):
                for each in lost:
                    self._cluster.remove_controller(str(each.voter.key))
                self._cluster.add_controller(root)

        try:
            patiently(replace, DECIDED_S_MAX)
        except KafkaOnSparkError as error:
            sentence = f"no voter in place of a lost one in {DECIDED_S_MAX:.0f} s: {error}"
            self.anomalies.append(Anomaly("stuck", name, sentence))

    def _decide(self, after: str, since_s: float) -> None:
        """Make a decision, tried again until it is acknowledged, and take note of how long it took
        since a majority of roots was well."""
        self._count += 1
        group, tries = f"{PROBE_GROUP}{self._count}", 0
        while True:
            try:
                self._commit_offset(group)
                seconds = time.monotonic() - since_s
                self.decisions.append(FirstDecision(after, group, seconds, tries))
                return
            except KafkaOnSparkError as error:
                tries += 1
                if time.monotonic() - since_s > DECIDED_S_MAX:
                    sentence = f"no decision in {DECIDED_S_MAX:.0f} s and {tries} tries: {error}"
                    self.anomalies.append(Anomaly("stuck", after, sentence))
                    return
            time.sleep(0.02)

    def _commit_offset(self, group: str) -> None:
        """Have a new group stand at the beginning of a partition; nothing is committed if it does."""
        partition = (TOPICS[0], 0)
        with self._cluster.consumer(
            partitions=[partition], group=group, enable_auto_commit=False
        ) as consumer:
            consumer.commit({partition: 0})
