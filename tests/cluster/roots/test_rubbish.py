"""Rubbish in the place of each file of a small cluster, in turn: nothing else is taken down.

What fails is a sentence of ours, about the replica or the log whose file it is. Other partitions
are appended to, read, swept and checked as if nothing had happened.
"""

import os
import random
import shutil

import pytest

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.fsck.cluster_audit import check_cluster
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.records import Stamp
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import Disks, records, values_of
from tests.cluster.folders import quick_folder

SEED = 29

VICTIMS = ("led", "followed")
"""Topics with a replica on broker 1, whose files are damaged: its leader is that one, or not."""


def halve(path, content):
    path.write_bytes(content[: len(content) // 2])


def flip(path, content):
    place = len(content) // 2
    path.write_bytes(content[:place] + bytes([content[place] ^ 0x20]) + content[place + 1 :])


def folder(path, content):
    path.unlink()
    path.mkdir()


def link(path, content):
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


def pipe(path, content):
    path.unlink()
    os.mkfifo(path)


def lengthen(path, content):
    """Sparsely: that takes no room on a disk, and all memory of who reads it."""
    os.truncate(path, 2**40)


def written(rubbish):
    return lambda path, content: path.write_bytes(rubbish)


DAMAGE = {
    "empty": written(b""),
    "half": halve,
    "a bit": flip,
    "nested brackets": written(b"[" * 100_000),
    "half a character in an add": written(
        b'{"add":{"path":"\\udfff","partitionValues":{"base_offset":"\\ud800"},"size":1,'
        b'"modificationTime":1,"dataChange":true}}\n'
    ),
    "a huge number": written(b'{"txn":{"appId":"log-end-offset","version":1' + b"0" * 5000 + b"}}"),
    "an object": written(b"{}\n"),
    "no text": written(b"\xff\xfe\x00\xd8"),
    "noise": written(random.Random(SEED).randbytes(5000)),
    "Parquet's name only": written(b"PAR1" + bytes(8) + b"PAR1"),
    "a folder": folder,
    "a pipe": pipe,
    "a terabyte": lengthen,
    "a link": link,
    "nothing": lambda path, content: path.unlink(),
}


def kinds_of(base):
    """Return the files that may be damaged, by what they are."""
    kinds = {}
    for path in sorted(base.rglob("*")):
        if path.is_file():
            kinds.setdefault(kind_of(path.relative_to(base)), []).append(path)
    return kinds


def kind_of(path):
    place = "metadata" if path.parts[0] == "meta" else path.parts[0]
    if path.name == "meta.properties":
        return f"{place} identity"
    if path.parent.name == "snapshots":
        return "metadata snapshot"
    if path.parent.name == "_delta_log":
        kind = path.name.lstrip("0123456789.") if path.name[0].isdigit() else path.name
        return f"{place} {kind}"
    return f"{place} data"


@pytest.fixture(scope="module")
def life():
    with quick_folder() as base, pytest.MonkeyPatch.context() as patched:
        patched.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)
        disks = Disks(base / "now")
        cluster = disks.create()
        cluster.create_topic("led", replica_assignment={0: [1, 2]})
        cluster.create_topic("followed", replica_assignment={0: [2, 1]})
        cluster.create_topic("other", replica_assignment={0: [2, 3]})
        for number in range(11):
            for topic in (*VICTIMS, "other"):
                cluster.append(topic, records(b"%d" % number))
        image = cluster.image
        log = DeltaMetadataLog(cluster.root, StorageOptions())
        log.write_snapshot(snapshot_records(image), Stamp(time_ms=image.time_ms), image.offset)
        cluster.append("led", records(b"after the snapshot"))
        cluster.close()
        shutil.copytree(disks.base, base / "before")
        yield disks


@pytest.fixture
def restored(life, monkeypatch):
    monkeypatch.setattr(delta_log, "RECHECK_SECONDS", 0.01)
    shutil.rmtree(life.base)
    shutil.copytree(life.base.with_name("before"), life.base)
    replica_store.cache_clear()
    return life


OF_BROKER = ("identity", "json", "checkpoint.parquet", "_last_checkpoint", "data")
OF_METADATA = (*OF_BROKER, "snapshot")


def cases_of(place, kinds, first):
    """Return each damage with one of some kinds of files, in turn; half of them by default."""
    return [
        pytest.param(
            f"{place} {kinds[number // 2 % len(kinds)]}",
            name,
            marks=[pytest.mark.long] * ((number + first) % 2),
        )
        for number, name in enumerate(sorted(DAMAGE))
    ]


def damage(disks, kind, name):
    path = random.Random(f"{SEED} {kind} {name}").choice(kinds_of(disks.base)[kind])
    DAMAGE[name](path, path.read_bytes())


def own_errors_only(act):
    """Do what may fail, by an error of ours that is a sentence."""
    try:
        return act()
    except KafkaOnSparkError as error:
        return checked(error)


def checked(error):
    assert "\n" not in str(error)
    assert len(str(error)) < 2000
    return error


@pytest.mark.parametrize("kind, name", cases_of("broker-1", OF_BROKER, 0))
def test_rubbish_on_one_brokers_root_stops_no_other_partition(restored, kind, name):
    damage(restored, kind, name)

    with Cluster.open(restored.metadata_root) as cluster:
        for topic in VICTIMS:
            own_errors_only(
                lambda topic=topic: cluster.append(topic, records(b"new"), timeout_ms=300)
            )
            own_errors_only(lambda topic=topic: cluster.read(topic))
        assert cluster.append("other", records(b"new")).record_count == 1
        assert values_of(cluster, "other") == [*(b"%d" % each for each in range(11)), b"new"]
        assert cluster.replicate(is_sweep=True).partition_count >= 0
        cluster.run_controller()
        for topic in VICTIMS:
            own_errors_only(lambda topic=topic: cluster.read(topic))
        assert cluster.append("other", records(b"last")).record_count == 1
    report = check_cluster(str(restored.metadata_root))
    assert not [
        each
        for each in report.findings
        if each.place.partition is not None and each.place.partition.topic == "other"
    ]


@pytest.mark.parametrize("kind, name", cases_of("metadata", OF_METADATA, 1))
def test_rubbish_on_the_metadata_root_is_said_or_does_no_harm(restored, kind, name):
    damage(restored, kind, name)

    opened = own_errors_only(lambda: Cluster.open(restored.metadata_root))
    if isinstance(opened, Cluster):
        with opened as cluster:
            own_errors_only(lambda: cluster.append("other", records(b"new"), timeout_ms=300))
            own_errors_only(lambda: cluster.read("other"))
            own_errors_only(lambda: cluster.replicate(is_sweep=True))
            own_errors_only(cluster.run_controller)
            own_errors_only(cluster.history)
    own_errors_only(lambda: check_cluster(str(restored.metadata_root)))


def test_every_kind_of_file_is_damaged(life):
    """So that none is forgotten when files come that are not there yet."""
    found = set(kinds_of(life.base.with_name("before")))

    expected = {f"metadata {kind}" for kind in OF_METADATA}
    for number in (1, 2, 3):
        expected |= {f"broker-{number} {kind}" for kind in OF_BROKER}
    assert found == expected
