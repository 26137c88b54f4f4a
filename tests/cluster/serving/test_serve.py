"""`serve` as a supervisor sees it: real processes, probes, signals, and roots that go away."""

import logging
import threading
import time

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.console import serving
from kafka_on_spark.console.serving import ServedCluster
from kafka_on_spark.controller.lease import Term
from kafka_on_spark.controller.replica_tables import TableRemoval
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import new_disks, records
from tests.cluster.folders import quick_folder, roots_in
from tests.cluster.serving.processes import WAIT_S_MAX, served, wait_for

QUICK = {
    "controller.lease.ms": 1500,
    "broker.heartbeat.interval.ms": 100,
    # A test's own appends and what is served conflict, and a busy machine takes its time for both.
    "delivery.timeout.ms": 120_000,
}
END_MS = 30_000


@pytest.fixture
def disks():
    with new_disks(configs=QUICK) as disks:
        disks.cluster.create_topic("orders", partitions=2, replication_factor=3)
        disks.cluster.append("orders", records(b"first"))
        yield disks


class InProcess:
    """A cluster that threads of the test's process serve."""

    def __init__(self, root):
        self.served = ServedCluster(str(root), StorageOptions(), None)
        self.served.begin()

    def is_healthy(self):
        return self.served.health()["ok"]

    def becomes_ready(self):
        def is_it():
            found = self.served.readiness()
            return found["ok"] and found["role"] == "controller"

        wait_for(is_it)

    def says(self, words):
        """Wait until it is not ready, for that reason."""
        wait_for(lambda: any(words in each for each in self.served.readiness()["reasons"]))


@pytest.fixture
def serve(disks):
    started = []

    def begin():
        started.append(InProcess(disks.metadata_root))
        return started[-1]

    yield begin
    for each in started:
        each.served.end(END_MS)


@pytest.mark.long
def test_of_two_processes_one_stands_by_and_takes_over_from_a_frozen_and_a_killed_one(disks):
    with served(disks.metadata_root, 2) as both:
        roles = wait_for(lambda: _roles_of_a_pair(both))
        first, second = both if roles[0] == "controller" else both[::-1]

        first.freeze()
        second.becomes("controller")
        first.thaw()
        status, body = first.ask("/readyz")
        assert (status, body["role"]) != (200, "controller"), "it has slept past its lease"
        first.becomes("standby")
        second.process.kill()
        first.becomes("controller")

        began = time.monotonic()
        code = first.end()
        took_s = time.monotonic() - began

    assert code == 0
    assert took_s < WAIT_S_MAX
    assert disks.cluster.image.controller.controller_id is None  # it has resigned
    assert "ends: told to by SIGTERM" in first.messages
    assert {"time", "level", "logger", "pid", "thread", "message"} <= first.log[0].keys()
    assert disks.cluster.fsck().findings == ()


def _roles_of_a_pair(processes):
    """Return as what they are ready, once one is the controller. They were asked one after the other:
    one that was starved for a lease may have lost it in between."""
    answers = [each.ask("/readyz") for each in processes]
    assert [each.ask("/healthz")[0] for each in processes] == [200, 200]
    roles = [body["role"] for status, body in answers if status == 200]
    return sorted(roles) == ["controller", "standby"] and roles


def test_a_process_ends_with_a_sentence_where_there_is_no_cluster(tmp_path):
    with served(tmp_path / "nothing") as [process]:
        code = process.wait()

    assert code == 2
    assert len(process.log) == len(process.lines), "each line is JSON"
    assert process.log[-1]["level"] == "CRITICAL"
    assert "there is no cluster at" in process.log[-1]["message"]


def test_the_controller_logs_once_that_a_voter_is_lost_and_once_that_it_is_back(caplog):
    caplog.set_level(logging.INFO, "kafka_on_spark.controller.failures")
    with quick_folder() as folder:
        roots = roots_in(folder)
        Cluster.create(roots, {1: folder / "1"}, configs=QUICK).close()
        lost, away = roots[2], folder / "away"
        serving = InProcess(",".join(map(str, roots)))
        try:
            serving.becomes_ready()
            lost.rename(away)
            wait_for(lambda: caplog.messages)
            away.rename(lost)
            wait_for(lambda: caplog.messages[1:])
        finally:
            serving.served.end(END_MS)

    begun, over = caplog.records
    name, _ = over.getMessage().split(": is over after ")
    assert name.startswith("voter 3:")
    assert name.endswith(f":{lost}")
    assert begun.getMessage().startswith(f"{name}: ")
    assert (begun.levelname, over.levelname) == ("WARNING", "INFO")


def test_it_waits_for_a_metadata_root_that_is_away_and_says_so(disks, serve):
    away = disks.base / "away"
    serving = serve()
    serving.becomes_ready()

    disks.metadata_root.rename(away)
    serving.says("is away")
    assert serving.is_healthy()
    away.rename(disks.metadata_root)

    serving.becomes_ready()
    assert serving.served.failure is None


def test_each_of_a_pair_logs_once_that_a_broker_is_fenced_and_unfenced(disks, serve, caplog):
    def said():
        given = (each for each in caplog.records if each.levelno == logging.WARNING)
        words = (each.getMessage().partition(":")[0] for each in given)
        return [each for each in words if each.startswith("broker 2 is ")]

    for each in (serve(), serve()):
        wait_for(lambda process=each: process.served.readiness()["ok"])
    disks.take_away(2)
    wait_for(lambda: len(said()) >= 2)
    disks.give_back(2)
    wait_for(lambda: len(said()) >= 4)

    assert sorted(said()) == ["broker 2 is fenced"] * 2 + ["broker 2 is unfenced"] * 2


def test_a_failure_that_names_another_file_each_time_is_logged_once(tmp_path, monkeypatch, caplog):
    served = ServedCluster(str(tmp_path), StorageOptions(), None)
    monkeypatch.setattr(served._clock, "sleep_ms", lambda _: None)

    for each in ("full: 0{:039}.parquet", "full: 0{:039}.parquet", "away"):
        served._wait_out("pass", KafkaStorageError(each.format(len(caplog.records) + 1)))
        served._wait_out("pass", KafkaStorageError(each.format(len(caplog.records) + 2)))

    assert [each.args[1].message[:4] for each in caplog.records] == ["full", "away"]


def test_a_loop_of_rounds_that_dies_ends_the_process(disks, serve, monkeypatch):
    def die(*_, **__):
        raise SystemExit("a bug")

    monkeypatch.setattr(serving, "replicate", die)
    begun = serve()

    assert begun.served.ended.wait(WAIT_S_MAX)
    assert "by an error of its own: SystemExit" in begun.served.failure


def test_a_pass_that_hangs_is_not_healthy_and_is_abandoned_at_the_end(disks, serve, monkeypatch):
    process = serve()
    process.becomes_ready()
    hung, thawed = threading.Event(), threading.Event()

    def hang(*_):
        hung.set()
        thawed.wait(WAIT_S_MAX)

    monkeypatch.setattr(process.served.node.part(TableRemoval), "clean", hang)
    assert hung.wait(WAIT_S_MAX)
    assert process.is_healthy()
    monkeypatch.setattr(serving, "STALLED_MS", 100)
    wait_for(lambda: not process.is_healthy())
    is_clean = process.served.end(100)
    thawed.set()

    assert not is_clean


def test_a_controller_is_not_ready_once_its_lease_may_be_anothers(disks, serve, monkeypatch):
    process = serve()
    process.becomes_ready()

    monkeypatch.setattr(Term, "renew", lambda _: None)
    process.says("its lease was last renewed")
    monkeypatch.undo()

    process.becomes_ready()
