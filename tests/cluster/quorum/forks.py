"""Forks of copied clusters: killed at a write, and of copies that were made under load."""

import importlib
import os
import shutil
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.controller import fork as forking
from kafka_on_spark.store.roots import RootFiles, StorageOptions
from tests.cluster.disks import FAST, records, values_of
from tests.cluster.scripts import Started
from tests.cluster.serving.processes import wait_for
from tests.cluster.voters import bring_up, end_calls

BROKERS = (1, 2, 3)


def brokers_of(base, ids=BROKERS):
    return {each: f"{base}/{each}" for each in ids}


def copy_live(base, target):
    """Copy a root that is written to, as `cp -r` does: a file that has vanished is left out."""
    with suppress(shutil.Error):
        shutil.copytree(base, target)


def roots_of(base, voters):
    return [f"{base}/m{number}" for number in range(1, voters + 1)]


def copy(base, target, options=None):
    """Copy a folder to another one, or to a prefix of a store."""
    if options is None:
        shutil.copytree(base, target)
        return target
    files = RootFiles(target, StorageOptions(options))
    for path in filter(Path.is_file, Path(base).rglob("*")):
        files.write(f"{target}/{path.relative_to(base)}", path.read_bytes())
    return target


def create(base, voters=1, ids=BROKERS):
    cluster = Cluster.create(roots_of(base, voters), brokers_of(base, ids), configs=FAST)
    cluster.create_topic("orders", replica_assignment={0: list(ids)})
    cluster.append("orders", records(b"1", b"2"))
    cluster.append("orders", records(b"3"))
    cluster.replicate()
    return cluster


def settle(cluster):
    bring_up(cluster)
    end_calls(cluster)


def logs_of(cluster):
    partition = cluster.describe_topic("orders").partitions[0]
    return (*values_of(cluster, "orders"),), partition.isr, partition.offsets.high_watermark


def table_of(base, broker_id):
    [table] = (base / str(broker_id)).glob("orders-*/0-*")
    return table


def newest_segment(table):
    return max(table.glob("*.parquet"), key=lambda each: each.stat().st_mtime_ns)


def later_brokers(folder, voters=1):
    """Copy the metadata, then brokers that were led by others since and have more; the last files of
    two are missing."""
    with create(folder / "prod", voters) as cluster:
        settle(cluster)
        trial = folder / "trial"
        for root in roots_of(folder / "prod", voters):
            copy(root, trial / Path(root).name)
        for _ in range(3):  # each election fences tables at a later epoch
            cluster.drain_broker(1)
            cluster.append("orders", records(b"later"))
            cluster.resume_broker(1)
            cluster.elect_leaders()
        cluster.append("orders", records(b"last"))
        cluster.replicate()
        settle(cluster)
        for broker_id in BROKERS:
            copy(folder / "prod" / str(broker_id), trial / str(broker_id))
    for broker_id in (1, 2):
        newest_segment(table_of(trial, broker_id)).unlink()
    return trial


def fork_until(trial, base, voters, at, options):
    """Fork a new copy, in a process that dies before its write number `at`."""
    copy(trial, base, options)
    writes = count(1)

    def dying(write):
        def counted(*given, **named):
            if next(writes) == at:
                os._exit(9)
            return write(*given, **named)

        return counted

    with (
        patch.object(RootFiles, "write_all", dying(RootFiles.write_all)),
        patch.object(RootFiles, "_put", dying(RootFiles._put)),
        patch.object(forking, "check_conditional_puts", lambda root, options: None),
    ):
        Cluster.fork(roots_of(base, voters), brokers_of(base), storage_options=options)
    os._exit(0)


def fork_each_until(trial, bases, voters, options):
    for name in ("pandas", "prometheus_client", "pyarrow.compute"):  # once, and not in each child
        importlib.import_module(name)
    for at, base in bases:
        child = os.fork()
        if child == 0:
            fork_until(trial, base, voters, at, options)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(1, f"{code}\n".encode())
        if code != 9:
            break


def check_each_kill(trial, folder, voters, step, options=None):
    """Kill forks of a copy at one of `step` writes each: each is refused until it is called again,
    and all become the same. `folder`: where their copies are to be, on a disk or a store."""
    bases = [(at, f"{folder}/trial-{at}") for at in range(1, 90, step)]

    codes = Started(fork_each_until, trial, bases, voters, options).rest(300).split()

    killed = codes.count("9")
    assert codes == ["9"] * killed + ["0"]
    assert killed * step > 12
    results = set()
    for place, (_, base) in enumerate(bases[: killed + 1]):
        roots = roots_of(base, voters)
        if place < killed:
            with pytest.raises(KafkaOnSparkError, match="cluster --fork"):
                Cluster.open(roots, storage_options=options)
            Cluster.fork(roots, brokers_of(base), storage_options=options)
        with Cluster.open(roots, storage_options=options) as forked:
            results.add((*logs_of(forked), len(forked.image.brokers)))
            assert place % 4 or forked.fsck().findings == ()
    assert len(results) == 1


def hold(cluster, duration_ms):
    until_ms = cluster._node.clock.now_ms() + duration_ms if duration_ms else None
    cluster.alter_cluster_configs({"delete.hold.until.ms": until_ms})


class Load:
    """Appends numbers, one after the other, until it is stopped; `acknowledged`: so many were."""

    def __init__(self, cluster):
        self.acknowledged, self._cluster, self._is_over = 0, cluster, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._is_over.is_set():
            self._cluster.append("orders", records(str(self.acknowledged).encode()))
            self.acknowledged += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()


def copied_under_load(prod, target, copy_root, options=None):
    """Copy roots while records are appended; return how many were acknowledged before."""
    metadata, brokers = f"{prod}/m1", {each: f"{prod}/{each}" for each in BROKERS}
    configs = {**FAST, "min.insync.replicas": "2", "delivery.timeout.ms": "60000"}
    with Cluster.create(metadata, brokers, configs=configs, storage_options=options) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        hold(cluster, 600_000)
        with Load(cluster) as load:
            wait_for(lambda: load.acknowledged >= 20)
            before = load.acknowledged
            for name in ("m1", *map(str, BROKERS)):
                copy_root(f"{prod}/{name}", f"{target}/{name}")
                goal = load.acknowledged + 3
                wait_for(lambda goal=goal: load.acknowledged >= goal)
        bring_up(cluster)
    return before


def check_forked(target, before, options=None):
    brokers = {each: f"{target}/{each}" for each in BROKERS}
    report = Cluster.fork(f"{target}/m1", brokers, storage_options=options)
    assert report.lost == ()
    with Cluster.open(f"{target}/m1", storage_options=options) as forked:
        forked.append("orders", records(b"of the copy"))
        found = values_of(forked, "orders")
        assert found == [*(str(each).encode() for each in range(len(found) - 1)), b"of the copy"]
        assert len(found) > before
        for _ in range(6 if report.not_whole else 0):  # a listing may have lacked a commit
            forked.run_controller()
            forked.replicate(is_sweep=True)
        assert forked.fsck().findings == (), report
