"""What befalls the brokers' disks: one disk at a time, in an order of one seed.

Data are lost or forged only where every replica of every partition is whole again. Where an intact
disk only gives errors for moments, all must be whole, too: then no replica may be found bad. And
where nobody controls: then each partition has enough replicas without the disk that goes.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.metadata.records import BrokerState
from tests.rigs.torturing.checks.anomalies import Anomaly
from tests.rigs.torturing.checks.verdicts import false_verdicts, verdicts
from tests.rigs.torturing.checks.wholeness import (
    acknowledged_since,
    image_of,
    open_again,
    patiently,
    wait_until,
    what_is_missing,
)
from tests.rigs.torturing.faults.disks import Disks
from tests.rigs.torturing.faults.files import Undo, forbid, newest, put_pipe, put_pipe_ahead
from tests.rigs.torturing.faults.forging import FORGERIES, Place, places_on
from tests.rigs.torturing.folder import BROKERS, controller_pid
from tests.rigs.torturing.history import NEMESIS, HistoryWriter
from tests.rigs.torturing.processes import APPENDING, CONTROLLING, Processes

MOMENTS: Final = ("away for moments", "file forbidden for moments")
PIPES: Final = ("pipe for meta.properties", "pipe for a segment", "pipe for the next commit")
NOBODY_CONTROLS: Final = "away, nobody controls"
DISK_FAULTS: Final = (
    "away",
    "two away",
    "read-only",
    "full",
    "wiped",
    "emptied",
    "rolled back",
    *MOMENTS,
    *PIPES,
    *FORGERIES,
    NOBODY_CONTROLS,
)
NEEDS_WHOLE: Final = frozenset(
    {"wiped", "emptied", "rolled back", *MOMENTS, *FORGERIES, NOBODY_CONTROLS}
)
PIPE_S: Final = (2.0, 6.0)
MOMENT_S: Final = (0.005, 0.3)
BETWEEN_MOMENTS_S: Final = (0.02, 0.4)
MOMENTS_RANGE: Final = (4, 10)
SECOND_LOOK_S: Final = 3.0
"""A process that takes an error for a verdict has inspected a second time by then."""
FORGE_S_MAX: Final = 40.0
WHOLE_S_MAX: Final = 300.0
"""Seconds, where the machine does little else. Both controllers may have been killed, and each begins
again beside Spark's drivers, which take the processors for a minute."""
ANSWERED_S_MAX: Final = 120.0
"""Two to ten seconds, as a rule. Clients may have been killed, too, and one that tries the partition
whose leader is away is at it for the time of a delivery, 15 seconds."""
LEASE_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How quickly faults follow each other, in seconds."""

    hold_s: tuple[float, float]
    pause_s: tuple[float, float]


PACE: Final = Pace(hold_s=(2.0, 9.0), pause_s=(0.5, 4.0))
HURRY: Final = Pace(hold_s=(2.0, 5.0), pause_s=(0.2, 1.2))
"""Of a run that ends when each fault was done once: a broker is fenced after 1.5 s, and a replica that
lags leaves its ISR after 4 s, so that more than 5 s is only waited for."""
HURRIES_MINUTES_MAX: Final = 1.0


def pace_of(minutes: float) -> Pace:
    return HURRY if minutes <= HURRIES_MINUTES_MAX else PACE


def dealt(kinds: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Yield kinds without end, each once before any comes again, in an order of its own."""
    while True:
        yield from rng.sample(kinds, len(kinds))


@dataclass(frozen=True, slots=True)
class Hit:
    """One fault."""

    kind: str
    broker_id: int
    hold_s: float
    rng: random.Random


