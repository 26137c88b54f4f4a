"""The bed of a drill: disks, processes, an operator's calls, and what was seen of them all."""

import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from kafka_on_spark import Cluster
from tests.rigs.hosts.hosts import DIES_WITH_US
from tests.rigs.images import make_image, why_failed
from tests.rigs.notes import Notes, read_notes
from tests.rigs.rig import CHECKOUT, RigError, Say
from tests.rigs.soaking.checking import bounded, read_records, topic_findings
from tests.rigs.soaking.notes import number_of, value_of

TOPIC: Final = "t"
ASSIGNMENT: Final = "--replica-assignment 1:2:3,2:3:4,3:4:1,4:1:2 --config min.insync.replicas=2"
"""No broker has replicas of all partitions: one of them is to be spared by what befalls a broker."""

PARTITIONS: Final = 4
BROKERS: Final = ("b1", "b2", "b3", "b4")
VOTERS: Final = ("v1", "v2", "v3")
SERVES: Final = ("serve-a", "serve-b")
DISK_GIB: Final = 4
"""More than the alert of little room asks for; a file of holes takes what is written to it."""

LINES_OF_A_CALL: Final = 5
HEALTHY_S_MAX: Final = 180.0
END_S_MAX: Final = 150
"""A producer tries for delivery.timeout.ms, two minutes."""

SCRAPE_S: Final = 2
HURRY: Final = 10
"""A fault lasts for about a tenth of its time in earnest: all times of the alert rules are divided by this."""

UNITS_S: Final = {"m": 60, "h": 3600, "d": 86400}
SHIFTED: Final = """
import runpy, sys, time
real, shift_ns = time.time_ns, int(sys.argv.pop(1)) * 10**9
time.time_ns = lambda: real() + shift_ns
time.time = lambda: time.time_ns() / 10**9
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""Runs a module under another clock. libfaketime is no way: Python's waits fail or last for ever under it."""

ACTIVE: Final = "kafka_controller_kafkacontroller_activecontrollercount"
HEALTHY: Final = {
    "kafka_controller_kafkacontroller_offlinepartitionscount": 0,
    "kafka_controller_kafkacontroller_fencedbrokercount": 0,
    "kafka_server_replicamanager_underreplicatedpartitions": 0,
    "kafka_server_replicamanager_reassigningpartitions": 0,
    "kafka_on_spark_quorum_lost_voters": 0,
    "kafka_on_spark_quorum_max_follower_lag": 10,
}
"""Figures of the controller, and the most that each is when all is well."""

QUIET: Final = (".upkeep", ".cli.serve")
"""Loggers whose lines below WARNING no person needs."""

KINDS: Final = {
    "was acknowledged": "lost",
    " stands at ": "doubled",
    " comes after ": "out of order",
    "was never acknowledged": "unasked",
    "the group never saw": "missed by the group",
}
"""What a finding is, by words of its sentence."""