class DiskFaults:
    def __init__(
        self,
        disks: Disks,
        cluster: Cluster,
        processes: Processes,
        over: threading.Event,
        pace: Pace,
    ) -> None:
        """`over`: set when faults are to end."""
        self.done: Counter[str] = Counter()
        self.anomalies: list[Anomaly] = []
        self.answered_s: list[float] = []
        self._disks = disks
        self._cluster = cluster
        self._processes = processes
        self._over = over
        self._pace = pace
        self._may_lose = True
        self._how: dict[str, Callable[[Hit], bool]] = {
            "two away": self._take_two_away,
            "wiped": self._wipe,
            "rolled back": self._roll_back,
            **dict.fromkeys(MOMENTS, self._fail_for_moments),
            **dict.fromkeys(PIPES, self._hang),
            **dict.fromkeys(FORGERIES, self._forge),
            NOBODY_CONTROLS: self._leave_alone,
        }

    def torment(self, rng: random.Random, writer: HistoryWriter) -> None:
        """Do one after the other until they are to end; what was done is undone then."""
        kinds = [kind for kind in DISK_FAULTS if kind not in self._disks.why_not]
        for kind in dealt(kinds, rng):
            if self._over.wait(rng.uniform(*self._pace.pause_s)):
                return
            hold_s = rng.uniform(*(PIPE_S if kind in PIPES else self._pace.hold_s))
            hit = Hit(kind, rng.choice(BROKERS), hold_s, random.Random(rng.random()))
            if kind in NEEDS_WHOLE and not self._wait_until_whole():
                continue
            writer.note(NEMESIS, fault=kind, broker=hit.broker_id, hold_s=hit.hold_s)
            is_done = self._how.get(kind, self._hold)(hit)
            self.done[kind] += is_done
            writer.note(NEMESIS, healed=kind, broker=hit.broker_id, is_done=is_done)

    # Whole disks

    def _hold(self, hit: Hit) -> bool:
        faults = {
            "away": self._disks.take_away,
            "read-only": self._disks.set_read_only,
            "full": self._disks.fill,
            "emptied": self._disks.empty,
        }
        undo = faults[hit.kind](hit.broker_id)
        self._over.wait(hit.hold_s)
        undo()
        return True

    def _roll_back(self, hit: Hit) -> bool:
        copy = self._disks.copy(hit.broker_id)
        self._over.wait(hit.hold_s)
        self._disks.roll_back(hit.broker_id, copy)
        return True

    def _wipe(self, hit: Hit) -> bool:
        self._disks.wipe(hit.broker_id)
        self._over.wait(hit.hold_s)
        self._wait_until_fenced(hit.broker_id)
        self._register(hit.broker_id)
        return True

    def _take_two_away(self, hit: Hit) -> bool:
        """Leave one broker: appends must be refused, and nothing may be lost by it."""
        away = [each for each in BROKERS if each != hit.broker_id]
        undo = [self._disks.take_away(each) for each in away]
        self._over.wait(hit.hold_s)
        for each in undo:
            each()
        return True

    def _wait_until_fenced(self, broker_id: int) -> None:
        """Wait until the controller has noticed: before, another disk is not taken."""

        def is_fenced() -> bool:
            broker = image_of(self._cluster).brokers[BrokerId(broker_id)]
            return broker.state is BrokerState.FENCED

        if not wait_until(is_fenced, WHOLE_S_MAX):
            self._fail(f"broker {broker_id}", "its root was wiped, and it is not fenced")

    def _register(self, broker_id: int) -> None:
        """Give a broker its new disk, as an operator would."""
        root = self._disks.folder.root(broker_id)
        try:
            patiently(lambda: self._cluster.register_broker(broker_id, root), WHOLE_S_MAX)
        except KafkaOnSparkError as error:
            self._fail(f"broker {broker_id}", f"its new disk is not taken: {error}")

    # Errors that pass, and what hangs

    def _fail_for_moments(self, hit: Hit) -> bool:
        """Have an intact disk fail for moments: nothing on it may be found bad."""
        before = verdicts(self._cluster)
        for _ in range(hit.rng.randint(*MOMENTS_RANGE)):
            undo = self._fail_once(hit)
            if undo is None:
                return False
            self._over.wait(hit.rng.uniform(*MOMENT_S))
            undo()
            self._over.wait(hit.rng.uniform(*BETWEEN_MOMENTS_S))
        self._over.wait(SECOND_LOOK_S)
        self._wait_until_whole()
        self.anomalies += false_verdicts(before, verdicts(self._cluster))
        return True

    def _fail_once(self, hit: Hit) -> Undo | None:
        if hit.kind == "away for moments":
            return self._disks.take_away(hit.broker_id)
        for place in self._places(hit):
            pattern = hit.rng.choice(("*.parquet", "_delta_log/*.checkpoint.parquet"))
            with suppress(FileNotFoundError):  # merged or cleaned meanwhile
                file = newest(place.folder, pattern) or newest(place.folder, "*.parquet")
                if file is not None:
                    return forbid(file)
        return None

    def _hang(self, hit: Hit) -> bool:
        undo = self._put_pipe(hit)
        if undo is None:
            return False
        self._over.wait(hit.hold_s)
        undo()
        return True

    def _put_pipe(self, hit: Hit) -> Undo | None:
        root = self._disks.folder.root(hit.broker_id)
        if hit.kind == "pipe for meta.properties":
            return put_pipe(root / "meta.properties", root)
        for place in self._places(hit):
            with suppress(FileNotFoundError):  # merged or cleaned meanwhile
                undo = self._pipe_in(place, hit.kind, root)
                if undo is not None:
                    return undo
        return None

    def _pipe_in(self, place: Place, kind: str, root: Path) -> Undo | None:
        if kind == "pipe for the next commit":
            return put_pipe_ahead(place.folder / "_delta_log", root)
        file = newest(place.folder, "*.parquet")
        return None if file is None else put_pipe(file, root)

    def _places(self, hit: Hit) -> list[Place]:
        places = list(places_on(image_of(self._cluster), hit.broker_id))
        return hit.rng.sample(places, len(places))

    # Forgeries

    def _forge(self, hit: Hit) -> bool:
        """Forge a replica: a newly opened cluster must find it bad, and it must be created again."""
        forged: list[tuple[Place, Path]] = []

        def try_all() -> bool:
            # The broker that was drawn may lead nothing: then another one's replica is forged.
            others = (replace(hit, broker_id=each) for each in BROKERS if each != hit.broker_id)
            for place in chain(self._places(hit), *map(self._places, others)):
                with suppress(KafkaOnSparkError, FileNotFoundError):  # it is merged or cleaned
                    if file := FORGERIES[hit.kind](place):
                        forged.append((place, file))
                        return True
            return self._over.is_set()

        wait_until(try_all, FORGE_S_MAX)
        for place, file in forged:
            self._wait_until_recreated(hit.kind, place, file)
        return bool(forged)

    def _wait_until_recreated(self, kind: str, place: Place, changed: Path) -> None:
        deadline = time.monotonic() + WHOLE_S_MAX
        inspections: list[str] = []
        while place.is_in(image_of(self._cluster)):
            if time.monotonic() > deadline:
                self._may_lose = False
                name = f"{place.topic}/{place.key.partition}"
                sentence = f"{kind} on broker {place.broker_id}, and it is not created again"
                met = f"of {len(inspections)} inspections the last met: {inspections[-1:]}"
                self._fail(name, f"{sentence}: {place.folder}; {met}")
                return
            try:
                if place.has_cut(changed):  # its history keeps what was done to it
                    at = (place.topic, place.key.partition, int(changed.stem))
                    self._disks.rolled_back.add((int(place.broker_id), *at))
                    return
                url = self._disks.folder.cluster_url
                inspections.append(open_again(url, place.topic, place.key.partition))
            except (KafkaOnSparkError, FileNotFoundError) as error:
                inspections.append(repr(error))  # what happens meanwhile may fail it

    # Without a controller

    def _leave_alone(self, hit: Hit) -> bool:
        """Take a disk away while nobody controls: appends must be answered all the same."""
        folder = self._disks.folder
        folder.nobody_controls.touch()
        controlling = self._processes.named(CONTROLLING)
        self._processes.hold_down(controlling)
        try:
            if not wait_until(self._does_nobody_control, LEASE_S_MAX):
                return False
            undo = self._disks.take_away(hit.broker_id)
            try:
                begun_ns = time.monotonic_ns()
                self._wait_until_answered(begun_ns)
                self._over.wait(hit.hold_s - (time.monotonic_ns() - begun_ns) / 1e9)
            finally:
                undo()
        finally:
            folder.nobody_controls.unlink()
            self._processes.let_up(controlling)
        return True

    def _does_nobody_control(self) -> bool:
        controller = controller_pid(image_of(self._cluster))
        deciding = {controller, *self._disks.folder.controlling_pids()}
        return self._over.is_set() or not deciding & {each.pid for each in self._processes.find()}

    def _wait_until_answered(self, begun_ns: int) -> None:
        """Wait until each partition has got an append that was begun without the disk."""
        missing: list[str] = []

        def is_answered() -> bool:
            clients = self._processes.named(APPENDING)
            times = acknowledged_since(self._disks.folder.history, clients, begun_ns)
            missing[:] = [key for key, at_ns in times.items() if at_ns is None]
            if not missing:
                self.answered_s.append(max(at_ns or 0 for at_ns in times.values()) / 1e9)
            return not missing or self._over.is_set()

        if not wait_until(is_answered, ANSWERED_S_MAX):
            sentence = f"nobody controls, and no append was answered in {ANSWERED_S_MAX:.0f} s"
            self._fail(", ".join(missing), sentence)

    # All

    def _wait_until_whole(self) -> bool:
        """Wait until all replicas have all that is committed; then data may be lost again."""
        missing: list[str] = []

        def is_whole() -> bool:
            missing[:] = what_is_missing(self._cluster)
            return not missing or self._over.is_set()

        if self._may_lose and not wait_until(is_whole, WHOLE_S_MAX):
            self._may_lose = False
            self._fail("", f"not whole after {WHOLE_S_MAX:.0f} s: {missing[0]}")
        return self._may_lose and not self._over.is_set()

    def _fail(self, key: str, sentence: str) -> None:
        self.anomalies.append(Anomaly("stuck", key, sentence))