class Bed:
    """Voters, brokers, two serves, writers and a group's two members, in a folder of the run.

    Attributes:
        wrong: What must not be, in sentences.
        steps: What the operator did and was answered, in s since the fault.
        healthy_s: How long each wait took until all was healthy.
        cut_at: Of records before that time nothing is asked: their topic was deleted.
    """

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder, self.say = folder, say
        self.notes, self.logs = folder / "notes", folder / "logs"
        self.url = ",".join(str(self.root(each)) for each in VOTERS)
        self.topics, self.fault_at, self.cut_at = [TOPIC], time.time(), 0.0
        self.wrong, self.steps, self.healthy_s = list[str](), list[str](), list[float]()
        self._images = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else folder)
        self._mounted, self._frozen = set[str](), set[str]()
        self._processes = dict[str, "subprocess.Popen[Any]"]()
        self._ports, self._numbers = dict[str, int](), dict[str, Iterator[int]]()
        self._stop = threading.Event()
        self._loop = threading.Thread(target=self._produce_again_and_again, daemon=True)

    def __enter__(self) -> Self:
        self.notes.mkdir(parents=True)
        self.logs.mkdir()
        try:
            for name in (*VOTERS, *BROKERS):
                self.mount(name)
            given = [f"--broker {each[1]}={self.root(each)},rack-{each[1]}" for each in BROKERS]
            self.kos(f"cluster --create --metadata-root {self.url} {' '.join(given)}")
            self.kos(f"topics --create --topic {TOPIC} {ASSIGNMENT}")
            for each in SERVES:
                self.serve(each)
            self.until("a controller", self.active)
            self._start_prometheus()
            self.write("sender")
            self._loop.start()
            self.consume("member-1")
            self.consume("member-2")
            self.until("records in the group", lambda: any(self._seen()))
            time.sleep(5)
        except BaseException:
            self.__exit__()
            raise
        self.steps.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for name in [*self._frozen]:
            self.thaw(name)
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        for name in [*self._mounted]:
            self.unmount(name)

    # Disks

    def root(self, name: str) -> Path:
        return self.folder / name / "kos"

    def mount(self, name: str) -> None:
        """Give a broker or a voter a new disk, with an empty folder as its root."""
        disk, image = self.folder / name, self._images / f"drill-{os.getpid()}-{name}"
        disk.mkdir(exist_ok=True)
        make_image(image, DISK_GIB << 30)
        try:
            _do("mkfs.ext4", "-q", "-m", "0", "-J", "size=16", str(image))
            _do("mount", "-o", "loop", str(image), str(disk))
        finally:
            image.unlink()  # it goes with its mount
        self._mounted.add(name)
        self.root(name).mkdir()

    def unmount(self, name: str) -> None:
        """Lose a disk for good."""
        _do("umount", "-l", str(self.folder / name))
        self._mounted.discard(name)

    def fill(self, name: str) -> None:
        disk = self.folder / name
        free = shutil.disk_usage(disk).free - (1 << 20)
        _do("fallocate", "-l", str(free), str(disk / "filler"))
        with suppress(OSError), (disk / "rest").open("wb", buffering=0) as file:
            while True:  # until it is full
                file.write(bytes(4096))

    def remount(self, name: str, how: str) -> None:
        """Mount a disk as ro or rw, in a moment in which no process has a file open to write it."""
        command = ("mount", "-o", f"remount,{how}", str(self.folder / name))
        self.until(f"remount,{how}", lambda: why_failed(*command) is None, pause_s=0.005)

    def freeze(self, name: str) -> None:
        _do("fsfreeze", "--freeze", str(self.folder / name))
        self._frozen.add(name)

    def thaw(self, name: str) -> None:
        _do("fsfreeze", "--unfreeze", str(self.folder / name))
        self._frozen.discard(name)

    # Processes

    def _start(self, name: str, *command: str) -> None:
        with (self.logs / f"{name}.out").open("ab") as out, (self.logs / name).open("ab") as err:
            self._processes[name] = subprocess.Popen(
                command, cwd=CHECKOUT, env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(CHECKOUT), "KAFKA_ON_SPARK_CLUSTER": self.url}
        return {**os.environ, **own}

    def _port(self, name: str) -> str:
        if name not in self._ports:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._ports[name] = free.getsockname()[1]
        return str(self._ports[name])

    def serve(self, name: str, shift_s: int = 0) -> None:
        options = ("--log-format", "json", "--health-port", self._port(name))
        self._start(name, *_python("kafka_on_spark.cli", shift_s), "serve", *options)

    def write(self, name: str, shift_s: int = 0) -> None:
        client = (*_python("tests.rigs.drills.client", shift_s), self.url, str(self.notes))
        self._start(name, *client, name, TOPIC, str(PARTITIONS))

    def consume(self, name: str) -> None:
        what = ("--topic", TOPIC, "--group", "g", "--from-beginning", "--json", "-q")
        self._start(name, *_python("kafka_on_spark.cli"), "consume", *what)

    def signal(self, name: str, number: int) -> None:
        self._processes[name].send_signal(number)

    def stop(self, *names: str) -> None:
        """End processes as an operator does; one that does not end is wrong, and killed."""
        for name in names:
            self.signal(name, signal.SIGTERM)
        for process, name in [(self._processes.pop(name), name) for name in names]:
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                self.wrong.append(f"{name} did not end within {END_S_MAX} s of SIGTERM")
                process.kill()
                process.wait()

    def _produce_again_and_again(self) -> None:
        while not self._stop.wait(0.3):
            self.produce("shell", TOPIC)

    def produce(self, name: str, topic: str, filled_to: int = 0) -> int:
        """Append some lines by a call of the command line; note its answer, and return its code."""
        numbers = self._numbers.setdefault(name, itertools.count())
        sent = [*itertools.islice(numbers, LINES_OF_A_CALL)]
        lines = "".join(value_of(name, each).ljust(filled_to, ".") + "\n" for each in sent)
        done, took = self._call(f"produce --topic {topic} -q", lines)
        what = {"topic": topic, "first": sent[0], "count": len(sent), "took": took}
        notes = Notes(self.notes, name)
        # It does not say where they stand: to the verifier each may stand anywhere, as after a failure.
        notes.add("failed", **what, code=done.returncode, error=done.stderr)
        notes.close()
        return done.returncode

    def _call(
        self, words: str, lines: str = ""
    ) -> tuple["subprocess.CompletedProcess[str]", float]:
        """Call the command line with lines as its input; return its end, and how long it took."""
        begun, command = time.time(), [*_python("kafka_on_spark.cli"), *words.split()]
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, check=False,
            cwd=CHECKOUT, env=self._environment(),
        )  # fmt: skip
        return done, time.time() - begun

    # What an operator does

    def kos(self, words: str, code: int | None = 0, is_noted: bool = True) -> str:
        """Call the command line; return its output. Another exit code than `code` is wrong."""
        at = time.time() - self.fault_at
        done, took = self._call(words)
        if is_noted:
            ended = f"[exit code {done.returncode} after {took:.1f} s]"
            self.steps.append(f"{at:+.1f} s: $ kafka-on-spark {words}  {ended}")
            self.steps.append((done.stdout + done.stderr).strip()[:2000])
        if code is not None and done.returncode != code:
            self.wrong.append(f"`{words}` ended with {done.returncode}, not {code}")
        return done.stdout

    def asked(self, words: str) -> Any:
        """Return what a call that changes nothing answers."""
        return json.loads(self.kos(f"{words} --output json", is_noted=False))

    def fault(self, what: str) -> None:
        self.fault_at = time.time()
        self.say(f"  {what}")
        self.note(what)

    def note(self, what: str) -> None:
        self.steps.append(f"{time.time() - self.fault_at:+.1f} s: {what}")

    def expect(self, what: str, is_so: bool) -> None:
        self.note(f"{what}: {'yes' if is_so else 'NO'}")
        if not is_so:
            self.wrong.append(f"not so: {what}")

    def until(
        self, what: str, is_so: Callable[[], object], s_max: float = 60.0, pause_s: float = 0.3
    ) -> float:
        """Wait until something is so; return how long that took. It is wrong if it never is."""
        begun = time.monotonic()
        while not is_so():
            if time.monotonic() - begun > s_max:
                self.wrong.append(f"{what}: not within {s_max:g} s")
                break
            time.sleep(pause_s)
        return time.monotonic() - begun

    def heals(self) -> None:
        """Wait until all is healthy, and take note of how long that took from now on."""
        self.healthy_s.append(round(self.until("healthy", self.is_healthy, HEALTHY_S_MAX), 1))
        self.note("healthy")

    # What is seen

    def figures(self, serve: str) -> dict[str, float]:
        """Return the largest value of each figure of a serve's; none if it does not answer."""
        found = dict[str, float]()
        with suppress(OSError):
            url = f"http://127.0.0.1:{self._ports[serve]}/metrics"
            with urllib.request.urlopen(url, timeout=2) as answer:
                lines = answer.read().decode().splitlines()
            for name, _, value in (each.rpartition(" ") for each in lines if each[0] != "#"):
                name = name.partition("{")[0]
                found[name] = max(float(value), found.get(name, 0.0))
        return found

    def active(self) -> str | None:
        """Return the serve that says that it is the controller; None if not just one does."""
        found = [each for each in SERVES if self.figures(each).get(ACTIVE)]
        return found[0] if len(found) == 1 else None

    def is_healthy(self) -> bool:
        active = self.active()
        seen = self.figures(active) if active else {}
        return all(seen.get(each, most + 1) <= most for each, most in HEALTHY.items())

    def _seen(self) -> Iterator[tuple[tuple[int, int], tuple[str, int], float]]:
        """Yield where each record stands that the group saw, what it is, and its time."""
        for file in self.logs.glob("member-*.out"):
            for each in (json.loads(line) for line in file.open() if line.endswith("\n")):
                at = each["partition"], each["offset"]
                yield at, number_of(each["value"].encode()), _seconds(each["timestamp"])

    def _read_by_group(self) -> set[tuple[tuple[int, int], tuple[str, int]]]:
        return {(at, sent) for at, sent, stamp in self._seen() if stamp >= self.cut_at}

    def times_off(self, sender: str) -> tuple[float, float]:
        """Return the least and the most of records' times less those of their acknowledgements, in s."""
        times = {at: stamp for at, _, stamp in self._seen()}
        lines = [line for name, line in read_notes(self.notes) if name == sender]
        acked = [(tuple(line["runs"][0][:2]), line["at"]) for line in lines if "runs" in line]
        off = [round(times[at] - told, 1) for at, told in acked if at in times]
        return min(off), max(off)

    def verify(self, may_lose: str) -> dict[str, Any]:
        """Stop the writers and have the group read to the end. Compare what was acknowledged, which
        is read first, the log, and what the group saw; return counts and times."""
        self._stop.set()
        self.stop(*(each for each in self._processes if each.startswith("sender")))
        self._loop.join()
        notes = [*read_notes(self.notes)]
        acked = [line for name, line in notes if name in ("sender", "sender-again") and "runs" in line]  # fmt: skip
        places = [line["runs"][0][0] for line in acked]
        times = [[line["at"] for line, at in zip(acked, places, strict=True) if at == each] for each in range(PARTITIONS)]  # fmt: skip
        calls = [line for name, line in notes if name == "shell"]
        counts: Counter[str] = Counter()
        with Cluster.open(self.url) as cluster:
            for topic in self.topics:
                kept = [each for each in notes if each[1]["at"] >= self.cut_at]
                found = [*self._differences(cluster, topic, kept)]
                counts.update(next(kind for words, kind in KINDS.items() if words in each) for each in found)  # fmt: skip
                self.wrong += [] if topic == may_lose else bounded(found)
        return {
            "counts": {each: counts[each] for each in KINDS.values()},
            "acknowledged": len(acked),
            "stood": [_gap([each["at"] for each in acked]), *sorted(map(_gap, times))[:: PARTITIONS - 1]],
            "calls": [len(calls), sum(line["code"] != 0 for line in calls), round(max(line["took"] for line in calls), 1)],
            "seen_twice": sum(stamp >= self.cut_at for _, _, stamp in self._seen()) - len(self._read_by_group()),
        }  # fmt: skip

    def _differences(
        self, cluster: Cluster, topic: str, notes: Sequence[tuple[str, dict[str, Any]]]
    ) -> Iterator[str]:
        records, offsets = read_records(cluster, topic), cluster.offsets(topic)
        starts = {number: int(each.log_start_offset) for number, each in offsets.items()}
        yield from topic_findings(topic, notes, records, starts)
        rows = {((number, each[0]), tuple(each[1:])) for number in records for each in records[number]}  # fmt: skip
        there = {sent for _, sent in rows}
        for name, line in notes:
            # What calls of `produce` appended, if no record was deleted since.
            if line.get("code") == 0 and line["topic"] == topic and not any(starts.values()):
                sent = {(name, line["first"] + each) for each in range(line["count"])}
                yield from (f"{each} was acknowledged, and is nowhere" for each in sent - there)
        if topic == TOPIC:
            self.until("the group reads to the end", lambda: rows <= self._read_by_group(), 120, 1)
            yield from (f"the group never saw {each}" for each in rows - self._read_by_group())

    def check(self) -> None:
        """Have fsck look at all; what it finds something in is kept."""
        self.kos("fsck")
        if self.wrong:  # evidence
            for name in self._mounted:
                shutil.copytree(self.root(name), self.folder / "kept" / name, dirs_exist_ok=True)

    def sentences(self) -> list[str]:
        """Return what a person reads, each sentence of each process once, with its first time and how often:
        the serves' logs, what clients print to standard error, and what producers are answered."""
        said = [(line["at"], name, line["error"]) for name, line in read_notes(self.notes) if line.get("error")]  # fmt: skip
        for file in (each for each in self.logs.iterdir() if each.suffix != ".out"):
            for line in file.read_text(errors="replace").splitlines():
                if line.startswith("{"):
                    entry = json.loads(line)
                    if entry["level"] != "INFO" or not entry["logger"].endswith(QUIET):
                        text = f"{entry['level']} {entry['message']}"
                        said.append((_seconds(entry["time"]), file.name, text))
                elif file.name != "prometheus":
                    at, _, text = line.partition(" WARNING ")
                    said.append((_seconds(at), file.name, text) if text else (time.time(), file.name, line))  # fmt: skip
        first, often = dict[tuple[str, str], str](), Counter[tuple[str, str]]()
        for at, who, text in sorted(said):
            text = " ".join(text.split())[:900]
            key = who, re.sub(r"(?<!broker )\b[0-9a-f]*\d[0-9a-f.]*", "#", text)
            first.setdefault(key, f"{at - self.fault_at:+.1f} s {who}: {text}")
            often[key] += 1
        return [f"{text} (×{often[key]})".removesuffix(" (×1)") for key, text in first.items()]

    # Alerts

    def _start_prometheus(self) -> None:
        if shutil.which("prometheus") is None:
            return
        rules = (CHECKOUT / "docs" / "service" / "alerts.yaml").read_text()
        hurried = re.sub(r"\b(\d+)([mhd])\b", lambda each: f"{int(each[1]) * UNITS_S[each[2]] // HURRY}s", rules)  # fmt: skip
        (self.folder / "alerts.yaml").write_text(hurried)
        targets = [{"targets": [f"127.0.0.1:{self._port(each)}" for each in SERVES]}]
        config = {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
            "rule_files": ["alerts.yaml"],
            "scrape_configs": [{"job_name": "drill", "static_configs": targets}],
        }
        file = self.folder / "prometheus.json"
        file.write_text(json.dumps(config))
        at = f"--web.listen-address=127.0.0.1:{self._port('prometheus')}"
        options = (f"--config.file={file}", f"--storage.tsdb.path={self.folder / 'tsdb'}", at)
        self._start("prometheus", *DIES_WITH_US, "prometheus", *options)

    def alerts(self) -> list[str] | None:
        """Return the alerts that fired, without KafkaOnSpark before their names; None: not asked."""
        if "prometheus" not in self._ports:
            return None
        asked = 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))'
        url = f"http://127.0.0.1:{self._port('prometheus')}/api/v1/query?"
        with urllib.request.urlopen(url + urllib.parse.urlencode({"query": asked})) as answer:
            rows = json.load(answer)["data"]["result"]
        return sorted(each["metric"]["alertname"].removeprefix("KafkaOnSpark") for each in rows)


def _python(module: str, shift_s: int = 0) -> tuple[str, ...]:
    how = ("-c", SHIFTED, str(shift_s)) if shift_s else ("-m",)
    return (*DIES_WITH_US, sys.executable, *how, module)


def _gap(times: Sequence[float]) -> float:
    pairs = itertools.pairwise(sorted(times))
    return round(max((later - earlier for earlier, later in pairs), default=0.0), 1)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.strip().replace(",", ".")).timestamp()


def _do(*command: str) -> None:
    if (error := why_failed(*command)) is not None:
        raise RigError(f"{' '.join(command)}: {error}")
